"""Tell what changed in a workspace since the start of a run: a list of files and a patch.

Rules of this package:
* Nothing of the user's git setup is run, and nothing of it is written (see `git.py`).
* Bytes are exact, except in what git has no words for: empty folders, special files, owners, times
  and modes beyond the executable bit. `.git` is left out, and so is, reported as skipped, what
  some system would take for it (`.GIT`, `git~1`).
* Ignore files count as in git, those of parent folders of the same checkout included; the user's
  own excludes (`info/exclude`, `core.excludesFile`) do not. What was recorded at the start, or is
  tracked by the user's index, stays in the diff whatever is ignored later. What was there but
  ignored at the start is never reported as added.
* A failure is a value, `Unavailable`. A gate on the diff must read it as "not proved".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from runner.adapters.snapshot.git import Git, GitFailed, join, prepare, split
from runner.adapters.snapshot.workfiles import (
    Skipped,
    find_checkout,
    list_files,
    list_ignored,
    skip,
    sort_out,
    stage,
)

__all__ = [
    "FileChange",
    "FileStatus",
    "Skipped",
    "Snapshot",
    "Unavailable",
    "WorkspaceDiff",
    "changes",
    "reopen",
    "take",
]

T = TypeVar("T")
FileStatus = Literal["added", "modified", "deleted", "renamed"]

_STATUS: dict[bytes, FileStatus] = {
    b"A": "added",
    b"D": "deleted",
    b"M": "modified",
    b"R": "renamed",
    b"T": "modified",  # file to symlink or back
}
_DIFF = ("diff-tree", "-r", "-M", "-l1000", "--full-index", "--no-ext-diff", "--no-textconv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """There is no snapshot or no diff, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The workspace as it was; the content is in `git_dir`."""

    git_dir: Path
    workspace: Path
    checkout: Path  # whose ignore files count: the workspace or a folder above it
    excluded: tuple[Path, ...]
    tree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One changed file; a path that is not UTF-8 has lone surrogates, as os.fsdecode makes them."""

    path: str
    old_path: str | None  # where a renamed file came from
    status: FileStatus
    lines_added: int
    lines_removed: int
    binary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceDiff:
    """What changed since the snapshot; the patch itself is the file at `patch_path`."""

    files: tuple[FileChange, ...]
    lines_added: int
    lines_removed: int
    skipped: tuple[Skipped, ...]
    patch_path: Path
    patch_bytes: int


async def take(
    git_dir: Path,
    workspace: Path,
    *,
    excluded: Sequence[Path] = (),
    timeout_s: float = 60.0,
    search_path: str = os.defpath,
) -> Snapshot | Unavailable:
    """Record the workspace in `git_dir`, in place of an earlier snapshot there.

    `excluded` are the runner's own folders that may lie in the workspace; `git_dir` always is one.
    Cancellation leaves no process and no snapshot.
    """
    return await _bounded(_take(git_dir, workspace, excluded, search_path), timeout_s)


def reopen(git_dir: Path) -> Snapshot | Unavailable:
    """Find the snapshot that an earlier process took."""
    try:
        saved = json.loads((git_dir / "baseline.json").read_text())
        return Snapshot(
            git_dir=git_dir.resolve(),
            workspace=Path(saved["workspace"]),
            checkout=Path(saved["checkout"]),
            excluded=tuple(Path(path) for path in saved["excluded"]),
            tree=saved["tree"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Unavailable(reason=f"no snapshot in {git_dir}: {error}")


async def changes(
    snapshot: Snapshot,
    patch_path: Path,
    *,
    timeout_s: float = 60.0,
    search_path: str = os.defpath,
) -> WorkspaceDiff | Unavailable:
    """Compare the workspace with the snapshot and write the patch, mode 0600, by rename.

    May be asked again and again: the snapshot stays as it is. Without a diff `patch_path` is left
    alone. Cancellation leaves no process and no temporary file.
    """
    return await _bounded(_changes(snapshot, patch_path, search_path), timeout_s)


async def _bounded(work: Awaitable[T], timeout_s: float) -> T | Unavailable:
    try:
        async with asyncio.timeout(timeout_s):
            return await work
    except TimeoutError:
        return Unavailable(reason=f"not done within {timeout_s:g} s")
    except (GitFailed, OSError) as error:
        return Unavailable(reason=str(error))


async def _take(
    git_dir: Path, workspace: Path, excluded: Sequence[Path], search_path: str
) -> Snapshot:
    git_dir, workspace, *hidden = _resolve(git_dir, workspace, git_dir, *excluded)
    for name in ("baseline.json", "index", "index.lock"):  # of an earlier, perhaps killed, run
        (git_dir / name).unlink(missing_ok=True)
    git = await prepare(git_dir, workspace, search_path)
    checkout = await find_checkout(git, workspace)
    listing = await list_files(git, checkout, workspace, hidden)
    ignored, kept = await list_ignored(git, checkout, workspace, listing.repositories)
    skipped = await stage(git.at(workspace), [*listing.files, *kept])
    unseen = {*ignored, *listing.unreadable, *(os.fsencode(entry.path) for entry in skipped)}
    (git_dir / "unseen").write_bytes(join(sorted(unseen)))
    snapshot = Snapshot(
        git_dir=git_dir,
        workspace=workspace,
        checkout=checkout,
        excluded=tuple(hidden),
        tree=os.fsdecode((await git.run("write-tree"))[0]).strip(),
    )
    _save(snapshot)
    return snapshot


def _resolve(*paths: Path) -> list[Path]:
    return [path.resolve() for path in paths]


def _save(snapshot: Snapshot) -> None:
    """Write what `reopen` reads. Done last, by rename: its presence says all the rest is there."""
    saved = {
        "tree": snapshot.tree,
        "workspace": str(snapshot.workspace),
        "checkout": str(snapshot.checkout),
        "excluded": [str(folder) for folder in snapshot.excluded],
    }
    partial = snapshot.git_dir / "baseline.partial"
    partial.write_text(json.dumps(saved))
    partial.replace(snapshot.git_dir / "baseline.json")


async def _changes(snapshot: Snapshot, patch_path: Path, search_path: str) -> WorkspaceDiff:
    git = await prepare(snapshot.git_dir, snapshot.workspace, search_path)
    with tempfile.TemporaryDirectory(dir=snapshot.git_dir, prefix="end-") as scratch:
        index = Path(scratch) / "index"
        if git.index.exists():  # there is none if nothing was recorded
            # With its time of change: git takes a file as unchanged only if it is older than that.
            shutil.copy2(git.index, index)
        end = git.at(snapshot.git_dir, index=index)
        skipped = await _stage_end(end, snapshot)
        tree = os.fsdecode((await end.run("write-tree"))[0]).strip()
    listed = await git.run(*_DIFF, "--raw", "--numstat", "-z", snapshot.tree, tree)
    files = _parse(listed[0])
    return WorkspaceDiff(
        files=files,
        lines_added=sum(file.lines_added for file in files),
        lines_removed=sum(file.lines_removed for file in files),
        skipped=tuple(skipped),
        patch_path=patch_path,
        patch_bytes=await _write_patch(git, snapshot.tree, tree, patch_path),
    )


async def _stage_end(git: Git, snapshot: Snapshot) -> list[Skipped]:
    """Bring an index that holds the snapshot up to the workspace as it is now."""
    workspace = snapshot.workspace
    recorded = await git.paths("ls-files", "-z", "--cached")
    if workspace.is_symlink() or not workspace.is_dir():  # removed, or pointed elsewhere
        await git.drop(recorded)
        return []
    now = await asyncio.to_thread(sort_out, workspace, recorded)
    # In the workspace: git writes the index anew and must see the files, to mark those that may
    # have changed in the very second in which they were recorded.
    await git.at(workspace).drop(list(now.gone))
    listing = await list_files(git, snapshot.checkout, workspace, snapshot.excluded)
    unseen = set(split((snapshot.git_dir / "unseen").read_bytes()))
    folders = tuple(path for path in unseen if path.endswith(b"/"))
    new = set(listing.files).difference(recorded)
    unknown = {path for path in new if path in unseen or path.startswith(folders)}
    skipped = await stage(git.at(workspace), [*now.present, *sorted(new - unknown)])
    return [
        *skip({*now.unreadable, *listing.unreadable}, "cannot be read"),
        *skip(unknown, "was there at the start, ignored or unreadable: its old content is unknown"),
        *skipped,
    ]


def _parse(listed: bytes) -> tuple[FileChange, ...]:
    """Read `--raw --numstat -z`: first an entry per file with its status, then one with counts."""
    found: dict[bytes, tuple[bytes, bytes | None]] = {}
    files: list[FileChange] = []
    fields = iter(split(listed))
    for field in fields:
        if field.startswith(b":"):
            letter, path = field.split(b" ")[4][:1], next(fields)
            found.update(
                {next(fields): (letter, path)} if letter == b"R" else {path: (letter, None)}
            )
            continue
        added, removed, path = field.split(b"\t", 2)
        if not path:  # a rename: both names follow
            _, path = next(fields), next(fields)
        letter, old_path = found[path]
        binary = added == b"-"
        files.append(
            FileChange(
                path=os.fsdecode(path),
                old_path=None if old_path is None else os.fsdecode(old_path),
                status=_STATUS[letter],
                lines_added=0 if binary else int(added),
                lines_removed=0 if binary else int(removed),
                binary=binary,
            )
        )
    return tuple(files)


async def _write_patch(git: Git, old_tree: str, new_tree: str, patch_path: Path) -> int:
    with _replacement(patch_path) as descriptor:
        # Git writes it, so that a patch of any size never is in our memory.
        await git.run(*_DIFF, "-p", "--binary", old_tree, new_tree, output=descriptor)
        return os.fstat(descriptor).st_size


@contextlib.contextmanager
def _replacement(path: Path) -> Iterator[int]:
    """A new file, mode 0600, that takes the place of `path` if the block succeeds."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    partial = Path(name)
    try:
        yield descriptor
        os.fsync(descriptor)
        partial.replace(path)
    finally:
        os.close(descriptor)
        partial.unlink(missing_ok=True)
