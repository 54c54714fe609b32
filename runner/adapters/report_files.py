"""Reports on their way to disk, beside files that an agent may have changed.

Rules of this file: nothing is written through a link. The folder of a report has to be the one it
was before the agent worked, and a link in the place of the report itself is replaced.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

CHUNK_BYTES = 1024 * 1024


def write_report(path: Path, content: Iterable[bytes]) -> str | None:
    """Put a report at `path`, whole or not at all; why it could not be, if it could not.

    `path` is absolute, with no link in it when it was first looked at.
    """
    draft = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.realpath(path.parent) != str(path.parent):
            return f"{path} was not written: a link was put in its way"
        if _is_device(path):
            return f"{path} was not written: a device, and not a file"
        draft.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o666), "wb") as file:
            file.writelines(content)
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to tell
            draft.unlink()
        return f"{path} was not written: {error.strerror}"
    return None


def copy_report(source: Path, path: Path) -> str | None:
    """Put a copy of the file `source` at `path`, in the same way."""
    return write_report(path, _pieces(source))


def remove_report(path: Path) -> None:
    """Remove what an earlier run left there, so that nobody takes it for this run's."""
    with suppress(OSError):
        if os.path.realpath(path.parent) == str(path.parent) and not _is_device(path):
            path.unlink()


def append_line_file(path: Path, text: str, *, max_bytes: int | None = None) -> str | None:
    """Append to a file of the CI system; why it could not be, if it could not.

    More than `max_bytes` in the file is refused: the CI system would drop all of it.
    """
    content = text.encode("utf-8", "backslashreplace")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return f"{path} was not written: not a file"
            if max_bytes is not None and found.st_size + len(content) > max_bytes:
                return f"{path} was not written: it would be longer than {max_bytes} bytes"
            file.write(content)
    except OSError as error:
        return f"{path} was not written: {error.strerror}"
    return None


def size_of(path: Path) -> int:
    """How many bytes a file has; 0 when it is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _is_device(path: Path) -> bool:
    """Root could put a file in the place of one, and the machine would be without it."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _pieces(source: Path) -> Iterator[bytes]:
    with source.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
