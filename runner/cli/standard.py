"""The three standard streams, whatever state they come in: open, closed, full, or read no more."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from runner.adapters.outlet import write_all


class _Descriptor(io.RawIOBase):
    """A descriptor that is written whole; once that fails, the rest is dropped.

    `lost` is why it failed, unless the reader just left.
    """

    def __init__(self, descriptor: int) -> None:
        self.lost: OSError | None = None
        self._descriptor = descriptor
        self._broken = False

    def write(self, content: Any) -> int:
        try:
            if not self._broken:
                write_all(self._descriptor, bytes(content))
        except OSError as error:
            self._broken = True
            self.lost = None if error.errno == errno.EPIPE else error
        return len(content)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor


@contextmanager
def standard_streams() -> Iterator[Callable[[], OSError | None]]:
    """Make stdout and stderr UTF-8, whole, and safe to lose, for as long as a command runs.

    Gives a function that says why stdout could not be written, if it could not.
    """
    _fill_gaps()
    before = sys.stdout, sys.stderr
    raw = _Descriptor(1)
    sys.stdout, sys.stderr = _text(raw), _text(_Descriptor(2))

    def lost() -> OSError | None:
        sys.stdout.flush()
        return raw.lost

    try:
        yield lost
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


@contextmanager
def stdout_for_one() -> Iterator[int]:
    """A private copy of stdout for the one who may write there.

    Meanwhile everything else that goes to stdout, from whatever library, goes to stderr.
    """
    sys.stdout.flush()
    private = os.dup(1)
    os.dup2(2, 1)
    try:
        yield private
    finally:
        sys.stdout.flush()
        os.dup2(private, 1)
        os.close(private)


def _fill_gaps() -> None:
    """Put /dev/null where a standard descriptor is closed, before a file of ours gets its number.

    A log that was opened as descriptor 1 would be written to by whoever prints.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)


def _text(raw: _Descriptor) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
