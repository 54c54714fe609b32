"""The instruction files of a project: `CLAUDE.md` and `AGENTS.md`, with what they import."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

NAMES = ("CLAUDE.md", "AGENTS.md")
MAX_HOPS = 4
MAX_FILE_BYTES = 64 * 1024
MAX_ALL_BYTES = 256 * 1024
CUT = "\n[cut here: the file is longer]\n"

_IMPORT = re.compile(r"(?:(?<=\s)|^)@([\w~./-]*[\w/-])")
_CODE_SPAN = re.compile(r"(`+).*?\1")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """Each file that loads, as (path, text) in reading order, and what could not be read."""

    files: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()


def read(workspace: Path, copy_of: Path | None = None) -> Instructions:
    """The files from the root of the checkout down to `workspace`, each text once.

    A copy is read in place of the folder it is a copy of; what is above that is read where it is.
    """
    way, roots = way_up(workspace, copy_of)
    reading = _Reading(roots=roots)
    for folder in reversed(way):
        for name in NAMES:
            if os.path.lexists(folder / name):
                reading.take(folder / name, folder / name, 0)
    return Instructions(files=tuple(reading.files), problems=tuple(reading.problems))


def way_up(
    workspace: Path, copy_of: Path | None = None
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The folders from `workspace` up to the root of the checkout, and the roots they lie in."""
    inside, place = workspace.resolve(), (copy_of or workspace).resolve()
    root = next((p for p in (place, *place.parents) if (p / ".git").exists()), place)
    return (inside, *(p for p in place.parents if p.is_relative_to(root))), (inside, root)


@dataclass(slots=True, kw_only=True)
class _Reading:
    roots: tuple[Path, ...]
    files: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seen: set[Path | str] = field(default_factory=set)
    left: int = MAX_ALL_BYTES

    def take(self, path: Path, asked_by: object, hops: int) -> None:
        """Read one file, then what it imports. `asked_by` is where a problem is reported."""
        try:
            real = path.resolve()
            if real in self.seen:
                return
            if not any(real.is_relative_to(root) for root in self.roots):
                raise OSError("outside the checkout")
            text, is_cut = bounded_text(real, min(MAX_FILE_BYTES, self.left))
        except (OSError, RuntimeError, ValueError) as error:
            self.problems.append(f"{asked_by}: {path} was not read: {reason(error)}")
            return
        self.seen.add(real)
        if text in self.seen:
            return
        self.seen.add(text)
        self.left -= len(text.encode())
        if is_cut:
            self.problems.append(f"{real}: only the first {len(text.encode())} bytes were read")
        self.files.append((str(real), text + CUT if is_cut else text))
        self._follow(real, text, hops)

    def _follow(self, file: Path, text: str, hops: int) -> None:
        for line, name in _imports(text):
            if hops == MAX_HOPS:
                self.problems.append(f"{file}:{line}: @{name} is more than {MAX_HOPS} imports deep")
            else:
                self.take(file.parent / name, f"{file}:{line}", hops + 1)


def _imports(text: str) -> list[tuple[int, str]]:
    """The (line number, path) of each import that is not inside code."""
    found = []
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence:
            found += [(number, name) for name in _IMPORT.findall(_CODE_SPAN.sub("", line))]
    return found


def bounded_text(path: Path, most: int) -> tuple[str, bool]:
    """At most `most` bytes of a regular file, and whether there were more. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        data = file.read(most + 1)
    return data[:most].decode("utf-8", "ignore"), len(data) > most


def reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
