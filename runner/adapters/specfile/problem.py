"""What is wrong with a spec: where it stands, what it is, and what to do about it.

Rules of this file: a problem is a value, collected and never raised alone; nothing that is shown
holds a control character or something that looks like a key.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
"""Characters that control a terminal, reorder text or cannot be written at all."""

_KEY_PREFIX = re.compile(
    r"(?:[spr]k[-_]|xai-|gsk_|gh[pousr]_|github_pat_|glpat-|hf_|r8_|xox[a-z]-|AKIA[A-Z0-9]|AIza)"
)
_MIXED = re.compile(r"(?=[^a-z]*[a-z])(?=[^0-9]*[0-9])[A-Za-z0-9+/=_.-]{24,}")
_MAX_SHOWN_CHARS = 60
_MAX_PROBLEMS = 100
_MAX_SUGGESTED_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where spec text comes from: a file, standard input or the command line.

    `name` is how it is shown; relative paths in it start at `folder`; `numbered` says whether
    its lines mean anything to a reader.
    """

    name: str
    folder: Path
    numbered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place in a source; line and column count from 1."""

    source: Source
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake. `str()` is `file:line: path: message`, then a `hint:` line if there is one."""

    file: str
    line: int | None
    column: int | None
    path: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        first = ": ".join(part for part in (place, self.path, self.message) if part)
        lines = [first] if self.hint is None else [first, f"hint: {self.hint}"]
        return "\n".join(printable(line) for line in lines)


class SpecError(Exception):
    """A spec cannot be used. `problems` are all that were found, in reading order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        found = tuple(problems)
        self.problems: tuple[Problem, ...] = found[:_MAX_PROBLEMS]
        left = len(found) - len(self.problems)
        if left:
            last = self.problems[-1]
            more = f"{left} more problems, not shown"
            rest = Problem(file=last.file, line=None, column=None, path="", message=more)
            self.problems = (*self.problems, rest)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Invalid:
    """What reading gives back for something that was refused."""


INVALID: Final = Invalid()


Advise = Callable[[str, "At"], tuple[str, str | None]]
"""From an unknown key, and where it stands, to a message and a hint."""


def _no_advice(_name: str, _at: At) -> tuple[str, str | None]:
    return "unknown key", None


@dataclass(frozen=True, slots=True)
class At:
    """Where in the spec a reader stands, the list that takes what it refuses, what it says about
    an unknown key, and the names of the tools that the task brings itself."""

    path: str
    problems: list[Problem]
    advise: Advise = _no_advice
    own_tools: frozenset[str] = frozenset()

    def key(self, name: str) -> At:
        """One step down, into a map."""
        return replace(self, path=f"{self.path}.{name}" if self.path else name)

    def item(self, index: int) -> At:
        """One step down, into a list."""
        return replace(self, path=f"{self.path}[{index}]")

    def refuse(self, mark: Mark, message: str, hint: str | None = None) -> Invalid:
        """Note a problem at `mark`; the answer is `INVALID`, to be passed on."""
        numbered = mark.source.numbered
        self.problems.append(
            Problem(
                file=mark.source.name,
                line=mark.line if numbered else None,
                column=mark.column if numbered else None,
                path=self.path,
                message=message,
                hint=hint,
            )
        )
        return INVALID

    def nearest(self, wrong: str, known: Iterable[str]) -> str | None:
        """The known word closest to a misspelt one, if one is close at all."""
        if len(wrong) > _MAX_SUGGESTED_CHARS or len(self.problems) > _MAX_PROBLEMS:
            return None  # a hostile file must not buy time with comparisons
        by_plain = {_plain(word): word for word in known}
        close = difflib.get_close_matches(_plain(wrong), by_plain, n=1, cutoff=0.65)
        return by_plain[close[0]] if close else None


def neighbour(source: Source, path: str) -> str:
    """How a file is shown that `source` names by a path of its own."""
    folder = Path(source.name).parent if source.numbered else Path()
    return str(folder / path)


def printable(text: str) -> str:
    """The text on one line, with every control character written out."""
    return HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def shown(text: str) -> str:
    """The text in quotes, as a message may show it: short, visible, and never a key."""
    if looks_like_key(text):
        return "(a value that looks like a key, not shown)"
    cut = text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 3] + "..."
    return f'"{printable(cut)}"'


def starts_like_key(text: str) -> bool:
    """Whether this has the prefix that a provider or a forge gives its keys."""
    return len(text) >= 12 and bool(_KEY_PREFIX.match(text)) and not re.search(r"[\s/:]", text)


def looks_like_key(text: str) -> bool:
    """Whether this could be a key: its prefix, or long, unbroken and random-looking."""
    mixed = _MIXED.fullmatch(text) is not None and _runs(text) > len(text) / 5
    return mixed or starts_like_key(text)


def _runs(text: str) -> int:
    """How often letters and digits take turns: words with a number at the end do it once."""
    return len(re.findall(r"[A-Za-z][0-9]|[0-9][A-Za-z]|[a-z][A-Z]", text))


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())
