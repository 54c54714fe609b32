"""Starts a process in a session of its own, with our ends of its pipes, and lets go of it.

Rules of this file: either everything is open that a child has, or nothing is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner.adapters import rlimits
from runner.adapters.sandbox.walls import Enclosure, Launch, shell
from runner.ports import ExecRequest

CHUNK_BYTES = 64 * 1024
FIRST_PRIVATE_FD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A started leader and our ends of its pipes."""

    process: subprocess.Popen[bytes]
    output_fd: int
    error_fd: int | None
    cwd_fd: int | None
    tally_fd: int | None
    exit_fd: int | None

    @property
    def pid(self) -> int:
        return self.process.pid


def start(request: ExecRequest, enclosure: Enclosure | None) -> Child:
    """Start the leader. Raises `OSError`; then nothing is open."""
    fds: list[int] = []
    argv = list(request.argv)
    if argv[0] == "bash":
        argv[0] = shell()
    try:
        output_fd, output_end = _pipe(fds)
        error_fd, error_end = _pipe(fds) if request.split_errors else (None, output_end)
        cwd_fd, cwd_end = _pipe(fds) if request.report_cwd else (None, None)
        if cwd_end is not None:
            argv.append(str(cwd_end))
        counts = enclosure is not None and enclosure.ends_all
        tally_fd, tally_end = _pipe(fds) if counts else (None, None)
        launch = _launch(argv, request, enclosure, tally_end)
        stdin = _told(request.stdin, fds)
        with rlimits.lowered(request.cwd) as limits:
            process = subprocess.Popen(
                launch.argv,
                cwd=request.cwd,
                env=dict(launch.env),
                stdin=stdin,
                stdout=output_end,
                stderr=error_end,
                start_new_session=True,
                pass_fds=[fd for fd in (cwd_end, tally_end) if fd is not None],
            )
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    kept = {output_fd, error_fd, cwd_fd, tally_fd}
    for fd in fds:
        if fd not in kept:
            os.close(fd)
    rlimits.bind(process.pid, limits)
    exit_fd = _exit_fd(process.pid)
    return Child(
        process=process,
        output_fd=output_fd,
        error_fd=error_fd,
        cwd_fd=cwd_fd,
        tally_fd=tally_fd,
        exit_fd=exit_fd,
    )


def _launch(
    argv: list[str], request: ExecRequest, enclosure: Enclosure | None, tally_end: int | None
) -> Launch:
    """What to start. Raises `FileNotFoundError` for a program that is not there: inside, it would
    be an exit code among others."""
    if enclosure is None:
        return Launch(argv=tuple(argv), env=request.env)
    if shutil.which(argv[0], path=request.env.get("PATH", os.defpath)) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    return enclosure.launch(tuple(argv), request.env, request.cwd, tally_end)


def inner_group(leader: int) -> int:
    """The group inside: its first process, which leads it, is the one child of the leader."""
    with suppress(OSError, IndexError, ValueError):
        children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        if os.getpgid(int(children[0])) == int(children[0]):
            return int(children[0])
    return leader  # not so far yet


def _told(content: bytes, fds: list[int]) -> int:
    """What a process may read: nothing, or a file without a name, which nobody has to feed."""
    if not content:
        return subprocess.DEVNULL
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        fds.append(os.dup(file.fileno()))
    return fds[-1]


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


def _exit_fd(pid: int) -> int | None:
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def reaped(child: Child) -> int | None:
    """The leader's exit code; None when it could not be killed."""
    status = child.process.poll()
    return 128 - status if status is not None and status < 0 else status


def last_cwd(child: Child) -> Path | None:
    if child.cwd_fd is None:
        return None
    with suppress(BlockingIOError):
        said = os.read(child.cwd_fd, CHUNK_BYTES).split(b"\0")
        if len(said) > 1:
            return Path(os.fsdecode(said[-2]))
    return None


def tallied(child: Child) -> tuple[int, ...]:
    """The processes that the watcher inside still found."""
    if child.tally_fd is not None:
        with suppress(BlockingIOError, ValueError):
            return tuple(map(int, os.read(child.tally_fd, CHUNK_BYTES).split()))
    return ()


def close(child: Child) -> None:
    fds = (child.output_fd, child.error_fd, child.cwd_fd, child.tally_fd, child.exit_fd)
    for fd in fds:
        if fd is not None:
            os.close(fd)
