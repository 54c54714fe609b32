"""Runs processes on this machine: the `Sandbox` of tier `process`, which is not a boundary.

Rules of this file:
* A process is over when its leader exits; a grandchild that keeps the pipe open delays that by
  at most `DRAIN_S`.
* Whatever happens, nothing that was started is alive when `exec` is left.
* Output is read as it comes and never held whole.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner.adapters.capture import Capture
from runner.adapters.orphans import has_exited, orphans
from runner.ports import ExecRequest, ExecResult

DRAIN_S = 0.2
TERM_GRACE_S = 0.5
REAP_EVERY_S = 1.0
POLL_S = 0.02
CHUNK_BYTES = 64 * 1024
MAX_LEFT_CHUNKS = 64
FIRST_PRIVATE_FD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    """A started leader and our ends of its pipes."""

    process: subprocess.Popen[bytes]
    output_fd: int
    cwd_fd: int | None
    exit_fd: int | None

    @property
    def pid(self) -> int:
        return self.process.pid


class LocalSandbox:
    """Processes as they are: own session, own environment, no core files."""

    tier = "process"

    def __init__(self, *, drain_s: float = DRAIN_S) -> None:
        self._drain_s = drain_s
        self._orphans = orphans()

    async def exec(self, request: ExecRequest, on_output: Callable[[str], None]) -> ExecResult:
        """See the port. A leader that died of signal N has exit code 128 + N, as in a shell.

        `survivors` are the processes that outlived the leader and were killed here.
        """
        loop = asyncio.get_running_loop()
        capture = Capture(
            max_bytes=request.max_output_bytes,
            spill_file=request.spill_file,
            on_output=on_output,
            now=loop.time,
        )
        self._orphans.before_start()
        child = _start(request)
        self._orphans.started(child.pid)
        try:
            timed_out = await self._until_over(child, capture, request.timeout_s)
        finally:
            survivors = self._orphans.end(child.pid)
            status = _reaped(child)
            _read_left(child, capture)
            cwd = _last_cwd(child)
            _close(child)
            capture.close()
        return ExecResult(
            exit_code=None if timed_out else status,
            output=capture.text(),
            total_bytes=capture.total_bytes,
            truncated=capture.truncated,
            output_file=capture.output_file,
            cwd=cwd,
            survivors=() if timed_out else survivors,
        )

    async def _until_over(self, child: _Child, capture: Capture, timeout_s: float) -> bool:
        """Wait for the leader and the end of its output; whether the time was up first."""
        loop = asyncio.get_running_loop()
        exited, ended = asyncio.Event(), asyncio.Event()
        if child.exit_fd is not None:
            loop.add_reader(child.exit_fd, exited.set)
        loop.add_reader(child.output_fd, _read_one, child.output_fd, capture, ended)
        try:
            async with asyncio.timeout(timeout_s):
                await self._leader_exit(child, exited)
            await self._drain(child, ended)
        except TimeoutError:
            await self._terminate(child, exited)
            return True
        finally:
            loop.remove_reader(child.output_fd)
            if child.exit_fd is not None:
                loop.remove_reader(child.exit_fd)
        return False

    async def _leader_exit(self, child: _Child, exited: asyncio.Event) -> None:
        # Without a descriptor for the exit (old kernels, strict containers) this polls.
        slice_s = POLL_S if child.exit_fd is None else REAP_EVERY_S
        while not has_exited(child.pid):
            with suppress(TimeoutError):
                async with asyncio.timeout(slice_s):
                    await exited.wait()
            self._orphans.reap(child.pid)

    async def _drain(self, child: _Child, ended: asyncio.Event) -> None:
        """Let the rest of the output arrive and what is about to end, end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                await ended.wait()
                # Nothing tells when an orphan ends.
                while self._orphans.alive(child.pid):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)

    async def _terminate(self, child: _Child, exited: asyncio.Event) -> None:
        """Ask politely first: a client of something remote can stop what it started there."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(TERM_GRACE_S):
                await self._leader_exit(child, exited)


def _start(request: ExecRequest) -> _Child:
    """Start the leader. Raises `OSError`; then nothing is open."""
    fds: list[int] = []
    argv = list(request.argv)
    try:
        output_fd, output_end = _pipe(fds)
        cwd_fd, cwd_end = _pipe(fds) if request.report_cwd else (None, None)
        if cwd_end is not None:
            argv.append(str(cwd_end))
        process = subprocess.Popen(
            argv,
            cwd=request.cwd,
            env=dict(request.env),
            stdin=subprocess.DEVNULL,
            stdout=output_end,
            stderr=output_end,
            start_new_session=True,
            pass_fds=() if cwd_end is None else (cwd_end,),
        )
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    os.close(output_end)
    if cwd_end is not None:
        os.close(cwd_end)
    _forbid_core_files(process.pid)
    exit_fd = _exit_fd(process.pid)
    return _Child(process=process, output_fd=output_fd, cwd_fd=cwd_fd, exit_fd=exit_fd)


def _pipe(fds: list[int]) -> tuple[int, int]:
    """A pipe, its read end non-blocking, its write end out of the way of a shell's own ones."""
    read_end, low_end = os.pipe()
    try:
        os.set_blocking(read_end, False)
        write_end = fcntl.fcntl(low_end, fcntl.F_DUPFD_CLOEXEC, FIRST_PRIVATE_FD)
    finally:
        os.close(low_end)
    fds += (read_end, write_end)
    return read_end, write_end


def _forbid_core_files(pid: int) -> None:
    # After the start and not before: code between fork and exec is not safe with threads.
    if sys.platform == "linux":
        with suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _exit_fd(pid: int) -> int | None:
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _read_one(fd: int, capture: Capture, ended: asyncio.Event) -> None:
    with suppress(BlockingIOError):
        chunk = os.read(fd, CHUNK_BYTES)
        if chunk:
            capture.feed(chunk)
        else:
            asyncio.get_running_loop().remove_reader(fd)
            ended.set()


def _read_left(child: _Child, capture: Capture) -> None:
    """What is still in the pipe now that the writers are gone; bounded, should one be left."""
    with suppress(BlockingIOError):
        for _ in range(MAX_LEFT_CHUNKS):
            chunk = os.read(child.output_fd, CHUNK_BYTES)
            if not chunk:
                return
            capture.feed(chunk)


def _reaped(child: _Child) -> int | None:
    """The leader's exit code; None when it could not be killed."""
    status = child.process.poll()
    return 128 - status if status is not None and status < 0 else status


def _last_cwd(child: _Child) -> Path | None:
    if child.cwd_fd is None:
        return None
    with suppress(BlockingIOError):
        said = os.read(child.cwd_fd, CHUNK_BYTES).split(b"\0")
        if len(said) > 1:
            return Path(os.fsdecode(said[-2]))
    return None


def _close(child: _Child) -> None:
    for fd in (child.output_fd, child.cwd_fd, child.exit_fd):
        if fd is not None:
            os.close(fd)
