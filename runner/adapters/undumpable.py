"""Closes this process to commands of its user: its memory, its environment, the keys in there.

Linux only. It does not stop root from reading the memory, nor a command with `CAP_SYS_PTRACE`. A
key also stands in the environment of whoever started the runner, such as the shell of a CI step:
only a sandbox keeps commands away from that. A runner that a tool of another run started stays
readable: the other's sweep finds it by the mark in its environment.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path

from runner.adapters.leftovers import MARK

PR_SET_DUMPABLE = 4
ENV_START, ENV_END = 50, 51
"""The fields of `/proc/PID/stat`, counted from 1, that say where the first environment lies."""


def close_to_own_user(environ: Mapping[str, str]) -> None:
    """No core dump, no tracer, and `/proc/<us>/environ` belongs to root from now on.

    What we start is not affected: a program gets its own mark when it is executed.
    `environ` is this process's.
    """
    if sys.platform == "linux" and MARK not in environ:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def forget(names: Iterable[str], environ: MutableMapping[str, str]) -> None:
    """Take variables out of `environ`, this process's, and out of what `/proc` shows of it.

    Removing a variable leaves it where the kernel put it at the start, for `/proc` to show; there
    its value is overwritten. Without `/proc` only the removal is done.
    """
    gone = [name for name in names if environ.pop(name, None) is not None]
    block = _first_environment() if gone and sys.platform == "linux" else None
    if block is None:
        return
    start, end = block
    entries = ctypes.string_at(start, end - start).split(b"\0")
    marks = tuple(os.fsencode(name) + b"=" for name in gone)
    for entry in entries:
        if entry.startswith(marks):
            name_bytes = entry.index(b"=") + 1
            ctypes.memset(start + name_bytes, 0, len(entry) - name_bytes)
        start += len(entry) + 1


def _first_environment() -> tuple[int, int] | None:
    """Where the kernel put the environment when this program was started; None if unknown."""
    try:
        # The second field is a name in brackets and may hold anything.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = (int(fields[number - 3]) for number in (ENV_START, ENV_END))
    except (OSError, ValueError, IndexError):
        return None
    return (start, end) if 0 < start < end else None
