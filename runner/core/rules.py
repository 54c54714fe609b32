"""Permission rules: `Tool` and `Tool(specifier)`, what each means, and what it matches.

A command pattern and a command are compared as words that are decoded already: blanks of the
pattern stand for the borders of words, and `*` for anything, borders included. A path pattern
is compared part by part, as gitignore does it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

Glob = tuple[str | None, ...]
"""Characters; None stands for any text, also for none."""

Word = tuple[str | None, ...]
"""One word of a command: pieces of known text, and None for what only the shell will know."""

BORDER: Final = "\0"
"""Between two words. No word can hold it."""

PATH_TOOLS: Final = ("Read", "Edit", "Write")
COMMAND_TOOL: Final = "Bash"

_RULE = re.compile(r"([^()\s]+)(?:\((.*)\))?", re.DOTALL)
_SHELL_SYNTAX = re.compile(r"[;&|<>$`\n]")


class RuleError(ValueError):
    """The text is no rule; the message says why, and what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `specifier` is None when the rule means every call of the tool."""

    text: str
    tool: str
    specifier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What path patterns start from: absolute paths."""

    workspace: str
    home: str


@lru_cache(maxsize=1024)
def parse(text: str) -> Rule:
    """The rule a text means. Raises `RuleError`."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise RuleError("a rule is `Tool` or `Tool(specifier)`")
    tool, specifier = found.groups()
    if specifier is None or (tool == COMMAND_TOOL and specifier.strip() in ("*", ":*")):
        return Rule(text=text, tool=tool)
    if not specifier.strip():
        raise RuleError(f"nothing stands between the brackets: write {tool} for every call")
    if not specifier.isprintable():
        raise RuleError("a character in it cannot be seen")
    if tool == COMMAND_TOOL:
        command_globs(specifier)
    elif tool in PATH_TOOLS:
        _pattern(specifier)
    else:
        raise RuleError(f"{tool} takes no specifier: write {tool}")
    return Rule(text=text, tool=tool, specifier=specifier)


def names(rule: Rule, tool: str) -> bool:
    """The rule is about calls of this tool, all or some of them.

    With a path, `Edit` means every tool that writes, and `Read` the searching ones too.
    """
    if rule.specifier is None or rule.tool == tool:
        return rule.tool == tool
    covered = {"Edit": ("Write",), "Read": ("Grep", "Glob")}
    return tool in covered.get(rule.tool, ())


def is_exact(rule: Rule) -> bool:
    """The rule means one command and no other."""
    return rule.specifier is not None and "*" not in rule.specifier


@lru_cache(maxsize=1024)
def command_globs(specifier: str) -> tuple[Glob, ...]:
    """The patterns of a command rule; a final ` *` also means nothing more. Raises `RuleError`."""
    text = specifier.removesuffix(":*").rstrip() + " *" if specifier.endswith(":*") else specifier
    if _SHELL_SYNTAX.search(text):
        raise RuleError("a rule is about one command: no ; & | < > $ ` in it, list each by itself")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise RuleError(f"the quotes in it do not match: {error}") from None
    whole = _glob(words)
    return (whole, _glob(words[:-1])) if len(words) > 1 and words[-1] == "*" else (whole,)


def _glob(words: Iterable[str]) -> Glob:
    return tuple(None if char == "*" else char for char in BORDER.join(words))


def matches(rule: Rule, words: Sequence[Word]) -> bool:
    """Whether a command rule means this command, or might once the shell knows the rest."""
    text = [piece for word in words for piece in (BORDER, *word)][1:]
    return any(_meet(glob, text) for glob in command_globs(rule.specifier or "*"))


def _meet(glob: Glob, text: Iterable[str | None]) -> bool:
    """Whether some text fits both. Works on the set of places in `glob` one may have come to."""
    alive = _slide(glob, {0})
    for piece in text:
        for char in (None,) if piece is None else piece:
            if char is None:
                alive = set(range(min(alive), len(glob) + 1))
            else:
                alive = _slide(glob, _step(glob, alive, char))
            if not alive:
                return False
    return len(glob) in alive


def _step(glob: Glob, alive: set[int], char: str) -> set[int]:
    inside = [at for at in alive if at < len(glob)]
    return {at if glob[at] is None else at + 1 for at in inside if glob[at] in (None, char)}


def _slide(glob: Glob, alive: set[int]) -> set[int]:
    """Also past every `*`, which may mean nothing."""
    slid = set(alive)
    for at in alive:
        past = at
        while past < len(glob) and glob[past] is None:
            past += 1
            slid.add(past)
    return slid


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    """A path pattern taken apart. `start` is where its parts begin: `/`, `~`, or `.`."""

    start: str
    parts: tuple[str, ...]
    floats: bool
    folder: bool


@lru_cache(maxsize=1024)
def _pattern(specifier: str) -> _Pattern:
    start, rest = ".", specifier
    if specifier.startswith("!"):
        raise RuleError("a rule cannot take back another: leave the ! out")
    for prefix, place in (("//", "/"), ("~/", "~"), ("/", "."), ("./", ".")):
        if specifier.startswith(prefix):
            start, rest = place, specifier.removeprefix(prefix)
            break
    parts = tuple(part for part in rest.split("/") if part not in ("", "."))
    if ".." in parts:
        raise RuleError("a path with `..` never matches: write //absolute/path")
    if not parts and start != "/":
        parts = ("**",)
    floats = rest is specifier and len(parts) == 1
    return _Pattern(start=start, parts=parts, floats=floats, folder=rest.endswith("/"))


def covers(rule: Rule, path: str, places: Places, *, widely: bool) -> bool:
    """Whether a path rule means this absolute path, or a folder that it lies in.

    `widely` is for rules that deny: a bare folder name then counts at every depth.
    """
    found = _compare(_pattern(rule.specifier or ""), path, places, widely=widely)
    return found is not None and found[0]


def reaches_below(rule: Rule, folder: str, places: Places) -> bool:
    """Whether a path rule that denies means the folder, or may mean something in it."""
    found = _compare(_pattern(rule.specifier or ""), folder, places, widely=True)
    return found is None or any(found)


def _compare(
    pattern: _Pattern, path: str, places: Places, *, widely: bool
) -> tuple[bool, bool] | None:
    """(means it, may mean something below it); None when the path is not under the start."""
    start = {"/": "/", "~": places.home, ".": places.workspace}[pattern.start]
    names_ = _below(path, start)
    floats = pattern.floats and (widely or not pattern.folder)
    if names_ is None:
        if floats and widely:
            names_ = _parts(path)
        elif _below(start, path) is None:
            return False, False
        else:
            return None
    return _walk(("**", *pattern.parts) if floats else pattern.parts, names_)


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
