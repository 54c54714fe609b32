"""Runs inside a sandbox and tries to get out; says what it saw, and judges nothing.

A program of its own, started with `python -I -S`: what comes with the interpreter and nothing
else, since a run waits for it; `json`, `pathlib` and `socket` would take longer to load than all
of the attempts. It is asked by words `KEY=VALUE`. Each line that it writes is a key and, in
hexadecimal, a value; the last is `done`.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MPTCP = 262
PATIENCE_S = 0.2
CHUNK_BYTES = 1 << 20

Asked = dict[str, list[str]]


def main(words: Iterable[str]) -> None:
    """Try everything that is asked for, and write what came of it to stdout."""
    asked: Asked = {}
    for word in words:
        key, _, value = word.partition("=")
        asked.setdefault(key, []).append(value)
    pid, started = asked["pid"][0], asked["started"][0]
    _say("contents", map(_read, asked.get("read", ())))
    for path in asked.get("write", ()):
        _try_to_write(path)
    for port in asked.get("port", ()):
        _try_to_connect(int(port))
    _say("opened", map(os.fsencode, filter(_can_be_opened, asked.get("guarded", ()))))
    _say("environ", [b""] * _environments(pid, started, asked.get("name", [])))
    _say("signal", [b""] * _signal(pid, started))
    closed = (path for path in asked.get("writable", ()) if not os.access(path, os.W_OK))
    _say("not_writable", map(os.fsencode, closed))
    _say("done", [b""])


def _say(key: str, values: Iterable[bytes]) -> None:
    for value in values:
        sys.stdout.write(f"{key} {value.hex()}\n")  # noqa: TID251 - a program of its own


def _try_to_write(path: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, b"broken")
        os.close(fd)
    except OSError:
        pass


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(fd, CHUNK_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _can_be_opened(path: str) -> bool:
    """For writing; nothing is written."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def _try_to_connect(port: int) -> None:
    """Over TCP, Multipath TCP and UDP, all to the same number."""
    for kind, protocol in (
        (_socket.SOCK_STREAM, 0),
        (_socket.SOCK_STREAM, MPTCP),
        (_socket.SOCK_DGRAM, 0),
    ):
        try:
            one = _socket.socket(_socket.AF_INET, kind, protocol)
            one.settimeout(PATIENCE_S)
            one.connect(("127.0.0.1", port))
            one.send(b"out")
            one.close()
        except OSError:
            pass


def _environments(pid: str, started: str, names: list[str]) -> bool:
    """Whether the runner's environment can be read, or one that holds any of its variables."""
    if _is_there(pid, started) and _read(f"/proc/{pid}/environ"):
        return True
    marks = tuple(f"{name}=".encode() for name in names)
    try:
        found = os.listdir("/proc")  # noqa: PTH208 - as the first lines say
    except OSError:
        return False
    for number in filter(str.isdigit, found):
        entries = _read(f"/proc/{number}/environ").split(b"\0")
        if marks and any(entry.startswith(marks) for entry in entries):
            return True
    return False


def _signal(pid: str, started: str) -> bool:
    """Whether a signal would reach the runner; the one that is sent, 0, does nothing."""
    if not _is_there(pid, started):
        return False
    try:
        os.kill(int(pid), 0)
    except OSError:
        return False
    return True


def _is_there(pid: str, started: str) -> bool:
    """The process of that number is the runner, and not one of our own namespace."""
    words = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return len(words) > 19 and words[19] == started.encode()


if __name__ == "__main__":
    main(sys.argv[1:])
