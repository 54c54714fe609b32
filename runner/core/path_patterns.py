"""Path patterns of permission rules, compared part by part as gitignore does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache


class PatternError(ValueError):
    """The text is no pattern; the message says why, and what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What path patterns start from: absolute paths."""

    workspace: str
    home: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A path pattern taken apart. `start` is where its parts begin: `/`, `~`, or `.`."""

    start: str
    parts: tuple[str, ...]
    floats: bool
    folder: bool


@lru_cache(maxsize=1024)
def pattern(specifier: str) -> Pattern:
    """The pattern a specifier means. Raises `PatternError`."""
    start, rest = ".", specifier
    if specifier.startswith("!"):
        raise PatternError("a rule cannot take back another: leave the ! out")
    for prefix, place in (("//", "/"), ("~/", "~"), ("/", "."), ("./", ".")):
        if specifier.startswith(prefix):
            start, rest = place, specifier.removeprefix(prefix)
            break
    parts = tuple(part for part in rest.split("/") if part not in ("", "."))
    if ".." in parts:
        raise PatternError("a path with `..` never matches: write //absolute/path")
    if not parts and start != "/":
        parts = ("**",)
    floats = rest is specifier and len(parts) == 1
    return Pattern(start=start, parts=parts, floats=floats, folder=rest.endswith("/"))


def covers(specifier: str, path: str, places: Places, *, widely: bool) -> bool:
    """Whether the pattern of a rule means this absolute path, or a folder that it lies in.

    `widely` is for rules that deny: a bare folder name then counts at every depth.
    """
    found = _compare(pattern(specifier), path, places, widely=widely)
    return found is not None and found[0]


def reaches_below(specifier: str, folder: str, places: Places) -> bool:
    """Whether the pattern of a rule that denies means the folder, or may mean something in it."""
    found = _compare(pattern(specifier), folder, places, widely=True)
    return found is None or any(found)


def _compare(
    wanted: Pattern, path: str, places: Places, *, widely: bool
) -> tuple[bool, bool] | None:
    """(means it, may mean something below it); None when the path is not under the start."""
    start = {"/": "/", "~": places.home, ".": places.workspace}[wanted.start]
    names_ = _below(path, start)
    floats = wanted.floats and (widely or not wanted.folder)
    if names_ is None:
        if floats and widely:
            names_ = _parts(path)
        elif _below(start, path) is None:
            return False, False
        else:
            return None
    return _walk(("**", *wanted.parts) if floats else wanted.parts, names_)


def _walk(parts: tuple[str, ...], names_: Sequence[str]) -> tuple[bool, bool]:
    alive = _past_any(parts, {0})
    for name in names_:
        if len(parts) in alive:
            return True, True  # a folder above it is meant
        moved = set()
        for at in alive:
            if parts[at] == "**":
                moved.add(at)
            elif fnmatchcase(name, parts[at]):
                moved.add(at + 1)
        alive = _past_any(parts, moved)
    return len(parts) in alive, bool(alive)


def _past_any(parts: tuple[str, ...], alive: set[int]) -> set[int]:
    """Also past every `**`, which may mean no folder."""
    slid = set(alive)
    for at in alive:
        past = at
        while past < len(parts) and parts[past] == "**":
            past += 1
            slid.add(past)
    return slid


def _below(path: str, start: str) -> tuple[str, ...] | None:
    names_, above = _parts(path), _parts(start)
    return names_[len(above) :] if names_[: len(above)] == above else None


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
