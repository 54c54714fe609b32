"""Find the files of a workspace that belong into a snapshot, and put them into an index.

A repository inside the workspace is a folder of files under its own ignore rules. Git would record
it as a commit id and lose the content, so git never meets one: every repository is listed by itself
and only files are handed on.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runner.adapters.snapshot.git import Git, GitFailed, split

_LIST = ("ls-files", "-z", "--exclude-standard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A path of which the diff says nothing, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Paths relative to the workspace; a repository ends in a slash, the workspace is empty."""

    files: tuple[bytes, ...]
    repositories: tuple[bytes, ...]
    unreadable: tuple[bytes, ...]  # folders, each with a slash at its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Paths by what is on disk: a file or symlink, no such thing, or a file we may not read."""

    present: tuple[bytes, ...]
    gone: tuple[bytes, ...]
    unreadable: tuple[bytes, ...]


async def find_checkout(git: Git, workspace: Path) -> Path:
    """The folder whose ignore files count: the nearest one with a `.git`, else the workspace."""
    folder = _nearest_checkout(workspace)
    if folder == workspace:
        return workspace
    try:
        await git.at(folder, cwd=workspace).run("check-ignore", "--no-index", "-q", ".")
    except GitFailed:  # its way of saying no
        return folder
    return workspace  # all of it is ignored from above: those rules would hide every change


async def list_files(
    git: Git, checkout: Path, workspace: Path, excluded: Iterable[Path]
) -> Listing:
    """Every file and symlink that no ignore rule hides, inner repositories included."""
    hidden = _prefixes(workspace, excluded)
    files: list[bytes] = []
    unreadable: list[bytes] = []
    repositories = [b""]
    for repository in repositories:  # grows on the way
        place = _place(git, checkout, workspace, repository)
        names, complaints = await place.run(*_LIST, "--others")
        unreadable += _unreadable_folders(complaints, place.work_tree, workspace)
        for name in split(names):
            path = repository + name
            if not path.startswith(hidden):
                (repositories if path.endswith(b"/") else files).append(path)
    return Listing(
        files=tuple(files), repositories=tuple(repositories), unreadable=tuple(unreadable)
    )


async def list_ignored(
    git: Git, checkout: Path, workspace: Path, repositories: Iterable[bytes]
) -> tuple[set[bytes], set[bytes]]:
    """Ignored paths that are there: the untracked, and those the user's index tracks all the same.

    An ignored repository is one path with a slash at its end.
    """
    untracked: set[bytes] = set()
    tracked: set[bytes] = set()
    for repository in repositories:
        place = _place(git, checkout, workspace, repository)
        names = await place.paths(*_LIST, "--others", "--ignored")
        untracked.update(repository + name for name in names)
        tracked.update(repository + name for name in await _tracked_though_ignored(place))
    present = set(sort_out(workspace, tracked).present)
    return untracked - present, present


def sort_out(workspace: Path, paths: Iterable[bytes]) -> Sorted:
    """Look at each path without following a symlink, in folders no more than in files."""
    root = os.fsencode(workspace) + b"/"
    real_folders = {b"": not workspace.is_symlink()}

    def is_real(folder: bytes) -> bool:
        if folder not in real_folders:
            real_folders[folder] = is_real(folder.rpartition(b"/")[0]) and stat.S_ISDIR(
                _mode(root + folder)
            )
        return real_folders[folder]

    present: list[bytes] = []
    gone: list[bytes] = []
    unreadable: list[bytes] = []
    for path in paths:
        try:
            mode = _mode(root + path) if is_real(path.rpartition(b"/")[0]) else 0
        except PermissionError:
            unreadable.append(path)
            continue
        if stat.S_ISLNK(mode) or (stat.S_ISREG(mode) and os.access(root + path, os.R_OK)):
            present.append(path)
        else:
            (unreadable if stat.S_ISREG(mode) else gone).append(path)
    return Sorted(present=tuple(present), gone=tuple(gone), unreadable=tuple(unreadable))


async def stage(git: Git, paths: Iterable[bytes]) -> list[Skipped]:
    """Put files into the index; return those that could not be put there. Raises GitFailed."""
    wanted = list(paths)
    skipped: list[Skipped] = []
    try:
        complaints = await git.add(wanted)
    except GitFailed:
        # Git gives up at the first file it cannot read. Looking at each beforehand would cost every
        # run thousands of system calls, each a wait for the thread that imports the model layer.
        looked_at = await asyncio.to_thread(sort_out, git.work_tree, wanted)
        if not looked_at.unreadable:
            raise
        skipped = skip(looked_at.unreadable, "cannot be read")
        complaints = await git.add(list(looked_at.present))
    refused = [
        line.removeprefix(b"Ignoring path ")
        for line in complaints.splitlines()
        if line.startswith(b"Ignoring path ")
    ]
    return skipped + skip(refused, "git does not store this name")


def skip(paths: Iterable[bytes], reason: str) -> list[Skipped]:
    """One entry per path, in order of the paths."""
    return [Skipped(path=os.fsdecode(path), reason=reason) for path in sorted(paths)]


def _nearest_checkout(workspace: Path) -> Path:
    for folder in (workspace, *workspace.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    return workspace


def _place(git: Git, checkout: Path, workspace: Path, repository: bytes) -> Git:
    # With an index that does not exist all files are untracked, so that one listing has them all.
    index = git.git_dir / "no-index"
    if repository:
        return git.at(workspace / os.fsdecode(repository), index=index)
    return git.at(checkout, cwd=workspace, index=index)


async def _tracked_though_ignored(place: Git) -> list[bytes]:
    index = _users_index(place.work_tree)
    if index is None:
        return []
    try:
        return await place.at(place.work_tree, place.cwd, index).paths(
            *_LIST, "--cached", "--ignored"
        )
    except (
        GitFailed
    ):  # a split, sparse or SHA-256 index needs more of the user's `.git` than itself
        return []


def _users_index(checkout: Path) -> Path | None:
    dot_git = checkout / ".git"
    if dot_git.is_file():  # a linked worktree or a submodule
        pointer = os.fsdecode(dot_git.read_bytes()[:4096])
        dot_git = checkout / pointer.removeprefix("gitdir:").strip()
    index = dot_git / "index"
    return index if index.is_file() else None


def _unreadable_folders(complaints: bytes, work_tree: Path, workspace: Path) -> list[bytes]:
    # Git names them from the root of its work tree, which may be above or below the workspace.
    start = os.fsencode(workspace) + b"/"
    folders = (
        os.fsencode(work_tree) + b"/" + name.rstrip(b"/") + b"/"
        for name in re.findall(rb"^warning: could not open directory '(.*)': ", complaints, re.M)
    )
    return [folder.removeprefix(start) for folder in folders if folder.startswith(start)]


def _prefixes(workspace: Path, folders: Iterable[Path]) -> tuple[bytes, ...]:
    return tuple(
        os.fsencode(folder.relative_to(workspace)) + b"/"
        for folder in folders
        if folder.is_relative_to(workspace) and folder != workspace
    )


def _mode(path: bytes) -> int:
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
