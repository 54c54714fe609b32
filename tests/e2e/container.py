"""Starts a command as a container does that refuses namespaces, or Landlock too.

A program: `container.py WALL USER COMMAND...`; WALL is `landlock`, `no-landlock`, or `open` for no
filter at all, USER a number or `-`. The filter says what Docker's and Kubernetes' default profiles
say.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

AUDIT, UNSHARE, SETNS, MOUNT, CLONE = {
    "x86_64": (0xC000003E, 272, 308, 165, 56),
    "aarch64": (0xC00000B7, 97, 268, 40, 220),
}.get(platform.machine(), (0, 0, 0, 0, 0))
CLONE3, CREATE_RULESET = 435, 444
NEW_NAMESPACES, NEW_MOUNTS = 0x7E020000, 0x00020000
ALLOW, ERROR = 0x7FFF0000, 0x00050000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NO_NEW_PRIVILEGES, SECCOMP, FILTER_MODE = 38, 22, 2


def lines(*, landlock: bool) -> list[bytes]:
    """The filter, one instruction an entry."""
    refused = {UNSHARE: errno.EPERM, SETNS: errno.EPERM, MOUNT: errno.EPERM, CLONE3: errno.ENOSYS}
    if not landlock:
        refused[CREATE_RULESET] = errno.EOPNOTSUPP
    found = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, AUDIT), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, 0)]
    for number, error in refused.items():
        found += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ERROR | error)]
    found += [(EQUAL, 0, 3, CLONE), (LOAD, 0, 0, 16), (ANY_BIT, 0, 1, NEW_NAMESPACES)]
    found += [(RETURN, 0, 0, ERROR | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    return [struct.pack("=HBBI", *line) for line in found]


def refuse(*, landlock: bool) -> None:
    """From now on, here and in everything started."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    libc, written = ctypes.CDLL(None, use_errno=True), lines(landlock=landlock)
    program = Program(length=len(written), filter=b"".join(written))
    if os.geteuid() != 0:
        libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.prctl(SECCOMP, FILTER_MODE, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def become(user: int) -> None:
    """An ordinary user, who can reach this Python wherever it is installed."""
    if ctypes.CDLL(None).unshare(NEW_MOUNTS) != 0:
        raise OSError("no mount namespace can be had")
    subprocess.run(("mount", "--make-rprivate", "/"), check=True)
    for prefix in {os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)}:
        closed = [p for p in Path(prefix).parents if not p.stat().st_mode & 1]
        if closed:  # only the way to it is closed: leave nothing there but what it leads to
            held = tempfile.mkdtemp()
            subprocess.run(("mount", "--rbind", prefix, held), check=True)
            subprocess.run(("mount", "-t", "tmpfs", "-o", "mode=755", "t", closed[-1]), check=True)
            Path(prefix).mkdir(parents=True)
            subprocess.run(("mount", "--rbind", held, prefix), check=True)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def main(wall: str, user: str, *command: str) -> None:
    """Become the user, go behind the filter, become the command."""
    if user != "-":
        become(int(user))
    if wall != "open":
        refuse(landlock=wall == "landlock")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
