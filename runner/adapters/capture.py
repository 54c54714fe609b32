"""Keeps what a process prints: head and tail in memory, all of it in a file once it is long."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from pathlib import Path

from runner.adapters.redact import NOTHING, Mask
from runner.core.truncate import fit, join

FILE_CAP_BYTES = 64 * 1024 * 1024
LIVE_INTERVAL_S = 0.1
LIVE_MAX_CHARS = 8 * 1024


class Capture:
    """Takes output in chunks; memory stays below three times `max_bytes` however much comes.

    The file is made only when there are more than `max_bytes`, with mode 0600, and stops at
    `FILE_CAP_BYTES`; what comes after is counted and dropped. `on_output` hears the newest text
    at most ten times a second. Secrets are masked before anything is kept, cut or shown.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        spill_file: Path | None,
        on_output: Callable[[str], None],
        now: Callable[[], float],
        mask: Mask = NOTHING,
    ) -> None:
        self.total_bytes = 0
        self._max_bytes = max_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._spill_file = spill_file
        self._spill_fd: int | None = None
        self._spilled_bytes = 0
        self._on_output = on_output
        self._now = now
        self._unmasked = mask.byte_stream()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._shown_at = now()

    @property
    def truncated(self) -> bool:
        """Whether there was more than the text can hold."""
        return self.total_bytes > self._max_bytes

    @property
    def output_file(self) -> Path | None:
        """Where all of it is, or None when it was short or could not be kept."""
        return self._spill_file if self._spill_fd is not None else None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of output."""
        self._take(self._unmasked.feed(chunk))

    def close(self) -> None:
        """Take what was held back, show what is pending and close the file."""
        self._take(self._unmasked.close())
        if self._pending:
            self._on_output(self._pending)
            self._pending = ""
        if self._spill_fd is not None:
            os.close(self._spill_fd)

    def _take(self, chunk: bytes) -> None:
        was_truncated = self.truncated
        self.total_bytes += len(chunk)
        if self.truncated and not was_truncated:
            self._open_spill()
        if self._spill_fd is not None:
            self._spill(chunk)
        self._head += chunk[: max(self._max_bytes - len(self._head), 0)]
        self._tail += chunk
        if len(self._tail) > 2 * self._max_bytes:
            del self._tail[: -self._max_bytes or None]
        self._show(chunk)

    def text(self) -> str:
        """What was printed, undecodable bytes replaced, in at most `max_bytes` of UTF-8."""
        saved_as = str(self.output_file) if self.output_file else None
        head = _clean(self._head)
        if not self.truncated:
            return fit(head.decode(), self._max_bytes, saved_as=saved_as)
        tail_raw = self._tail[-self._max_bytes :]
        tail = _clean(tail_raw)
        # Replacement characters are longer than what they replace; counted in, so that the
        # marker never claims that less than nothing was left out.
        growth = len(head) - len(self._head) + len(tail) - len(tail_raw)
        return join(head, tail, self.total_bytes + growth, self._max_bytes, saved_as=saved_as)

    def _open_spill(self) -> None:
        if self._spill_file is None:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._spill_fd = os.open(self._spill_file, flags, 0o600)
        except OSError:
            # The run goes on with head and tail; its own log says when the disk is the trouble.
            return
        self._spill(bytes(self._head))

    def _spill(self, chunk: bytes) -> None:
        assert self._spill_fd is not None
        part = memoryview(chunk)[: FILE_CAP_BYTES - self._spilled_bytes]
        try:
            while part:
                written = os.write(self._spill_fd, part)
                self._spilled_bytes += written
                part = part[written:]
        except OSError:
            os.close(self._spill_fd)
            self._spill_fd = None

    def _show(self, chunk: bytes) -> None:
        self._pending = (self._pending + self._decoder.decode(chunk))[-LIVE_MAX_CHARS:]
        if self._pending and self._now() - self._shown_at >= LIVE_INTERVAL_S:
            self._on_output(self._pending)
            self._pending = ""
            self._shown_at = self._now()


def _clean(raw: bytearray) -> bytes:
    return raw.decode("utf-8", "replace").encode()
