"""Find and end the processes a run left behind, by the mark in their environment.

Every process a tool starts inherits `AUTOPILOT_SESSION=<id>`. While the runner lives, `orphans.py`
ends them by descent; after a kill of the runner itself only the mark is left. A process that
cleared its environment is not found.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "AUTOPILOT_SESSION"
MAX_ROUNDS = 20


def sweep(session_id: str) -> tuple[str, ...]:
    """Kill every process with this session's mark; what was killed, as `pid (command)`.

    Rounds repeat until none is found, since what is killed may have forked. Without `/proc`
    nothing is found.
    """
    killed: dict[int, str] = {}
    for _ in range(MAX_ROUNDS):
        found = dict(_marked(f"{MARK}={session_id}".encode()))
        if not found:
            break
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
    return tuple(f"{pid} ({command})" for pid, command in killed.items())


def _marked(mark: bytes) -> Iterator[tuple[int, str]]:
    """Living processes of ours whose environment holds the mark, with their commands."""
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").strip()
                if words:  # a zombie has none
                    yield int(folder.name), words[:80].decode("utf-8", "replace")
