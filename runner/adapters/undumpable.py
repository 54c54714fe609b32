"""Closes this process's memory and environment, with the provider's key, to commands of its user.

Linux only. It does not stop root, nor a command with `CAP_SYS_PTRACE`. A runner that a tool of
another run started stays readable: the other's sweep finds it by the mark in its environment.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping

from runner.adapters.leftovers import MARK

PR_SET_DUMPABLE = 4


def close_to_own_user(environ: Mapping[str, str]) -> None:
    """No core dump, no tracer, and `/proc/<us>/environ` belongs to root from now on.

    What we start is not affected: a program gets its own mark when it is executed.
    `environ` is this process's.
    """
    if sys.platform == "linux" and MARK not in environ:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
