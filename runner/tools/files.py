"""Whole small files: read them, replace them, and know which the model has seen."""

from __future__ import annotations

import hashlib
import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner.ports import ToolFailure
from runner.tools.paths import REGULAR, Place, errors_of, opened, opened_parent, shown

MAX_WHOLE_BYTES = 10 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A file as it was read: its bytes, and the state its replacement keeps."""

    raw: bytes
    state: os.stat_result


class SeenFiles:
    """What the model has read in this run, as hashes: nothing is overwritten unseen."""

    def __init__(self) -> None:
        self._hashes: dict[Path, bytes] = {}

    def remember(self, place: Place, raw: bytes) -> None:
        """The model knows that `place` holds `raw`."""
        self._hashes[place.path] = hashlib.sha256(raw).digest()

    def check(self, place: Place, raw: bytes) -> None:
        """Raises `ToolFailure` unless the model has seen exactly `raw`."""
        known = self._hashes.get(place.path)
        name = shown(str(place.path))
        if known is None:
            raise ToolFailure(f"{name} has not been read yet; Read it first, then change it")
        if known != hashlib.sha256(raw).digest():
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
