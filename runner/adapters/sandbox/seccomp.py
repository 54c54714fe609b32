"""A seccomp filter, assembled here: no ways to other processes' memory, to the kernel, or out.

Rules of this file: the numbers are Linux's own and never change. What is refused gets the error
it would get from a kernel without the feature, so that programs take their other way.
Sources: `seccomp(2)`, `linux/filter.h`, the tables `syscall_64.tbl` and `asm-generic/unistd.h`.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

LOAD_WORD, JUMP_EQUAL, JUMP_ANY_BIT, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
X32_BIT = 0x40000000

NEW_NAMESPACES = 0x7E020000
"""Every `CLONE_NEW*` flag that `clone` takes: mount, cgroup, UTS, IPC, user, PID, network."""

UNIX, INET, INET6, NETLINK = 1, 2, 10, 16

CLONE3 = 435
EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442)
"""io_uring and the mount calls of Linux 5.2 and later, the same on every architecture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    audit: int
    clone: int
    socket: int
    refused: tuple[int, ...] = field(default=())


# In this order: keyctl add_key request_key bpf userfaultfd mount umount2 pivot_root chroot setns
# unshare perf_event_open kexec_load kexec_file_load init_module finit_module delete_module
# process_vm_readv process_vm_writev swapon reboot open_by_handle_at quotactl syslog acct
_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E,
        clone=56,
        socket=41,
        refused=(
            *(250, 248, 249, 321, 323, 165, 166, 155, 161, 308, 272, 298, 246, 320, 175, 313, 176),
            *(310, 311, 167, 169, 304, 179, 103, 163),
        ),
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        clone=220,
        socket=198,
        refused=(
            *(219, 217, 218, 280, 282, 40, 39, 41, 51, 268, 97, 241, 104, 294, 105, 273, 106),
            *(270, 271, 224, 142, 265, 60, 116, 89),
        ),
    ),
}


def is_known_machine() -> bool:
    """Whether there is a filter for the processor this runs on."""
    return platform.machine() in _MACHINES


def program(families: Iterable[int]) -> bytes:
    """The filter as the kernel and bwrap take it; sockets of `families` alone can be made.

    Raises `KeyError` on a machine that `is_known_machine` does not know.
    """
    machine = _MACHINES[platform.machine()]
    lines = [
        _line(LOAD_WORD, ARCHITECTURE),
        _line(JUMP_EQUAL, machine.audit, 1, 0),
        _line(RETURN, REFUSE | errno.ENOSYS),
        _line(LOAD_WORD, NUMBER),
    ]
    if machine.clone == _MACHINES["x86_64"].clone:
        lines += [_line(JUMP_AT_LEAST, X32_BIT, 0, 1), _line(RETURN, REFUSE | errno.ENOSYS)]
    for number in (*machine.refused, *EVERYWHERE):
        lines += [_line(JUMP_EQUAL, number, 0, 1), _line(RETURN, REFUSE | errno.EPERM)]
    # The flags of clone3 lie in memory, where a filter cannot look: callers fall back to clone.
    lines += [_line(JUMP_EQUAL, CLONE3, 0, 1), _line(RETURN, REFUSE | errno.ENOSYS)]
    lines += [
        _line(JUMP_EQUAL, machine.clone, 0, 4),
        _line(LOAD_WORD, FIRST_ARGUMENT),
        _line(JUMP_ANY_BIT, NEW_NAMESPACES, 0, 1),
        _line(RETURN, REFUSE | errno.EPERM),
        _line(RETURN, ALLOW),
    ]
    return b"".join([*lines, *_sockets(machine.socket, tuple(families)), _line(RETURN, ALLOW)])


def _sockets(number: int, families: tuple[int, ...]) -> list[bytes]:
    checks = [
        _line(JUMP_EQUAL, family, len(families) - place, 0) for place, family in enumerate(families)
    ]
    body = [
        _line(LOAD_WORD, FIRST_ARGUMENT),
        *checks,
        _line(RETURN, REFUSE | errno.EACCES),
    ]
    return [_line(JUMP_EQUAL, number, 0, len(body)), *body]


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
