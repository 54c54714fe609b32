"""A git worktree of the last commit for the tools to work in, made without running the repository.

Rules of this file:
* Git only registers the worktree in the user's repository; hooks and fsmonitor are off for that.
  The files are written by a git of our own that reads the same objects: no filter runs, so files
  kept by Git LFS stay pointers.
* It has the last commit and nothing that is uncommitted. Commits made in it are in the user's
  repository, as with any worktree; the user's files, index and branches are not touched.
* It stays with the session. `worktree_entry` takes it out of the repository's list again.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from runner.adapters.git_head import GitFolders, git_folders, head_commit
from runner.adapters.snapshot.git import Git, GitFailed, prepare
from runner.adapters.trees import remove_tree
from runner.adapters.workspace import WorkspaceError
from runner.adapters.worktree_entry import admin_of, unregister

RECORD = "worktree.json"
"""Beside the worktree once it is complete: where it is, and its place in the repository."""

_MAX_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """`path` is where tools work, in or at the root of the worktree; `uncommitted` says what the
    user's files have that the last commit, and so the worktree, has not."""

    path: Path
    commit: str
    uncommitted: str | None = None


def problem(workspace: Path) -> str | None:
    """Why there can be no worktree of this folder, and what to do; None when there can."""
    if git_folders(workspace) is None:
        return f"{workspace} is in no git repository, which isolation worktree needs; use copy"
    if head_commit(workspace) is None:
        return f"the repository of {workspace} has no commit yet; make one, or use isolation copy"
    return None


def reopened(folder: Path, name: str) -> Path | None:
    """Where tools work in the worktree an earlier run of the session made."""
    try:
        path = folder / name / json.loads((folder / RECORD).read_text())["below"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return path.resolve() if path.is_dir() else None


async def make(workspace: Path, folder: Path, name: str, *, search_path: str) -> Worktree:
    """Make the worktree `folder / name`. Raises `WorkspaceError`; then nothing of it stays."""
    workspace, target = _real(workspace), _real(folder / name)
    found, commit = _source(workspace)
    _discard(folder, target)  # of a run that was killed while it made it
    try:
        ours = await prepare(folder / "worktree-git", workspace, search_path)
        _borrow(ours, found.common)
        users = replace(ours, git_dir=found.own, work_tree=found.root, cwd=found.root)
        await users.run("worktree", "add", "--detach", "--no-checkout", str(target), commit)
        admin = admin_of(target)
        place = ours.at(target, index=admin / "index")
        await place.run("read-tree", commit)
        await place.run("checkout-index", "--all", "--force", "--index", "--quiet")
        below = workspace.relative_to(found.root)
        if not (target / below).is_dir():
            raise WorkspaceError(f"the last commit has no {below}; commit it, or use copy")
        told = await _uncommitted(ours, found.root, found.own, commit)
        _save(folder, {"admin": str(admin), "below": str(below), "commit": commit})
    except (GitFailed, OSError) as error:
        _discard(folder, target)
        raise WorkspaceError(f"no worktree of {workspace} can be made: {error}") from error
    except BaseException:
        _discard(folder, target)
        raise
    return Worktree(path=target / below, commit=commit, uncommitted=told)


def _source(workspace: Path) -> tuple[GitFolders, str]:
    """The repository of the workspace, and its last commit. Raises `WorkspaceError`."""
    if (why := problem(workspace)) is not None:
        raise WorkspaceError(why)
    found, commit = git_folders(workspace), head_commit(workspace)
    assert found is not None  # problem
    assert commit is not None  # problem
    return found, commit


def _real(path: Path) -> Path:
    return path.resolve()


def _borrow(ours: Git, common: Path) -> None:
    info = ours.git_dir / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_bytes(os.fsencode(common / "objects") + b"\n")


def _discard(folder: Path, target: Path) -> None:
    unregister(target)
    with suppress(OSError):
        (folder / RECORD).unlink()
    with suppress(OSError):
        remove_tree(target)


def _save(folder: Path, saved: dict[str, str]) -> None:
    partial = folder / f"{RECORD}.partial"
    partial.write_text(json.dumps(saved))
    partial.replace(folder / RECORD)


async def _uncommitted(ours: Git, root: Path, git_dir: Path, commit: str) -> str | None:
    """What the user's files have that the commit has not, in words; None when nothing."""
    index = ours.git_dir / "users-index"
    try:
        shutil.copy2(git_dir / "index", index)
        look = ours.at(root, index=index)
        with suppress(GitFailed):  # its way of saying that something differs
            await look.run("update-index", "-q", "--refresh")
        changed = await look.paths("diff-index", "--name-only", "-z", commit)
        new = await look.paths("ls-files", "-z", "--others", "--exclude-standard")
    except (GitFailed, OSError):
        return None  # an index that needs more of the repository than itself
    finally:
        index.unlink(missing_ok=True)
    if not changed and not new:
        return None
    named = [os.fsdecode(path) for path in [*changed, *new]]
    more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    return (
        f"the worktree is commit {commit[:12]}; uncommitted and so not in it: "
        f"{', '.join(named[:_MAX_NAMED])}{more}. Commit them, or use isolation copy"
    )
