"""Removes a folder with everything in it, however deep a tool has nested it."""

from __future__ import annotations

import errno
import os
import shutil
from itertools import count
from pathlib import Path


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
