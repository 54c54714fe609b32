"""The three standard streams, whatever state they come in: open, closed, full, or read no more.

Rule of this file: everything that commands print comes through here, and may hold text of others.
On a terminal it controls nothing, in the log of a CI system it commands nothing.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from runner.adapters.ci_text import ci_of, inert, visible
from runner.adapters.outlet import write_all

Clean = Callable[[str], str]


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


class _Guarded(io.TextIOWrapper):
    """Text that is cleaned line by line, so that no command is put together from pieces."""

    def __init__(self, raw: _Descriptor, clean: Clean) -> None:
        self.clean = clean
        self._unfinished = ""
        super().__init__(
            io.BufferedWriter(raw),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )

    def write(self, text: str) -> int:
        whole, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        if newline:
            super().write(self.clean(whole + newline))
        return len(text)

    def flush(self) -> None:
        if self._unfinished:
            rest, self._unfinished = self._unfinished, ""
            super().write(self.clean(rest))
        super().flush()


def cleaner(environ: Mapping[str, str], *, is_terminal: bool) -> Clean:
    """What text for stdout must go through: whoever reads a pipe gets it as it is."""
    if ci_of(environ) is not None:
        return inert
    return visible if is_terminal else str


def mask_stderr(mask: Clean) -> None:
    """From now on secrets are masked in what is printed on stderr, such as a trace."""
    if isinstance(sys.stderr, _Guarded):
        sys.stderr.clean = lambda text: inert(mask(text))


@contextmanager
def own_markup() -> Iterator[None]:
    """What is printed meanwhile was cleaned piece by piece, and holds colour of ours."""
    stdout = sys.stdout
    if not isinstance(stdout, _Guarded):
        yield
        return
    stdout.flush()
    before, stdout.clean = stdout.clean, str
    try:
        yield
        stdout.flush()
    finally:
        stdout.clean = before


@contextmanager
def standard_streams() -> Iterator[Callable[[], OSError | None]]:
    """Make stdout and stderr UTF-8, whole, and safe to lose, for as long as a command runs.

    Gives a function that says why stdout could not be written, if it could not.
    """
    _fill_gaps()
    before = sys.stdout, sys.stderr
    raw = _Descriptor(1)
    clean = cleaner(os.environ, is_terminal=os.isatty(1))
    sys.stdout, sys.stderr = _Guarded(raw, clean), _Guarded(_Descriptor(2), inert)

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
