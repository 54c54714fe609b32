"""What one command may use of the machine, so that a mistake in it ends the command, not the run.

Rules of this file:
* A command has its limits before it runs: they are the runner's own soft ones while it is started,
  and made hard after that. Nothing runs between fork and exec, which threads would make unsafe.
* Nothing here is a wall. Memory is not limited, since what programs reserve (V8, Go, sanitizers)
  says nothing about what they use; but when it runs out, the kernel takes commands first.
Source: `getrlimit(2)`; root is above a limit of processes, whatever it is.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

MAX_FILE_BYTES = 8 * 1024**3
"""The longest file a command may write."""
SPARE_BYTES = 256 * 1024**2
"""What one file may not take of the disk: room for the log and the reports of the run."""
MAX_OPEN_FILES = 65_536
MAX_PROCESSES = 4096
"""For the processes and threads of an ordinary user, besides those there were at the start."""
OUT_OF_MEMORY_SCORE = 500
"""How much sooner than others a command is taken when memory runs out; 1000 is first of all."""


@contextmanager
def lowered(cwd: Path) -> Iterator[Mapping[int, int]]:
    """While it holds, what is started has these limits, by number; `bind` then makes them last."""
    limits = _limits(cwd)
    try:
        for number, most in limits.items():
            soft, hard = _own(number)
            resource.setrlimit(number, (_least(most, soft), hard))
        yield limits
    finally:
        for number in limits:
            resource.setrlimit(number, _own(number))


def bind(pid: int, limits: Mapping[int, int]) -> None:
    """Keep a process that was just started from lifting its limits."""
    if sys.platform != "linux":
        return
    for number, most in limits.items():
        soft, hard = _own(number)
        with suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, number, (_least(most, soft), _least(most, hard)))
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(OUT_OF_MEMORY_SCORE))


def _limits(cwd: Path) -> Mapping[int, int]:
    found = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: MAX_OPEN_FILES}
    found[resource.RLIMIT_NPROC] = MAX_PROCESSES + _running()
    longest = MAX_FILE_BYTES
    with suppress(OSError):
        disk = os.statvfs(cwd)
        free = disk.f_bavail * disk.f_frsize
        longest = min(longest, max(free - SPARE_BYTES, free // 2))
    return found | {resource.RLIMIT_FSIZE: longest}


def _least(most: int, now: int) -> int:
    return most if now == resource.RLIM_INFINITY else min(most, now)


@cache
def _own(number: int) -> tuple[int, int]:
    """The runner's own limit, from before the first command."""
    return resource.getrlimit(number)


@cache
def _running() -> int:
    """The processes and threads of this user when the first command is started."""
    count, user = 0, os.geteuid()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if entry.stat().st_uid == user:
                count += (entry / "task").stat().st_nlink - 2
    return count
