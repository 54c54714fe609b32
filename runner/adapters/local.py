"""Runs processes on this machine, behind the walls of an enclosure or, in tier `process`, none.

Rules of this file:
* A process is over when its leader exits; a grandchild that keeps the pipe open delays that by
  at most `DRAIN_S`.
* Whatever happens, nothing that was started is alive when `exec` is left.
* Output is read as it comes and never held whole.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from runner.adapters.capture import Capture
from runner.adapters.child import (
    CHUNK_BYTES,
    Child,
    close,
    inner_group,
    last_cwd,
    reaped,
    start,
    tallied,
)
from runner.adapters.orphans import has_exited, orphans
from runner.adapters.redact import NOTHING, Mask
from runner.adapters.sandbox.walls import Enclosure
from runner.ports import ExecRequest, ExecResult

DRAIN_S = 0.2
TERM_GRACE_S = 0.5
REAP_EVERY_S = 1.0
POLL_S = 0.02
MAX_LEFT_CHUNKS = 64


class LocalSandbox:
    """Own session, own environment, no core files; and the walls of `enclosure`, if there is one.

    Without one the tier is `process`, which is not a boundary.
    """

    def __init__(
        self,
        *,
        drain_s: float = DRAIN_S,
        mask: Mask = NOTHING,
        enclosure: Enclosure | None = None,
    ) -> None:
        self._drain_s = drain_s
        self._mask = mask
        self._enclosure = enclosure
        self._orphans = orphans()

    @property
    def tier(self) -> str:
        """See the port."""
        return self._enclosure.tier if self._enclosure else "process"

    @property
    def _ends_all(self) -> bool:
        return self._enclosure is not None and self._enclosure.ends_all

    async def exec(self, request: ExecRequest, on_output: Callable[[str], None]) -> ExecResult:
        """See the port. A leader that died of signal N has exit code 128 + N, as in a shell.

        `survivors` are the processes that outlived the leader and were killed with it, numbered
        as they see themselves.
        """
        loop = asyncio.get_running_loop()
        capture = Capture(
            max_bytes=request.max_output_bytes,
            spill_file=request.spill_file,
            on_output=on_output,
            now=loop.time,
            mask=self._mask,
        )
        errors = Capture(
            max_bytes=request.max_output_bytes,
            spill_file=None,
            on_output=lambda text: None,
            now=loop.time,
            mask=self._mask,
        )
        self._orphans.before_start()
        child = start(request, self._enclosure)
        streams = [(child.output_fd, capture)]
        if child.error_fd is not None:
            streams.append((child.error_fd, errors))
        self._orphans.started(child.pid)
        try:
            timed_out = await self._until_over(child, streams, request.timeout_s)
        finally:
            survivors = self._orphans.end(child.pid)
            status = reaped(child)
            for fd, kept in streams:
                _read_left(fd, kept)
            cwd = last_cwd(child)
            for remark in self._enclosure.remarks() if self._enclosure else ():
                capture.feed(f"[{remark}]\n".encode())
            if self._ends_all:  # what was killed is the first process of the namespace
                survivors = tallied(child)
            close(child)
            capture.close()
            errors.close()
        return ExecResult(
            exit_code=None if timed_out else status,
            output=capture.text(),
            total_bytes=capture.total_bytes,
            truncated=capture.truncated,
            output_file=capture.output_file,
            cwd=cwd,
            survivors=() if timed_out else survivors,
            errors=errors.text(),
        )

    async def _until_over(
        self, child: Child, streams: list[tuple[int, Capture]], timeout_s: float
    ) -> bool:
        """Wait for the leader and the end of its output; whether the time was up first."""
        loop = asyncio.get_running_loop()
        exited, ended = asyncio.Event(), [asyncio.Event() for _ in streams]
        if child.exit_fd is not None:
            loop.add_reader(child.exit_fd, exited.set)
        for (fd, capture), end in zip(streams, ended, strict=True):
            loop.add_reader(fd, _read_one, fd, capture, end)
        try:
            async with asyncio.timeout(timeout_s):
                await self._leader_exit(child, exited)
            await self._drain(child, ended)
        except TimeoutError:
            await self._terminate(child, exited)
            return True
        finally:
            for fd, _ in streams:
                loop.remove_reader(fd)
            if child.exit_fd is not None:
                loop.remove_reader(child.exit_fd)
        return False

    async def _leader_exit(self, child: Child, exited: asyncio.Event) -> None:
        # Without a descriptor for the exit (old kernels, strict containers) this polls.
        slice_s = POLL_S if child.exit_fd is None else REAP_EVERY_S
        while not has_exited(child.pid):
            with suppress(TimeoutError):
                async with asyncio.timeout(slice_s):
                    await exited.wait()
            self._orphans.reap(child.pid)

    async def _drain(self, child: Child, ended: list[asyncio.Event]) -> None:
        """Let the rest of the output arrive and what is about to end, end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                for end in ended:
                    await end.wait()
                # Nothing tells when an orphan ends.
                while not self._ends_all and self._orphans.alive(child.pid):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)

    async def _terminate(self, child: Child, exited: asyncio.Event) -> None:
        """Ask politely first: a client of something remote can stop what it started there."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(inner_group(child.pid) if self._ends_all else child.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(TERM_GRACE_S):
                await self._leader_exit(child, exited)


def _read_one(fd: int, capture: Capture, ended: asyncio.Event) -> None:
    with suppress(BlockingIOError):
        chunk = os.read(fd, CHUNK_BYTES)
        if chunk:
            capture.feed(chunk)
        else:
            asyncio.get_running_loop().remove_reader(fd)
            ended.set()


def _read_left(fd: int, capture: Capture) -> None:
    """What is still in the pipe now that the writers are gone; bounded, should one be left."""
    with suppress(BlockingIOError):
        for _ in range(MAX_LEFT_CHUNKS):
            chunk = os.read(fd, CHUNK_BYTES)
            if not chunk:
                return
            capture.feed(chunk)
