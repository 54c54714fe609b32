"""The command without its start: a host that has imported everything forks for each run.

What runs in the fork is the command itself, a process with streams, folder, environment and exit
code of its own. It saves the seconds that importing litellm takes, not a step of the run. For
tests of many runs; whatever is about starting up starts for real.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from runner.cli import main
from tests.adapters.litellm_calls import MODELS, warm_up
from tests.e2e.desk import REPOSITORY, Desk

CLIENT = Path(__file__).with_name("warm_client.py")


@dataclass(slots=True, kw_only=True)
class WarmDesk(Desk):
    """A desk whose command runs in a fork of the host behind `socket`."""

    socket: Path

    def command(self, *arguments: str) -> list[str]:
        """The command line of the stand-in."""
        return [sys.executable, "-I", "-S", str(CLIENT), str(self.socket), *arguments]


@contextmanager
def warm_host(path: Path) -> Iterator[Path]:
    """A host that listens on the socket `path`; it is ready when the block begins."""
    host = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.e2e.warm", str(path)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert host.stdin is not None
    assert host.stdout is not None
    with host.stdin, host.stdout:
        assert host.stdout.readline() == b"ready\n"
        try:
            yield path
        finally:
            host.stdin.close()  # it ends with us
            host.wait(timeout=10)


@dataclass(slots=True)
class _Host:
    """One thread, one selector: a fork for every connection, its exit code for an answer."""

    listener: socket.socket
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def serve(self) -> None:
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.selector.register(sys.stdin, selectors.EVENT_READ, partial(sys.exit, 0))
        while True:
            for key, _ in self.selector.select():
                key.data()

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        while not data.endswith(b"\n"):
            data += connection.recv(1 << 20)
        pid = os.fork()
        if pid == 0:
            self._be_the_command(json.loads(data), streams)
        for stream in streams:
            os.close(stream)
        connection.sendall(b"%d\n" % pid)
        ended = os.pidfd_open(pid)
        over = partial(self._end, pid, ended, connection)
        self.selector.register(ended, selectors.EVENT_READ, over)
        gone = partial(self._client_gone, pid, connection)
        self.selector.register(connection, selectors.EVENT_READ, gone)

    def _client_gone(self, pid: int, connection: socket.socket) -> None:
        self.selector.unregister(connection)
        os.kill(pid, signal.SIGKILL)  # not reaped yet, so it is still this one

    def _end(self, pid: int, ended: int, connection: socket.socket) -> None:
        _, status = os.waitpid(pid, 0)
        self.selector.unregister(ended)
        os.close(ended)
        if connection.fileno() in self.selector.get_map():
            self.selector.unregister(connection)
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        connection.close()

    def _be_the_command(self, asked: dict[str, Any], streams: list[int]) -> NoReturn:
        self.listener.close()
        self.selector.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.setsid()
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        code = 1
        try:
            main(asked["argv"])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        finally:
            os._exit(code)


def _serve(path: str) -> None:
    importlib.import_module("runner.app")  # which the commands import late
    for wire in MODELS:
        warm_up(wire)
    assert threading.active_count() == 1, "a fork has only the thread that forks"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    _Host(listener).serve()


if __name__ == "__main__":
    _serve(sys.argv[1])
