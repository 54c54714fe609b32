"""Whole small files: read them, replace them, and know which the model has seen."""

from __future__ import annotations

import hashlib
import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from runner.core.events import FileEffect, FileState
from runner.ports import ToolFailure
from runner.tools.paths import (
    REGULAR,
    Place,
    Roots,
    errors_of,
    locate,
    opened,
    opened_parent,
    shown,
)

MAX_WHOLE_BYTES = 10 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file as it was read: its bytes, and the state its replacement keeps."""

    raw: bytes
    state: os.stat_result


def read_existing(place: Place) -> Content | None:
    """All of a regular file, None when there is none. Raises `ToolFailure`."""
    try:
        return read_whole(place)
    except ToolFailure as failure:
        if isinstance(failure.__cause__, FileNotFoundError):
            return None
        raise


def effect_of(place: Place, old: Content | None, raw: bytes) -> FileEffect:
    """The replacement of a file's content, as hashes."""
    before = None if old is None else hashlib.sha256(old.raw).hexdigest()
    return FileEffect(path=str(place.path), before=before, after=hashlib.sha256(raw).hexdigest())


def judge(
    roots: Roots, seen: SeenFiles, effect: FileEffect
) -> Literal["applied", "pending", "unknown"]:
    """Whether an announced effect happened. A file that is as it was counts as seen."""
    try:
        place = locate(roots, effect.path, to_write=True)
        now = read_existing(place)
    except ToolFailure:
        return "unknown"
    found = None if now is None else hashlib.sha256(now.raw).hexdigest()
    if now is not None and found in (effect.before, effect.after):
        seen.remember(place, now.raw)
    if found == effect.after:
        return "applied"
    return "pending" if found == effect.before else "unknown"


class SeenFiles:
    """What the model has read in this run, as hashes: nothing is overwritten unseen."""

    def __init__(self) -> None:
        self._hashes: dict[str, str] = {}

    def remember(self, place: Place, raw: bytes) -> FileState:
        """The model knows that `place` holds `raw`."""
        known = FileState(path=str(place.path), sha256=hashlib.sha256(raw).hexdigest())
        self.recall(known)
        return known

    def recall(self, known: FileState) -> None:
        """The same, from its hash."""
        self._hashes[known.path] = known.sha256

    def check(self, place: Place, raw: bytes) -> None:
        """Raises `ToolFailure` unless the model has seen exactly `raw`."""
        known = self._hashes.get(str(place.path))
        name = shown(str(place.path))
        if known is None:
            raise ToolFailure(f"{name} has not been read yet; Read it first, then change it")
        if known != hashlib.sha256(raw).hexdigest():
            raise ToolFailure(f"{name} has changed since it was read; Read it again first")


def read_whole(place: Place) -> Content:
    """All of a regular file. Raises `ToolFailure`, also when it is over `MAX_WHOLE_BYTES`."""
    with opened(place) as (fd, state):
        raw = bytearray()
        while len(raw) <= MAX_WHOLE_BYTES:
            chunk = os.read(fd, CHUNK_BYTES)
            if not chunk:
                return Content(raw=bytes(raw), state=state)
            raw += chunk
    raise ToolFailure(
        f"{shown(str(place.path))} is larger than {MAX_WHOLE_BYTES} bytes; "
        "read parts of it with offset and limit, and change it with Bash"
    )


def replace(place: Place, raw: bytes, before: os.stat_result | None) -> None:
    """Put `raw` in the place of a file, or where none was: a new file, renamed over the old.

    So a reader sees the old or the new content, and another hard link to the old file keeps it.
    Mode and owner are those of `before`. Raises `ToolFailure`.
    """
    if not place.parts:
        raise ToolFailure(f"{shown(str(place.path))} is a directory, not a regular file")
    with errors_of(place), opened_parent(place) as parent_fd:
        temporary, fd = _create(parent_fd)
        try:
            _fill(fd, raw, before)
            os.rename(temporary, place.parts[-1], src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
        except BaseException:
            os.unlink(temporary, dir_fd=parent_fd)
            raise


def _create(parent_fd: int) -> tuple[str, int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | REGULAR
    for number in itertools.count():
        name = f".autopilot-{os.getpid()}-{number}.tmp"
        with suppress(FileExistsError):
            return name, os.open(name, flags, 0o666, dir_fd=parent_fd)
    raise AssertionError("unreachable: the counter has no end")


def _fill(fd: int, raw: bytes, before: os.stat_result | None) -> None:
    try:
        rest = memoryview(raw)
        while rest:
            rest = rest[os.write(fd, rest) :]
        if before is not None:
            with suppress(PermissionError):
                os.fchown(fd, before.st_uid, before.st_gid)
            # After the owner: changing that clears bits of the mode.
            os.fchmod(fd, before.st_mode & 0o7777)
    finally:
        os.close(fd)
