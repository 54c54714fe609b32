"""Canaries: a sandbox is taken at what it does, by trying to get out of it before the run.

Rules of this file: what was written and what was heard is judged from outside; the probe inside
is believed only where it says that it got further than it should.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner.adapters.local import LocalSandbox
from runner.adapters.sandbox.walls import KERNEL, Enclosure, Walls
from runner.core.events import Canary
from runner.ports import ExecRequest

PROBE = Path(__file__).resolve().with_name("probe.py")
TIMEOUT_S = 10.0
MAX_SAID_BYTES = 4_000
MAX_NAMES = 50
MAX_GUARDED = 20
MADE_BY_SHELLS = frozenset({"_", "OLDPWD", "PWD", "SHLVL", "LC_CTYPE", "LINES", "COLUMNS"})
"""Variables that appear inside without coming from outside."""


class NoAnswer(Exception):
    """The probe did not run, or not to its end; the message says what came instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victims:
    """What a broken sandbox would touch: a file, places for new ones, and a listening port."""

    file: Path
    token: str
    new_files: tuple[Path, ...]
    port: int
    streams: socket.socket
    datagrams: socket.socket

    def heard(self) -> bool:
        """Whether anybody called."""
        for one, take in ((self.streams, self.streams.accept), (self.datagrams, self._datagram)):
            one.setblocking(False)
            try:
                take()
            except BlockingIOError:
                continue
            return True
        return False

    def _datagram(self) -> bytes:
        return self.datagrams.recv(16)

    def touched(self) -> list[str]:
        """What was written, of what should not be."""
        made = [str(path) for path in self.new_files if path.exists()]
        return made if self.file.read_text() == self.token else [str(self.file), *made]


async def release(
    enclosure: Enclosure, walls: Walls, *, env: Mapping[str, str], outer: Mapping[str, str]
) -> tuple[Canary, ...]:
    """Try to get out of the sandbox and say what came of it.

    `env` is what commands get, `outer` the runner's own environment. Raises `NoAnswer` and
    `OSError` when nothing can be tried.
    """
    home = Path(outer.get("HOME") or "/")
    with _victims(walls, home) as victims:
        said = await _probe(enclosure, walls, victims, env=env, outer=outer)
        touched, heard = victims.touched(), victims.heard()
        read, opened = said.get("contents", []), said.get("opened", [])
    found = [
        _canary("write outside", [*touched, *(p for p in opened if p in KERNEL)]),
        _canary("read what is hidden", [victims.file.name] if victims.token in read else []),
        _canary("read the runner's environment", ["it was read"] if "environ" in said else []),
        _canary("signal the runner", ["it would arrive"] if "signal" in said else []),
    ]
    if walls.network != "allow":
        found.append(_canary("connect out", ["a listener heard it"] if heard else []))
    if _guarded(enclosure, walls):
        reached = [path for path in opened if path not in KERNEL]
        found.append(_canary("write a protected path", reached))
    works = [
        f"{path} cannot be written by user {os.geteuid()} without capabilities: run as its owner"
        for path in said.get("not_writable", [])
    ]
    return (*found, Canary(name="work inside", held=not works, detail="; ".join(works) or "works"))


def _canary(name: str, got_through: list[str]) -> Canary:
    return Canary(
        name=name, held=not got_through, detail=", ".join(got_through[:3]) or "did not get through"
    )


async def _probe(
    enclosure: Enclosure,
    walls: Walls,
    victims: Victims,
    *,
    env: Mapping[str, str],
    outer: Mapping[str, str],
) -> Mapping[str, list[str]]:
    asked: Mapping[str, Iterable[object]] = {
        "read": [victims.file],
        "write": [victims.file, *victims.new_files],
        "guarded": [*_guarded(enclosure, walls), *KERNEL],
        "writable": walls.writable,
        "port": [] if walls.network == "allow" else [victims.port],
        "pid": [os.getpid()],
        "started": [_started()],
        "name": sorted(set(outer) - set(env) - MADE_BY_SHELLS)[:MAX_NAMES],
    }
    words = [f"{key}={value}" for key, values in asked.items() for value in values]
    request = ExecRequest(
        argv=(sys.executable, "-I", "-S", str(PROBE), *words),
        cwd=walls.writable[0],
        timeout_s=TIMEOUT_S,
        max_output_bytes=MAX_SAID_BYTES,
        env=env,
        split_errors=True,  # a loader that misses a library says so, and goes on
    )
    result = await LocalSandbox(enclosure=enclosure).exec(request, lambda text: None)
    said = _understood(result.output)
    if said is None:
        lines = f"{result.errors}\n{result.output}".strip().splitlines()
        raise NoAnswer(lines[0] if lines else f"exit code {result.exit_code}")
    return said


def _understood(output: str) -> Mapping[str, list[str]] | None:
    """What the probe said, by key; None when that was not all, or something else said it."""
    said: dict[str, list[str]] = {}
    for line in output.splitlines():
        key, _, value = line.partition(" ")
        try:
            said.setdefault(key, []).append(os.fsdecode(bytes.fromhex(value)))
        except ValueError:
            return None
    return said if "done" in said else None


def _guarded(enclosure: Enclosure, walls: Walls) -> list[Path]:
    """Protected files that should be read-only; Landlock promises that of none."""
    files = [path for path in walls.read_only if path.is_file()]
    return files[:MAX_GUARDED] if enclosure.tier == "namespaces" else []


def _started() -> str:
    """When this process began, in ticks since boot: with its number, its identity."""
    return Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]


@contextmanager
def _victims(walls: Walls, home: Path) -> Iterator[Victims]:
    """Something to break, in places that commands must not reach; gone afterwards."""
    name, token = f".autopilot-canary-{secrets.token_hex(4)}", secrets.token_hex(16)
    file = walls.temp.parent / name
    new_files = [folder / name for folder in (walls.writable[0].parent, home)]
    new_files = [path for path in new_files if path != file and _is_outside(path, walls)]
    with ExitStack() as stack:
        for path in (file, *new_files):
            stack.callback(path.unlink, missing_ok=True)
        file.write_text(token)
        streams = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        port = streams.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        yield Victims(
            file=file,
            token=token,
            new_files=tuple(new_files),
            port=port,
            streams=streams,
            datagrams=datagrams,
        )


def _is_outside(path: Path, walls: Walls) -> bool:
    return not any(path.is_relative_to(folder) for folder in walls.open_again)
