"""Look at protected files without following, opening or running anything that is not a file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pathspec import PathSpec

_MAGIC = frozenset("*?[\\")
_MAX_LINKED = 20_000
"""How many files of a linked folder are looked at; more count as one that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A folder, and the gitignore-style lines that say what in it is protected.

    Lines are compared with `at` and the path in the folder together. A file of it is called
    `shown` and its path.
    """

    root: Path
    lines: tuple[str, ...]
    at: str = ""
    shown: str = ""

    def deciding(self, relative: str) -> str | None:
        """The line that protects this path; None when nothing does."""
        found = compiled(self.lines).check_file(self.at + relative)
        return self.lines[found.index] if found.include and found.index is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is at one name, in the words of the log, and a mark that changes with each write."""

    there: str
    mark: str


def files_of(tree: Tree) -> Iterator[tuple[str, Path]]:
    """The name and the path of everything protected in a tree: files, links, special files."""

    def wanted(relative: str) -> bool:
        return tree.deciding(relative) is not None

    found: dict[str, Path] = {}
    for start in _starts(tree):
        blocked = _link_on_the_way(tree.root, start)
        if blocked is not None:
            found[str(blocked.relative_to(tree.root))] = blocked
        else:
            found.update(_walk(tree.root, start, wanted))
    for relative, path in found.items():
        yield tree.shown + relative, path


def look_at(path: Path) -> Seen | None:
    """What is there; None when nothing is. A link is what it says and what it leads to."""
    try:
        state = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Seen(there=f"unreadable {error.strerror}", mark="")
    mark = f"{state.st_ino}-{state.st_ctime_ns}"
    if stat.S_ISREG(state.st_mode):
        return Seen(there=_file(path, state), mark=mark)
    if stat.S_ISLNK(state.st_mode):
        return Seen(there=_link(path), mark=f"{mark} {_mark_behind(path)}")
    kind = "folder" if stat.S_ISDIR(state.st_mode) else "special"
    return Seen(there=f"{kind} {stat.S_IMODE(state.st_mode):o}", mark=mark)


@lru_cache(maxsize=64)
def compiled(lines: tuple[str, ...]) -> PathSpec[Any]:
    """The lines of gitignore; the last one that matches decides."""
    return PathSpec.from_lines("gitignore", lines)


def literal(line: str) -> tuple[str, ...] | None:
    """The folders a line certainly starts with; None for one that may match anywhere."""
    text = line.rstrip()
    if "/" not in text.rstrip("/"):
        return None
    parts = [part for part in text.split("/") if part]
    plain: list[str] = []
    for part in parts:
        if _MAGIC.intersection(part):
            break
        plain.append(part)
    return tuple(plain)


def _starts(tree: Tree) -> tuple[str, ...]:
    """Where to look, relative to the root: as little as the lines allow."""
    prefix = tuple(part for part in tree.at.split("/") if part)
    starts: set[str] = set()
    for line in tree.lines:
        if not line.strip() or line.startswith(("!", "#")):
            continue
        parts = literal(line) or ()
        if parts[: len(prefix)] == prefix:
            starts.add("/".join(parts[len(prefix) :]))
    return tuple(sorted(starts))


def _link_on_the_way(root: Path, start: str) -> Path | None:
    """The first part of a start that is a link, and so leads out of what is compared."""
    place = root
    for part in start.split("/") if start else ():
        place = place / part
        if place.is_symlink():
            return place
    return None


def _walk(root: Path, start: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, Path]]:
    top = root / start
    if not top.is_dir():
        if os.path.lexists(top) and wanted(start):
            yield start, top
        return
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                children = list(entries)
        except OSError:
            continue  # what cannot be listed has no names; its files are gone, and so reported
        for child in children:
            path = Path(child.path)
            if child.is_dir(follow_symlinks=False):
                if child.name != ".git" or start:
                    waiting.append(path)
                continue
            relative = str(path.relative_to(root))
            # A link may stand where a line means a folder.
            if wanted(relative) or (child.is_symlink() and wanted(f"{relative}/")):
                yield relative, path


def _file(path: Path, state: os.stat_result) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "special file"
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"unreadable {error.strerror}"
    return f"file {stat.S_IMODE(state.st_mode):04o} {digest}"


def _link(path: Path) -> str:
    try:
        target = str(path.readlink())
        state = path.stat()
    except (OSError, RuntimeError):
        return f"link {_quoted(path)} to nothing"
    if stat.S_ISREG(state.st_mode):
        return f"link {target} {_file(path.resolve(), state)}"
    if stat.S_ISDIR(state.st_mode):
        return f"link {target} {_folder(path.resolve())}"
    return f"link {target} special"


def _mark_behind(link: Path) -> str:
    """A mark that changes with each write to what a link leads to."""
    try:
        target = link.resolve(strict=True)
        found = _walk(target, "", lambda _: True) if target.is_dir() else (("", target),)
        states = ((name, os.lstat(path)) for name, path in sorted(found)[:_MAX_LINKED])
        marks = [f"{name}\0{state.st_ino}-{state.st_ctime_ns}\0" for name, state in states]
    except (OSError, RuntimeError):
        return ""
    return hashlib.sha256("".join(marks).encode("utf-8", "surrogatepass")).hexdigest()


def _quoted(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return "?"


def _folder(folder: Path) -> str:
    """A folder that a link leads to, as one hash of all that is in it."""
    told = hashlib.sha256()
    listed = sorted(_walk(folder, "", lambda _: True))
    if len(listed) > _MAX_LINKED:
        return "unreadable: too many files"
    for name, path in listed:
        seen = path.readlink() if path.is_symlink() else look_at(path)
        told.update(f"{name}\0{seen}\0".encode("utf-8", "surrogatepass"))
    return f"folder {told.hexdigest()}"
