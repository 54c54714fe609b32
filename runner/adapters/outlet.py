"""Writing to a descriptor: whole and in order, losing nothing and holding nobody up."""

from __future__ import annotations

import errno
import os
import select
import threading
from collections.abc import Iterator
from queue import SimpleQueue

STALLED_S = 20.0
PIPE_BYTES = 4096
_READER_GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EBADF})


class Outlet:
    """Writes texts to a descriptor, in order, from a thread of its own.

    A slow reader holds up that thread and not the run; what it has not read yet waits in memory.
    Once the reader is gone, or at the end reads nothing for `STALLED_S`, the rest is dropped.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._queue: SimpleQueue[bytes | threading.Event | None] = SimpleQueue()
        self._error: OSError | None = None
        self._written = 0
        self._thread = threading.Thread(target=self._drain, name="outlet", daemon=True)
        self._thread.start()

    def isatty(self) -> bool:
        """Whether this is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, text: str) -> None:
        """Have this text written. Returns at once, never raises."""
        self._queue.put(text.encode("utf-8", "backslashreplace"))

    def settle(self, timeout_s: float) -> None:
        """Wait until what was written so far is out, or until the time is over."""
        reached = threading.Event()
        self._queue.put(reached)
        reached.wait(timeout_s)

    def close(self) -> OSError | None:
        """Wait until everything is written; why it could not be, unless the reader just left.

        A process that is over must not wait for ever on a reader that does not read.
        """
        self._queue.put(None)
        while self._thread.is_alive():
            before = self._written
            self._thread.join(STALLED_S)
            if self._thread.is_alive() and self._written == before:
                return OSError(errno.ETIMEDOUT, f"nothing was read for {STALLED_S:g} s")
        gone = self._error is not None and self._error.errno in _READER_GONE
        return None if gone else self._error

    def _drain(self) -> None:
        while (chunk := self._queue.get()) is not None:
            if isinstance(chunk, threading.Event):
                chunk.set()
            elif self._error is None:
                try:
                    for part in _parts(chunk):
                        write_all(self._descriptor, part)
                        self._written += len(part)
                except OSError as error:
                    self._error = error


def _parts(chunk: bytes) -> Iterator[bytes]:
    """In pieces that a pipe takes at once, so that progress shows."""
    for start in range(0, len(chunk), PIPE_BYTES):
        yield chunk[start : start + PIPE_BYTES]


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte, waiting for a descriptor that does not block. Raises `OSError`."""
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()
