"""Counts how often folders were renamed: a renamed folder leaves no mark on the files in it.

Linux only, by inotify, which sees whatever process does it. Elsewhere, and where the kernel has no
watch left, nothing is counted. Source: `inotify(7)`.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

MOVE_SELF, QUEUE_OVERFLOW = 0x800, 0x4000
ONLY_FOLDERS, FOLLOW_NO_LINK = 0x01000000, 0x02000000
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class FolderMoves:
    """The renames of watched folders, as far as this process has lived."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = -1
        self._watched: dict[int, Path] = {}
        self._moved: dict[Path, int] = {}
        self._lost = 0

    def watch(self, folders: Iterable[Path]) -> None:
        """From now on count the renames of these too; a link is no folder."""
        if self._fd < 0 and not self._open():
            return
        assert self._libc is not None
        for folder in folders:
            mask = MOVE_SELF | ONLY_FOLDERS | FOLLOW_NO_LINK
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask)
            if number >= 0:
                self._watched[number] = folder
                self._moved.setdefault(folder, 0)

    def counts(self) -> Mapping[Path, int]:
        """How often each watched folder was renamed, by the path at which it was watched."""
        with suppress(BlockingIOError):
            while self._fd >= 0 and (data := os.read(self._fd, _READ_BYTES)):
                self._count(data)
        return {folder: moved + self._lost for folder, moved in self._moved.items()}

    def _count(self, data: bytes) -> None:
        place = 0
        while place < len(data):
            number, mask, _, name_bytes = _EVENT.unpack_from(data, place)
            place += _EVENT.size + name_bytes
            if mask & QUEUE_OVERFLOW:
                self._lost += 1  # whatever it was, it was a great many renames
            elif mask & MOVE_SELF and number in self._watched:
                self._moved[self._watched[number]] += 1

    def _open(self) -> bool:
        with suppress(AttributeError):  # a C library without it
            if self._libc is not None:
                self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd >= 0:
            weakref.finalize(self, os.close, self._fd)
        return self._fd >= 0
