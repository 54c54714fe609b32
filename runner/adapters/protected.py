"""What the agent may not change, for which reason, and whether it did.

Rules of this file:
* Patterns are those of gitignore, relative to the workspace; the last line that matches decides,
  so that `!pattern` lifts what stands before it. Defaults come first, then the checks, then the
  task's own files, then `protected_paths`.
* A file that is not there yet is protected too: a new one that matches is a change.
* Nothing is followed: a link is compared as a link, and a folder that became a link is a change.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from runner.adapters.check_scripts import scripts_of
from runner.adapters.folder_moves import FolderMoves
from runner.adapters.hooks import script_files
from runner.adapters.protected_scan import Seen, Tree, compiled, files_of, literal, look_at
from runner.core.events import RunnerProtection
from runner.core.shell import Script
from runner.core.spec import TaskSpec
from runner.ports import Sight

DEFAULTS = (
    "/.git/config",
    "/.git/config.worktree",
    "/.git/hooks/",
    "/.github/workflows/",
    "/.github/actions/",
    "/.gitlab-ci.yml",
    "/.gitlab/ci/",
    "/Jenkinsfile",
    "/.circleci/",
    "/.travis.yml",
    "/azure-pipelines.yml",
    "/.azure-pipelines/",
    "/bitbucket-pipelines.yml",
    "/.buildkite/",
    "/.drone.yml",
    "/.woodpecker.yml",
    "/.woodpecker/",
    "/.cirrus.yml",
    "/appveyor.yml",
    "/.teamcity/",
    "/.forgejo/workflows/",
    "/.gitea/workflows/",
)
"""Git's configuration and hooks, and what a CI system runs."""

_GLOB = re.compile(r"([*?\[\]\\!#])")

_DEFAULT = "by default: it steers git or the pipeline"
_SCRIPT = "a check of `verify`, a hook or a tool of the task runs it"
_SOURCE = "the task is written in it"
_SPEC = "by `protected_paths` of the task"


class Protection:
    """The protected paths of one run, wherever they are. Looks; changes and runs nothing."""

    def __init__(self, spec: TaskSpec, workspace: Path, parse: Callable[[str], Script]) -> None:
        """`workspace` is where tools work; `parse` tells what the commands of `verify` run."""
        self._workspace = workspace.resolve()
        original = Path(spec.workspace.path).resolve()
        inside = {Path(path): _inside(Path(path), original) for path in spec.sources}
        self._scripts = _scripts(spec, self._workspace, parse)
        self._own = tuple(_escaped(path) for path in inside.values() if path is not None)
        self._users = spec.protected_paths
        lines = (*DEFAULTS, *map(_escaped, self._scripts), *self._own, *self._users)
        self._tree = Tree(root=self._workspace, lines=lines)
        above = _checkout(self._workspace)
        self._trees = (self._tree, *self._other_trees(spec, above))
        self._task = tuple(
            p for p, name in inside.items() if name is None or self._workspace != original
        )
        self._files = (*self._task, *_pointer(above))
        self._moves = FolderMoves()

    def start(self) -> RunnerProtection:
        """What is protected, as it is now."""
        seen = self._look(())
        own = {str(path) for path in self._task}
        return RunnerProtection(
            entries={name: found.there for name, found in seen.items()},
            roots=tuple(tree.shown for tree in self._trees if tree.shown),
            patterns=self._tree.lines,
            scripts=tuple(name for name in seen if name in self._scripts),
            sources=tuple(
                name for name in seen if name in own or compiled(self._own).match_file(name)
            ),
        )

    async def look(self, known: tuple[str, ...]) -> Sight:
        """See the port."""
        return await asyncio.to_thread(self._sight, known)

    def why(self, path: Path) -> str | None:
        """Why this absolute path may not be written; None when it may."""
        if path in self._files:
            return _SOURCE if path in self._task else _DEFAULT
        for tree in self._trees:
            if path == tree.root or not path.is_relative_to(tree.root):
                continue
            line = tree.deciding(str(path.relative_to(tree.root)))
            if line is not None:
                return self._reason(line)
        return None

    def existing(self) -> tuple[Path, ...]:
        """Everything protected that is there: to be made read-only where that is possible."""
        return tuple(path for _, path in self._paths() if os.path.lexists(path))

    def missing(self) -> tuple[Path, ...]:
        """What is protected by its exact name and not there: to be kept from appearing."""
        places = {
            tree.root.joinpath(*parts)
            for tree in self._trees
            for line in tree.lines
            if not tree.at and not line.startswith("!") and not _GLOB.search(line)
            if (parts := literal(line)) and tree.deciding("/".join((*parts, "x"))) is not None
        }
        return tuple(sorted(place for place in places if not os.path.lexists(place)))

    def _reason(self, line: str) -> str:
        if line in self._users:
            return _SPEC
        if line in self._own:
            return _SOURCE
        return _DEFAULT if line in DEFAULTS else _SCRIPT

    def _other_trees(self, spec: TaskSpec, above: Path | None) -> Iterator[Tree]:
        """What has the defaults too: other roots, the checkout above, where its git is."""
        lines = (*DEFAULTS, *(line for line in self._users if line.startswith("!")))
        roots = [Path(path).resolve() for path in (*spec.add_dirs, spec.workspace.path)]
        for root in dict.fromkeys([*roots, *([] if above is None else [above])]):
            if root != self._workspace:
                yield Tree(root=root, lines=lines, shown=f"{root}/")
        for folder in _git_folders(above):
            yield Tree(root=folder, lines=lines, at=".git/", shown=f"{folder}/")

    def _paths(self) -> Iterator[tuple[str, Path]]:
        for tree in self._trees:
            yield from files_of(tree)
        yield from ((str(path), path) for path in self._files)

    def _sight(self, known: tuple[str, ...]) -> Sight:
        """Folders are watched before anything is looked at, and counted after."""
        paths = [self._workspace / name for name in known]
        paths += [path.resolve() / "x" for path in paths if path.is_symlink()]
        self._moves.watch(dict.fromkeys(folder for path in paths for folder in path.parents))
        seen = self._look(known)
        moves = {self._shown(path): str(count) for path, count in self._moves.counts().items()}
        return Sight(
            there={name: found.there for name, found in seen.items()},
            writes={**{name: found.mark for name, found in seen.items()}, **moves},
        )

    def _shown(self, folder: Path) -> str:
        """The name of a folder: it ends in a slash, as no name of a file does."""
        inside = folder.is_relative_to(self._workspace)
        return f"{folder.relative_to(self._workspace) if inside else folder}".rstrip("/") + "/"

    def _look(self, known: tuple[str, ...]) -> dict[str, Seen]:
        places = {name: self._workspace / name for name in known} | dict(self._paths())
        looked = ((name, look_at(path)) for name, path in places.items())
        return {name: seen for name, seen in looked if seen is not None}


def merged(before: RunnerProtection | None, now: RunnerProtection) -> RunnerProtection:
    """What a resumed session is held to: what was recorded first stands, where it still counts.

    The files the task is written in are taken as they are now: whoever resumes a session may
    change its task, and gives it by name.
    """
    if before is None:
        return now
    own = frozenset((*before.sources, *now.sources))
    first = {
        name: there
        for name, there in before.entries.items()
        if name not in own and (name in now.entries or _covers(now, name))
    }
    new = {
        name: there
        for name, there in now.entries.items()
        if name in own or (name not in first and not _covers(before, name))
    }
    scripts = dict.fromkeys((*before.scripts, *now.scripts))
    return replace(now, entries={**new, **first}, scripts=tuple(scripts))


def edited(before: RunnerProtection, now: RunnerProtection) -> tuple[str, ...]:
    """The files the task is written in that are not as they were."""
    return tuple(n for n in now.sources if before.entries.get(n) not in (None, now.entries[n]))


def _covers(protection: RunnerProtection, name: str) -> bool:
    """A file of this name would have been seen."""
    if Path(name).is_absolute():
        return name in protection.entries or name.startswith(protection.roots)
    return bool(compiled(protection.patterns).match_file(name))


def _escaped(relative: str) -> str:
    return "/" + _GLOB.sub(r"\\\1", relative)


def _inside(path: Path, folder: Path) -> str | None:
    """The path relative to the folder, not resolved: a link is protected as the link it is."""
    real = path.parent.resolve() / path.name
    return str(real.relative_to(folder)) if real.is_relative_to(folder) else None


def _checkout(workspace: Path) -> Path | None:
    return next((p for p in (workspace, *workspace.parents) if os.path.lexists(p / ".git")), None)


def _pointer(checkout: Path | None) -> tuple[Path, ...]:
    """The `.git` of a linked worktree or a submodule: it says where the configuration is."""
    dot_git = None if checkout is None else checkout / ".git"
    is_folder = dot_git is None or (dot_git.is_dir() and not dot_git.is_symlink())
    return () if is_folder or dot_git is None else (dot_git,)


def _git_folders(checkout: Path | None) -> tuple[Path, ...]:
    """Where git keeps configuration and hooks of a checkout whose `.git` is no folder of it."""
    if not (pointer := _pointer(checkout)) or checkout is None:
        return ()
    dot_git = pointer[0]
    try:
        text = dot_git.read_bytes()[:4096].decode("utf-8", "replace") if dot_git.is_file() else ""
        own = (checkout / text.removeprefix("gitdir:").strip()) if text else dot_git
        common = own / "commondir"
        shared = own / common.read_text().strip() if common.is_file() else own
        return tuple(dict.fromkeys((shared.resolve(), own.resolve())))
    except OSError:
        return ()


def _scripts(spec: TaskSpec, workspace: Path, parse: Callable[[str], Script]) -> tuple[str, ...]:
    """The files of the workspace that checks, hooks and custom tools run: as a program, or by an
    interpreter."""
    found: dict[str, None] = dict.fromkeys(script_files(spec, workspace))
    hooks = (hook for groups in spec.hooks.values() for g in groups for hook in g.hooks)
    commands = [one.run for one in spec.verify]
    commands += [
        one.command if one.args is None else shlex.join((one.command, *one.args)) for one in hooks
    ]
    commands += [shlex.join(tool.command) for tool in spec.custom_tools.values()]
    for command in commands:
        found.update(dict.fromkeys(scripts_of(command, workspace, parse)))
    return tuple(found)
