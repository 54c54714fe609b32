"""Which commit a checkout is at, read from the files of its repository.

Git is not asked: it would run what the repository's own settings name. Anything that does not look
like git's is no commit.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_REF = re.compile(r"ref: (refs/(?!.*\.\.)\S+)")
_MAX_BYTES = 16 * 1024 * 1024
"""A list of packed refs may be long; everything else is a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFolders:
    """A checkout's root, its own git folder, and the one it shares with other worktrees."""

    root: Path
    own: Path
    common: Path


def git_folders(folder: Path) -> GitFolders | None:
    """Where git keeps the checkout that `folder` is in. None when it is in none."""
    for place in (folder, *folder.parents):
        dot_git = place / ".git"
        if dot_git.is_dir():
            return GitFolders(root=place, own=dot_git, common=dot_git)
        if pointer := _text(dot_git):  # a linked worktree, or a submodule
            own = place / pointer.removeprefix("gitdir:").strip()
            common = own / (_text(own / "commondir").strip() or ".")
            return GitFolders(root=place, own=own, common=common)
    return None


def head_commit(folder: Path) -> str | None:
    """The commit at HEAD of the repository that `folder` is in. None without one."""
    found = git_folders(folder)
    return None if found is None else _head(found.own, found.common)


def _head(git_dir: Path, common_dir: Path) -> str | None:
    head = _text(git_dir / "HEAD").strip()
    if ref := _REF.fullmatch(head):
        head = _text(common_dir / ref[1]).strip() or _packed(common_dir, ref[1])
    return head if _COMMIT.fullmatch(head) else None


def _packed(common_dir: Path, ref: str) -> str:
    for line in _text(common_dir / "packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return ""


def _text(path: Path) -> str:
    """What the file holds; nothing if it cannot be read, or is no file (a FIFO would block)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
