"""Runs inside a sandbox and tries to get out; says what it saw, and judges nothing.

A program of its own, started with `python -I -S`: the standard library alone.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MPTCP = 262
PATIENCE_S = 0.2


def main(asked: dict[str, Any]) -> None:
    """Try everything in `asked`, and write what came of it to stdout as JSON."""
    contents = [_read(path).decode("ascii", "replace") for path in asked["read"]]
    for path in asked["write"]:
        _try_to_write(path)
    for port in asked["ports"]:
        _try_to_connect(port)
    seen = {
        "contents": contents,
        "opened": [path for path in asked["guarded"] if _can_be_opened(path)],
        "environ": _environments(asked["pid"], asked["started"], asked["names"]),
        "signal": _signal(asked["pid"], asked["started"]),
        "not_writable": [path for path in asked["writable"] if not os.access(path, os.W_OK)],
    }
    sys.stdout.write(json.dumps(seen))  # noqa: TID251 - a program of its own


def _try_to_write(path: str) -> None:
    with suppress(OSError):
        Path(path).write_text("broken")


def _read(path: str) -> bytes:
    with suppress(OSError):
        return Path(path).read_bytes()
    return b""


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
        (socket.SOCK_STREAM, 0),
        (socket.SOCK_STREAM, MPTCP),
        (socket.SOCK_DGRAM, 0),
    ):
        with suppress(OSError), socket.socket(socket.AF_INET, kind, protocol) as one:
            one.settimeout(PATIENCE_S)
            one.connect(("127.0.0.1", port))
            one.send(b"out")


def _environments(pid: int, started: str, names: list[str]) -> bool:
    """Whether the runner's environment can be read, or one that holds any of its variables."""
    if _is_there(pid, started) and _read(f"/proc/{pid}/environ"):
        return True
    marks = tuple(f"{name}=".encode() for name in names)
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            entries = file.read_bytes().split(b"\0")
            if marks and any(entry.startswith(marks) for entry in entries):
                return True
    return False


def _signal(pid: int, started: str) -> bool:
    """Whether a signal would reach the runner; the one that is sent, 0, does nothing."""
    if not _is_there(pid, started):
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _is_there(pid: int, started: str) -> bool:
    """The process of that number is the runner, and not one of our own namespace."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] == started
    return False


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
