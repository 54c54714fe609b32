"""Runs inside, first: puts itself behind the last walls, then becomes the command.

A program of its own, started with `python -I -S`: what loads at once and nothing else, since every
command waits for it; `json`, `pathlib` and `socket` would take longer than all it does.
`door SOCKET COMMAND...` opens the way to the runner's proxy; `landlock FILE COMMAND...` gives up
the rights that the file, made by `landlock.py`, does not leave.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed has no stub for what `signal` wraps
import _socket
import ctypes
import os
import resource
import sys

PROXY_PORT = 3128

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 22, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
MAX_CAPABILITY = 63
O_PATH = getattr(os, "O_PATH", 0)


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def open_door(path: str) -> None:
    """Make a listening socket here and hand it to the runner, which answers on it from outside.

    The connection stays open in the command: when all that hold it are gone, so is the way out.
    """
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", PROXY_PORT))
    listener.listen(64)
    to_runner = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    to_runner.connect(path)
    descriptors = bytes(ctypes.c_int(listener.fileno()))
    to_runner.sendmsg([b"1"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    os.set_inheritable(to_runner.detach(), True)
    listener.close()


def give_up_rights(wanted: dict[str, list[str]]) -> None:
    """No new privileges, no capabilities, the Landlock rules, then the filter. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _drop_capabilities(libc, keep=[int(number) for number in wanted.get("keep", ())])
    _must(libc, libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    handled, scoped, size = (int(wanted[key][0]) for key in ("handled", "scoped", "size"))
    attributes = _RulesetAttributes(handled_access_fs=handled, handled_access_net=0, scoped=scoped)
    ruleset = _must(
        libc, libc.syscall(CREATE_RULESET, ctypes.byref(attributes), size, 0), "landlock"
    )
    for rule in wanted["rule"]:
        access, _, path = rule.partition(" ")
        _allow(libc, ruleset, int(access), bytes.fromhex(path))
    _must(libc, libc.syscall(RESTRICT_SELF, ruleset, 0), "landlock")
    os.close(ruleset)
    _filter(libc, bytes.fromhex(wanted["filter"][0]))


def _allow(libc: ctypes.CDLL, ruleset: int, access: int, path: bytes) -> None:
    try:
        fd = os.open(path, O_PATH | os.O_CLOEXEC)
    except OSError:  # gone, or not for us to see: then there is nothing to allow
        return
    try:
        rule = _PathBeneath(allowed_access=access, parent_fd=fd)
        done = libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
        _must(libc, done, os.fsdecode(path))
    finally:
        os.close(fd)


def _drop_capabilities(libc: ctypes.CDLL, *, keep: list[int]) -> None:
    """All but those to keep, of the first 32: root has what its files give it, and no more."""
    for number in range(MAX_CAPABILITY + 1):
        if number not in keep:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails for those that are not there
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    kept = sum(1 << number for number in keep)
    # Effective, permitted, inheritable; then the same for numbers from 32.
    _must(libc, libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept)), "capset")


def _filter(libc: ctypes.CDLL, lines: bytes) -> None:
    program = _Program(length=len(lines) // 8, filter=lines)
    done = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)
    _must(libc, done, "seccomp")


def _must(libc: ctypes.CDLL, result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return result


def _wanted(path: str) -> dict[str, list[str]]:
    """The lines of the file, by their first word."""
    found: dict[str, list[str]] = {}
    with open(path, encoding="ascii") as file:  # noqa: PTH123 - as the first lines say
        for line in file:
            key, _, value = line.strip().partition(" ")
            found.setdefault(key, []).append(value)
    return found


def main(way: str, how: str, *command: str) -> None:
    """Go behind the wall and become the command; 126 when the wall cannot be had."""
    # Python ignores these two, and what is ignored stays ignored in the command.
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    try:
        if way == "door":
            open_door(how)
        else:
            give_up_rights(_wanted(how))
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"the sandbox could not be set up, or holds no such program: {error}\n")
        os._exit(126)  # noqa: TID251 - a program of its own


if __name__ == "__main__":
    main(*sys.argv[1:])
