"""Paths that steer git, editors, shells and agents: no permission mode lets them be changed.

A rule can, and mode bypassPermissions does. What a run must leave as it is, whatever rules say,
are the `protected_paths` of its spec; they are another matter.
"""

from __future__ import annotations

from typing import Final

FOLDERS: Final = frozenset(
    [
        ".git",
        ".claude",
        ".vscode",
        ".idea",
        ".husky",
        ".devcontainer",
        ".cargo",
        ".yarn",
        ".mvn",
    ]
)
"""Names of folders, at every depth, with everything in them."""

FILES: Final = frozenset(
    [
        ".gitconfig",
        ".gitmodules",
        ".gitattributes",
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".bash_aliases",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
        ".zlogout",
        ".kshrc",
        ".cshrc",
        ".tcshrc",
        ".envrc",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".mcp.json",
        ".claude.json",
        ".devcontainer.json",
        ".pre-commit-config.yaml",
        "lefthook.yml",
        "lefthook.yaml",
        ".ripgreprc",
    ]
)
"""Names of files, at every depth."""


def sensitive_part(path: str, workspace: str) -> str | None:
    """The part of an absolute path that makes it sensitive; None when none does.

    Folders the workspace itself lies in do not count. Letter case does not matter: on some disks
    it is the same file.
    """
    prefix = workspace.rstrip("/") + "/"
    parts = path.removeprefix(prefix).split("/")
    return next((part for part in parts if part.lower() in FOLDERS | FILES), None)
