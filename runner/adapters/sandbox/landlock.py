"""Tier `landlock`: the kernel's own access rules, and a filter on what can be asked of it.

It hides no processes and cannot make a hole in a folder that may be written. Source:
`linux/landlock.h` and the kernel's `userspace-api/landlock` document, versions 1 to 7.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from runner.adapters.sandbox import seccomp
from runner.adapters.sandbox.walls import (
    Launch,
    Walls,
    name_service_files,
    nothing_to_remark,
    set_inside,
)

SHIM = Path(__file__).with_name("shim.py")

CREATE_RULESET = 444
ASK_VERSION = 1
LEAST_VERSION = 3
"""The first that stops a file from being cut off."""
SCOPED_VERSION = 6
"""The first that keeps signals inside."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE = 1 << 14
UP_TO_TRUNCATE = (1 << 15) - 1
IOCTL_DEVICE = 1 << 15
IOCTL_VERSION = 5
READ = READ_FILE | EXECUTE
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
NO_ABSTRACT_SOCKETS, NO_SIGNALS = 1, 2

DAC_OVERRIDE = 1
"""The capability by which root writes the files of others."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landlock:
    """Walls of Landlock rules and a seccomp filter, put up by the command itself as it starts."""

    tier: ClassVar[Literal["landlock"]] = "landlock"
    ends_all: ClassVar[bool] = False

    walls: Walls
    rules_file: Path
    remarks: Callable[[], tuple[str, ...]] = nothing_to_remark

    def launch(
        self, argv: tuple[str, ...], env: Mapping[str, str], cwd: Path, tally_fd: int | None = None
    ) -> Launch:
        """See the port."""
        shim = (sys.executable, "-I", "-S", str(SHIM), "landlock", str(self.rules_file))
        command, early = set_inside(argv, {**env, "TMPDIR": str(self.walls.temp)})
        return Launch(argv=(*shim, *command), env=early)


def version() -> int:
    """Which Landlock this kernel has; 0 for none."""
    if sys.platform != "linux":
        return 0
    found: int = ctypes.CDLL(None, use_errno=True).syscall(CREATE_RULESET, None, 0, ASK_VERSION)
    return max(found, 0)


def has_another_owner(walls: Walls) -> bool:
    """Whether this is root in a workspace of somebody else, as with one that is mounted."""
    return os.geteuid() == 0 and any(path.stat().st_uid != 0 for path in walls.writable)


def write_rules(file: Path, walls: Walls, kernel: int) -> None:
    """What the shim is to leave: lines of a key and a value. Raises `OSError`."""
    file.write_text("".join(f"{key} {value}\n" for key, value in _wanted(walls, kernel)))


def _wanted(walls: Walls, kernel: int) -> Iterator[tuple[str, object]]:
    handled = UP_TO_TRUNCATE | (IOCTL_DEVICE if kernel >= IOCTL_VERSION else 0)
    families: tuple[int, ...] = ()
    if walls.network == "allow":
        families = (seccomp.UNIX, seccomp.INET, seccomp.INET6, seccomp.NETLINK)
    yield "handled", handled
    yield "scoped", NO_ABSTRACT_SOCKETS | NO_SIGNALS if kernel >= SCOPED_VERSION else 0
    # The structure grew; an older kernel refuses a longer one.
    yield "size", 24 if kernel >= SCOPED_VERSION else 16 if kernel >= 4 else 8
    for access, path in _rules(walls, handled):
        yield "rule", f"{access} {os.fsencode(path).hex()}"
    if has_another_owner(walls):
        yield "keep", DAC_OVERRIDE
    yield "filter", seccomp.program(families).hex()


def _rules(walls: Walls, handled: int) -> Iterator[tuple[int, Path]]:
    yield READ_DIR, Path("/")
    hidden = frozenset(walls.hidden)
    for path in _around(Path("/"), hidden, frozenset(p for h in hidden for p in h.parents)):
        yield READ, path
    readable = walls.readable + (name_service_files() if walls.network == "allow" else ())
    for path in readable:
        yield (READ | READ_DIR if path.is_dir() else READ), path
    for path in (*walls.writable, walls.temp):
        yield (handled if path.is_dir() else handled & ON_FILES), path
    for name in DEVICES:
        yield READ_FILE | WRITE_FILE, Path("/dev") / name


def _around(folder: Path, hidden: frozenset[Path], above: frozenset[Path]) -> Iterator[Path]:
    """Everything below `folder` but what is hidden, in as few paths as that takes."""
    if folder not in above:
        yield folder
        return
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        path = folder / entry.name
        # A link is allowed where it leads, or not at all.
        if path not in hidden and not entry.is_symlink():
            yield from _around(path, hidden, above)
