"""Make the folder the tools work in: the user's own, or a copy of it.

Rules of this file:
* A copy keeps symlinks as symlinks, modes, times and `.git`. It does not keep owners or hard links,
  and leaves out sockets, FIFOs and devices. An absolute symlink still points where it pointed.
* A copy appears whole or not at all: what stands at `target_dir` is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, assert_never

from runner.adapters.trees import copy_tree, remove_tree

Isolation = Literal["none", "copy"]


class WorkspaceError(Exception):
    """The workspace cannot be used as the spec asks; the text says why."""


def prepare(
    path: Path,
    isolation: Isolation,
    target_dir: Path,
    *,
    excluded: Sequence[Path] = (),
    on_skip: Callable[[Path], None] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Path:
    """Return the folder to work in, resolved. Raises WorkspaceError; the original is only read.

    A copy is made at `target_dir`, which must not exist, without the `excluded` folders. `on_skip`
    hears of each special file that was left out, by its path in the original. This blocks while it
    copies, until it `is_stopped`; then nothing of the copy stays.
    """
    source = _existing_folder(path)
    match isolation:
        case "none":
            return source
        case "copy":
            return _copy(source, target_dir, excluded, on_skip, is_stopped)
        case _:
            assert_never(isolation)


def _existing_folder(path: Path) -> Path:
    try:
        source = path.resolve(strict=True)
    except FileNotFoundError:
        raise WorkspaceError(f"workspace does not exist: {path}") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symlinks
        raise WorkspaceError(f"workspace cannot be resolved: {path}: {error}") from error
    if not source.is_dir():
        raise WorkspaceError(f"workspace is not a folder: {path}")
    if not os.access(source, os.R_OK | os.X_OK):
        raise WorkspaceError(f"workspace cannot be read: {path}")
    return source


def _copy(
    source: Path,
    target_dir: Path,
    excluded: Sequence[Path],
    on_skip: Callable[[Path], None] | None,
    is_stopped: Callable[[], bool],
) -> Path:
    _refuse_shared_repository(source)
    if os.path.lexists(target_dir):
        raise WorkspaceError(f"workspace copy already exists: {target_dir}")
    partial = target_dir.with_name(target_dir.name + ".partial")
    # The copy may be made below the workspace: without this it would copy itself for ever.
    left_out = {folder.resolve() for folder in (partial, *excluded)}
    try:
        _remove(partial)  # of a run that was killed while it copied
        target_dir.parent.mkdir(parents=True, exist_ok=True)
        copy_tree(source, partial, left_out=left_out, on_skip=on_skip, is_stopped=is_stopped)
        partial.rename(target_dir)
    except OSError as error:
        raise WorkspaceError(f"workspace cannot be copied: {_first_cause(error)}") from error
    finally:
        _remove(partial)
    return target_dir.resolve()


def _remove(folder: Path) -> None:
    with suppress(OSError):
        remove_tree(folder)


def _refuse_shared_repository(source: Path) -> None:
    # A `.git` that points out of the workspace (a linked worktree, a submodule) would be copied as
    # a pointer, and a commit made in the copy would land in the original.
    dot_git = source / ".git"
    if dot_git.is_symlink():
        home = dot_git.resolve()
    elif dot_git.is_file():
        pointer = os.fsdecode(dot_git.read_bytes()[:4096])
        home = (source / pointer.removeprefix("gitdir:").strip()).resolve()
    else:
        return
    if not home.is_relative_to(source):
        raise WorkspaceError(
            f"workspace cannot be copied: {dot_git} points to {home}, which the copy would share; "
            "use a full clone, or isolation: none"
        )


def _first_cause(error: OSError) -> str:
    # `copy_tree` collects (source, target, why) for every file that failed.
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        failures = error.args[0]
        name, _, why = failures[0]
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return f"{name}: {why}{more}"
    return str(error)
