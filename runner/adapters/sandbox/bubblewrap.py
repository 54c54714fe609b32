"""Tier `namespaces`: bubblewrap gives a command a machine of its own to look at.

Rules of this file:
* The environment is bwrap's own from the start: its helper stays the first process inside, and
  there `/proc/1/environ` shows what it was started with.
* The first process dies with the runner, and everything inside dies with the first process.
* A launch is only a command line, so that anything that can start a program can use it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from runner.adapters import rlimits
from runner.adapters.sandbox import seccomp
from runner.adapters.sandbox.shim import PROXY_PORT
from runner.adapters.sandbox.walls import (
    Launch,
    Walls,
    kernel_places,
    name_service_files,
    nothing_to_remark,
    set_inside,
    shell,
)

OURS = Path(__file__).resolve().parent
"""What starts inside before a command does lies here."""
SHIM = OURS / "shim.py"
OUTER = 'ulimit -c 0; exec "$@" 9<"$0"'
"""Opens the filter for bwrap on a descriptor, and lets nothing inside write a core file."""

# Runs the command, gives what it left behind a moment to end, and counts what is still there.
# Processes inside: the first one, this shell, and the rest.
WATCH = (
    "t=$1; shift; trap : TERM INT HUP; exec {e}>&2 2>/dev/null; ulimit -u $1; shift; "
    "eval '\"$@\" 2>&'$e' '$e'>&- '$t'>&-'; s=$?; n=0; "
    "while set -- /proc/[0-9]*; [ $# -gt 2 ] && [ $n -lt 10 ]; do sleep 0.02; n=$((n+1)); done; "
    "for p; do case $p in /proc/1|/proc/$$) ;; *) echo ${p#/proc/};; esac; done >&$t; exit $s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubblewrap:
    """Walls of mount, PID, IPC, UTS and, unless the network is allowed, network namespaces."""

    tier: ClassVar[Literal["namespaces"]] = "namespaces"
    ends_all: ClassVar[bool] = True

    program: str
    walls: Walls
    filter_file: Path
    remarks: Callable[[], tuple[str, ...]] = nothing_to_remark

    def launch(
        self, argv: tuple[str, ...], env: Mapping[str, str], cwd: Path, tally_fd: int | None = None
    ) -> Launch:
        """See the port."""
        command, inside = set_inside(argv, {**env, **_changed_variables(env, self.walls)})
        if self.walls.door is not None:
            door = str(_door_inside())
            command = (sys.executable, "-I", "-S", str(SHIM), "door", door, *command)
        if tally_fd is not None:
            watcher = (
                shell(),
                "--norc",
                "--noprofile",
                "-c",
                WATCH,
                "bash",
            )
            command = (*watcher, str(tally_fd), str(rlimits.MAX_PROCESSES), *command)
        bwrap = (self.program, *self._arguments(cwd), "--seccomp", "9", "--", *command)
        return Launch(argv=("/bin/sh", "-c", OUTER, str(self.filter_file), *bwrap), env=inside)

    def _arguments(self, cwd: Path) -> Iterator[str]:
        yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts")
        yield "--unshare-cgroup-try"
        if self.walls.network != "allow":
            yield "--unshare-net"
        yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        for place in kernel_places():
            yield from ("--ro-bind-try", str(place), str(place))
        for _, words in sorted(self._mounts(), key=lambda mount: len(mount[0].parts)):
            yield from words
        for place in self.walls.hidden:
            if place.is_dir():  # or what is written there would be gone without a word
                yield from ("--remount-ro", str(place))
        if self.walls.door is not None:
            yield from ("--ro-bind", str(self.walls.door), str(_door_inside()))
        yield from ("--chdir", str(cwd))

    def _mounts(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Sorted by depth by the caller: of two at one place the later one counts."""
        walls = self.walls
        for place in filter(os.path.lexists, walls.hidden):  # the socket of a service may be gone
            empty = ("--tmpfs",) if place.is_dir() else ("--ro-bind", "/dev/null")
            yield place, (*empty, str(place))
        if walls.network == "allow":
            for file in name_service_files():
                yield file, ("--ro-bind", str(file), str(file))
        for name in ("/tmp", "/var/tmp"):
            if Path(name).is_dir():
                yield Path(name), ("--bind", str(walls.temp), name)
        if not any(OURS.is_relative_to(place) for place in walls.writable):
            yield OURS, ("--ro-bind", str(OURS), str(OURS))  # wherever the runner is installed
        for place in walls.readable:
            yield place, ("--ro-bind-try", str(place), str(place))
        for place in walls.writable:
            yield place, ("--bind", str(place), str(place))
        for place in walls.read_only:
            yield place, ("--ro-bind-try", str(place), str(place))


def find_program(environ: Mapping[str, str], outside_of: tuple[Path, ...]) -> str | None:
    """bwrap's path; never one in a folder that commands may write."""
    found = shutil.which("bwrap", path=environ.get("PATH", os.defpath))
    if found is None:
        return None
    real = Path(os.path.realpath(found))
    return None if any(real.is_relative_to(folder) for folder in outside_of) else str(real)


def write_filter(file: Path) -> None:
    """The seccomp filter that `filter_file` names. Raises `OSError`."""
    families = (seccomp.UNIX, seccomp.INET, seccomp.INET6, seccomp.NETLINK)
    file.write_bytes(seccomp.program(families))


def _door_inside() -> Path:
    return Path("/tmp/.autopilot-proxy")


def _changed_variables(env: Mapping[str, str], walls: Walls) -> Mapping[str, str]:
    changed = {"TMPDIR": "/tmp"} if "TMPDIR" in env else {}
    if walls.door is not None:
        proxy = f"http://127.0.0.1:{PROXY_PORT}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
        changed |= dict.fromkeys(names, proxy)
        changed |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1")
    return changed
