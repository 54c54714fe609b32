"""Copies and removes folders with everything in them, however deep a tool has nested them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import count
from pathlib import Path

Failure = tuple[str, str, str]
"""What could not be copied, where to, and why."""


def copy_tree(
    source: Path,
    target: Path,
    *,
    left_out: Collection[Path] = (),
    on_skip: Callable[[Path], None] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Copy a folder to `target`, which is not there yet; symlinks stay symlinks.

    Without the folders `left_out`, and without special files, of which `on_skip` hears: opening a
    FIFO would wait for its writer. Raises `OSError`: at the end, with a list of `Failure`, when
    something in it could not be copied; and as soon as it `is_stopped`, which is asked per file.
    """
    failures: list[Failure] = []
    folders = [(source, target)]
    for here, there in folders:  # it grows: what is found further down is copied later
        try:
            there.mkdir()
            with os.scandir(here) as entries:
                children = [entry for entry in entries if Path(entry.path) not in left_out]
        except OSError as error:
            failures.append((str(here), str(there), str(error)))
            continue
        for child in children:
            if is_stopped():
                raise OSError(errno.ECANCELED, "the copying was stopped", str(there))
            if child.is_dir(follow_symlinks=False):
                folders.append((Path(child.path), there / child.name))
            elif child.is_symlink() or child.is_file(follow_symlinks=False):
                failures += _copy_entry(child, there / child.name)
            elif on_skip is not None:
                on_skip(Path(child.path))
    for here, there in reversed(folders):  # at the end: a folder may be read-only
        with suppress(FileNotFoundError):  # it failed, see above
            shutil.copystat(here, there)
    if failures:
        raise shutil.Error(failures)


def _copy_entry(entry: os.DirEntry[str], target: Path) -> list[Failure]:
    try:
        if entry.is_symlink():
            target.symlink_to(Path(entry.path).readlink())
            shutil.copystat(entry.path, target, follow_symlinks=False)
        else:
            shutil.copy2(entry.path, target)
    except OSError as error:
        return [(entry.path, str(target), str(error))]
    return []


def remove_tree(folder: Path) -> None:
    """Remove a folder that is there. Raises `OSError`."""
    try:
        shutil.rmtree(folder)
    except (RecursionError, OSError) as error:  # it calls itself, and opens a file, at each level
        if isinstance(error, OSError) and error.errno != errno.EMFILE:
            raise
        _flatten(folder)
        folder.rmdir()


def _flatten(folder: Path) -> None:
    """Empty a folder; each folder in it is moved to the top before its turn, so no path is long."""
    names = (folder / f".removed-{os.getpid()}-{number}" for number in count())
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        with os.scandir(here) as entries:
            children = list(entries)
        for child in children:
            if child.is_dir(follow_symlinks=False):
                waiting.append(Path(child.path).rename(next(names)))
            else:
                Path(child.path).unlink()
        if here != folder:
            here.rmdir()
