"""Finds and kills what a process leaves behind, daemons included.

Rules of this file:
* This process is a child subreaper: whatever loses its parent below us becomes our own child,
  however often it forked or called `setsid`. So only our direct children and one process group
  are ever signalled, and no id can be reused between looking and killing.
* Children that were there before the first of several overlapping processes are not ours to end.
* While processes overlap, each ends its own session; the last one ends everything else.
* In a host program (`hosted`) the children may be the host's, so each ends its own session only,
  and nobody is adopted. What left that session is found by its mark at the end of the run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
MAX_KILL_ROUNDS = 2_000
ROUND_S = 0.001


class Orphans:
    """Knows the leaders that are running and which children belong to them."""

    def __init__(self) -> None:
        self._leaders: set[int] = set()
        self._foreign: frozenset[int] = frozenset()
        self._adopts = False

    def before_start(self) -> None:
        """To be called right before a leader is started."""
        if not _Hosted.runs and not self._adopts and sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._adopts = True
        if not self._leaders:
            self._foreign = frozenset(_children())

    def started(self, leader: int) -> None:
        """To be called right after."""
        self._leaders.add(leader)

    def alive(self, leader: int) -> tuple[int, ...]:
        """What outlives `leader`, which has exited and is not reaped yet."""
        return tuple(pid for pid in self._left_by(leader) if not _is_zombie(pid))

    def reap(self, leader: int) -> None:
        """Take note of orphans that ended by themselves, so that no zombies pile up."""
        for pid in self._left_by(leader):
            if _is_zombie(pid):
                _reap(pid)

    def end(self, leader: int) -> tuple[int, ...]:
        """Kill `leader` (not reaped yet) and all that it left; the ids of what was alive.

        Blocks, on purpose: no second cancellation can get in between. It takes about a
        millisecond, and a few seconds when a process cannot be killed.
        """
        killed: set[int] = set()
        for _ in range(MAX_KILL_ROUNDS):
            # In this order: the children of a dead process are ours before it counts as dead, so
            # an empty list after the leader's death is the end of it.
            leader_is_dead = _is_zombie(leader)
            left = self._left_by(leader)
            killed.update(pid for pid in left if not _is_zombie(pid))
            # The leader's id stays taken until it is reaped: the group is really its own.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGKILL)
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                _reap(pid)
            if leader_is_dead and not left:
                break
            time.sleep(ROUND_S)  # noqa: TID251 - blocks on purpose, see above
        self._leaders.discard(leader)
        return tuple(sorted(killed))

    def _left_by(self, leader: int) -> list[int]:
        others = self._leaders - {leader}
        pids = [p for p in _children() if p not in self._foreign and p not in self._leaders]
        if not others and not _Hosted.runs:
            return pids
        return [pid for pid in pids if _session(pid) == leader]


@cache
def orphans() -> Orphans:
    """The one of this process: a subreaper adopts for all its threads and loops alike."""
    return Orphans()


class _Hosted:
    """How many runs of a host program there are now."""

    runs = 0
    lock = threading.Lock()


@contextmanager
def hosted() -> Iterator[None]:
    """Meanwhile this process is a host program's, with children that are not ours."""
    with _Hosted.lock:
        _Hosted.runs += 1
    try:
        yield
    finally:
        with _Hosted.lock:
            _Hosted.runs -= 1


def has_exited(pid: int) -> bool:
    """Whether our child `pid` is over; it is not reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _children() -> list[int]:
    """Our direct children, of every thread; nothing where there is no such list."""
    pids: list[int] = []
    for task in Path("/proc/self/task").glob("*"):
        with suppress(OSError):
            pids += map(int, (task / "children").read_text().split())
    return pids


def _is_zombie(pid: int) -> bool:
    with suppress(OSError):
        # The name in parentheses may hold anything, parentheses too.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] in b"ZX"
    return True


def _session(pid: int) -> int | None:
    with suppress(OSError):
        return os.getsid(pid)
    return None


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
