"""Finds the files of a workspace that a check or a hook runs: who changes one bends the rule.

Rules of this file:
* A file counts where it stands as a program, or where an interpreter takes its script, also
  behind programs that run others (`timeout 60 ./check.sh`). A file that is only an argument, such
  as a test, does not.
* Where a shell or an interpreter is given its script by a pipe, a redirection or a variable, every
  file that the command line names may be it.
* What the shell alone will know (a variable, a pattern) is no file, but keeps its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from runner.core.rules import Word
from runner.core.shell import Script
from runner.core.spec import TaskSpec

MAX_NESTED = 5
"""How many shells in shells (`bash -c`) are looked into."""

_INTERPRETER = re.compile(
    r"(ba|da|k|z|a)?sh|python[0-9.]*|node|deno|bun|tsx|ruby|perl|php|lua|Rscript|pwsh|source|\."
)
_RUNS_OTHERS = re.compile(
    r"env|timeout|nice|ionice|nohup|time|command|builtin|exec|eval|sudo|doas|stdbuf|setsid|chrt|"
    r"taskset|flock|xargs|chronic|unbuffer|xvfb-run|strace|uv|uvx|poetry|pipenv|pdm|hatch|rye|npx|"
    r"bunx|pnpm|yarn|npm|bundle|dotenv|direnv|nix-shell|docker"
)
_RUN = frozenset({"run", "exec"})
_TEXT_FOLLOWS = re.compile(r"-[a-z]*c")
_IS_SCRIPT = frozenset({"-m", "-c", "-e", "--eval"})
"""After one of these the script is the next word alone, and not a file further on."""
_PLAIN_OPTION = re.compile(r"-[a-gi-uw-z]*")
"""Options besides which a script may come from standard input: none that tells a version."""
_SEARCHED = re.compile(r"\bPATH=(\S*)")
_NAME = re.compile(r"[^\s;&|<>()'\"=]+")
_HERE = re.compile(r'"?(\$\(pwd\)|\$\{?(PWD|CLAUDE_PROJECT_DIR|AUTOPILOT_WORKSPACE)\}?)"?/')

Parse = Callable[[str], Script]


def scripts_of(command: str, workspace: Path, parse: Parse) -> tuple[str, ...]:
    """Paths in the workspace of the files that are there and that `command` runs."""
    return tuple(dict.fromkeys(_scripts(command, workspace, parse, MAX_NESTED)))


def unprotected(spec: TaskSpec, parse: Parse) -> tuple[str, ...]:
    """What to know about the checks of which nobody can tell what they run, one line each; none
    when the spec itself says what is protected."""
    if any(not line.startswith("!") for line in spec.protected_paths):
        return ()
    return tuple(
        f"`verify`: what `{one.run}` runs is known to the shell alone, so it is not protected; "
        "name its files in `protected_paths`"
        for one in spec.verify
        if _is_unclear(one.run, parse)
    )


def _is_unclear(command: str, parse: Parse) -> bool:
    script = parse(_HERE.sub("./", command))
    words = [tuple(map(_text, one.words)) for one in script.commands if one.words]
    return script.opaque is not None or any(
        not one[0] or any("" in _script_words(rest) for rest in _interpreted(one)) for one in words
    )


def _scripts(command: str, workspace: Path, parse: Parse, nested: int) -> Iterator[str]:
    line = _HERE.sub("./", command)
    script = parse(line)
    words = [tuple(map(_text, one.words)) for one in script.commands]
    commands = [one for one in words if one]
    entered = [one[1] for one in commands if one[0] in ("cd", "pushd") and len(one) == 2]
    folders = [workspace, *(workspace / folder for folder in entered)]
    for name in _NAME.findall(line) if _is_fed(commands, line) else ():
        yield from _found(name, folders, workspace)
    searched = [entry for value in _SEARCHED.findall(line) for entry in value.split(":")]
    for one in commands:
        yield from _found(one[0], [workspace / entry for entry in searched if entry], workspace)
        for text in _shell_texts(one) if nested else ():
            yield from _scripts(text, workspace, parse, nested - 1)
        for place in _places(one, folders, workspace):
            yield from _found(place, folders, workspace)


def _is_fed(commands: Iterable[tuple[str, ...]], line: str) -> bool:
    """Whether an interpreter gets its script from elsewhere than from a word of its own."""
    for rest in (rest for one in commands for rest in _interpreted(one)):
        given = next(_script_words(rest), None)
        options = [word for word in rest if word.startswith("-")]
        reads = given in (None, "-") or "-s" in options
        is_plain = all(word == "--" or _PLAIN_OPTION.fullmatch(word) for word in options)
        if given == "" or (reads and is_plain and ("|" in line or "<" in line)):
            return True
    return False


def _interpreted(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """What each interpreter of a command is given, also behind programs that run others."""
    is_passed_on = _RUNS_OTHERS.fullmatch(words[0].rpartition("/")[2]) is not None
    for number, word in enumerate(words if is_passed_on else words[:1], start=1):
        if _INTERPRETER.fullmatch(word.rpartition("/")[2]):
            yield words[number:]


def _found(name: str, folders: Iterable[Path], workspace: Path) -> Iterator[str]:
    for path in _files(name, folders, workspace):
        yield str(path.relative_to(workspace))


def _text(word: Word) -> str:
    """The word as the program will get it; empty when only the shell will know."""
    return "".join(piece or "" for piece in word) if None not in word else ""


def _shell_texts(words: tuple[str, ...]) -> Iterator[str]:
    """Commands that are given to a shell as a text."""
    return (text for option, text in pairwise(words) if _TEXT_FOLLOWS.fullmatch(option))


def _places(words: tuple[str, ...], folders: list[Path], workspace: Path) -> Iterator[str]:
    """The words in whose place there is a script."""
    program = words[0].rpartition("/")[2]
    if _INTERPRETER.fullmatch(program):
        yield from _script_words(words[1:])
    elif "/" in words[0]:
        yield words[0]
    if not _RUNS_OTHERS.fullmatch(program):
        return
    for number, (before, word) in enumerate(pairwise(words), start=1):
        name = word.rpartition("/")[2]
        if _INTERPRETER.fullmatch(name) or _RUNS_OTHERS.fullmatch(name):
            yield from _places(words[number:], folders, workspace)
            return
        runs = any(os.access(path, os.X_OK) for path in _files(word, folders, workspace))
        if before in _RUN or ("/" in word and runs):
            yield word


def _script_words(words: tuple[str, ...]) -> Iterator[str]:
    """What may be the script of an interpreter: the first word that is no option, or, where that
    may be the value of an option, also the next one."""
    for before, word in pairwise(("", *words)):
        if word.startswith("-"):
            continue
        yield word
        if before in _IS_SCRIPT or not before.startswith("-"):
            return


def _files(word: str, folders: Iterable[Path], workspace: Path) -> Iterator[Path]:
    for folder in folders if "\0" not in word else ():
        path = Path(os.path.normpath(folder / word))
        if path.is_relative_to(workspace) and path.is_file():
            yield path
