"""Removals that nobody means: of `/`, a top-level folder, home, or where the work is done.

Rules of this file: words are judged as they are written, since a pattern or a variable says more
there than after the shell; one that is not known may be empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, takewhile

from runner.core.bash_rules import base_name, known, told
from runner.core.risky_options import RUNNERS
from runner.core.rules import Word
from runner.core.shell import Command, Script

_EVERYTHING = re.compile(r"[.?!\[\]*]*\*[.?!\[\]*]*")
_TOP_LEVEL = re.compile(
    "bin|boot|dev|etc|home|lib|lib32|lib64|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var"
    "|Applications|Library|System|Users|Volumes"
)
_FIND_FIRST = re.compile(r"-[HLP]|-O\d?")
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_TESTS = re.compile(
    "!|-not|-prune|-i?name|-i?path|-i?wholename|-i?regex|-i?lname|-newer.*|-[amc](time|min|newer)"
    "|-size|-user|-group|-uid|-gid|-perm|-inum|-samefile|-empty|-links|-used"
)
"""Expressions of find that choose files by more than their kind or depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a command runs: absolute paths of its folder, the workspace and home."""

    cwd: str
    workspace: str
    home: str


def critical_removal(script: Script, standing: Standing) -> str | None:
    """What the command would remove that nobody means, in words; None when there is nothing."""
    folders = (standing.cwd, *_moves(script, standing))
    for command in script.commands:
        for word in _removed(command):
            if any(_is_critical(word, folder, standing) for folder in folders):
                return f"it removes `{told([word])}`"
    return None


def _moves(script: Script, standing: Standing) -> Iterator[str]:
    """Where the command may go before it removes something."""
    for command in script.commands:
        words = command.written
        if len(words) > 1 and known(words[0]) in ("cd", "pushd"):
            text = known(words[-1])
            if text is not None:
                yield _absolute(text, standing.cwd, standing.home)


def _removed(command: Command) -> Iterator[Word]:
    """The words by which a command names what it removes."""
    for words in _runs(command.written):
        name = base_name(words[0])
        if name == "rm":
            yield from _operands(words[1:])
        elif name == "find" and _finds_all(words[1:]):
            yield from _starting_points(words[1:])


def _runs(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """The command, and all that a program that runs its arguments might make of them."""
    name = base_name(words[0]) if words else ""
    is_runner = name in RUNNERS or name == "find"
    yield from (words[start:] for start in range(len(words) if is_runner else min(len(words), 1)))


def _operands(words: Sequence[Word]) -> Iterator[Word]:
    options = True
    for word in words:
        text = known(word) or ""
        if text == "--":
            options = False
        elif not (options and text.startswith("-")):
            yield word


def _finds_all(words: Sequence[Word]) -> bool:
    """It removes everything it finds, whatever that is called."""
    texts = [known(word) or "" for word in words]
    runs = [at for at, text in enumerate(texts[:-1]) if text in _FIND_RUNS]
    removing = [at for at in runs if base_name(words[at + 1]) == "rm"]
    removing += [at for at, text in enumerate(texts) if text == "-delete"]
    before = texts[: min(removing, default=0)]
    return bool(removing) and not any(_FIND_TESTS.fullmatch(text) for text in before)


def _starting_points(words: Sequence[Word]) -> Sequence[Word]:
    named = dropwhile(lambda word: _FIND_FIRST.fullmatch(known(word) or ""), words)
    points = takewhile(lambda word: not (known(word) or "").startswith(("-", "(", "!")), named)
    return tuple(points) or ((".",),)


# -- what is critical ---------------------------------------------------------------------------


def _is_critical(word: Word, folder: str, standing: Standing) -> bool:
    rest = "".join(piece or "" for piece in word)
    if word[0] is None:  # a variable that may be empty, and then what follows is the whole path
        first, *deeper = _absolute(rest, "/", "")[1:].split("/")
        whole = not first or _EVERYTHING.fullmatch(first) or _TOP_LEVEL.fullmatch(first)
        return rest.startswith("/") and not deeper and bool(whole)
    if None in word:
        return _absolute(rest, folder, standing.home) == "/"
    if re.fullmatch(r"~[A-Za-z_][\w.-]*/?\*?", rest):
        return True  # the home of somebody
    path = _absolute(rest, folder, standing.home)
    if _EVERYTHING.fullmatch(path.rpartition("/")[2]):
        path = path.rpartition("/")[0] or "/"
    if path.count("/") == 1:
        return True  # the root, or what is in it
    return _holds(path, standing)


def _holds(path: str, standing: Standing) -> bool:
    """It is, or contains, a place that is needed."""
    needed = (standing.cwd, standing.workspace, standing.home)
    return any(place and f"{place}/".startswith(f"{path}/") for place in needed)


def _absolute(text: str, folder: str, home: str) -> str:
    """The absolute path without `.` and `..`, from the text alone."""
    if text == "~" or text.startswith("~/"):
        text = home + text[1:]
    parts: list[str] = []
    for part in (text if text.startswith("/") else f"{folder}/{text}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
