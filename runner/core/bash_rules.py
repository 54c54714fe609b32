"""Rules over a Bash command: denied when any part is, allowed when every part is.

Rules of this file:
* For a rule that denies, whatever might be meant is meant; for one that allows, only what is
  known to be.
* A program that runs its arguments is covered by a rule for them only when it is one of
  `WRAPPERS`, and its own options are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from runner.core.risky_options import EVALUATORS, RUNNERS, SHELLS, plain_sed, risky
from runner.core.rules import Rule, Word, is_exact, matches
from runner.core.shell import Command, Script

READ_ONLY: Final = frozenset(
    [
        "ls",
        "cat",
        "echo",
        "pwd",
        "head",
        "tail",
        "grep",
        "find",
        "wc",
        "which",
        "diff",
        "stat",
        "du",
        "true",
        "false",
    ]
)
"""Programs that need no rule for files inside the roots, with short options only."""

WRAPPERS: Final = {
    "timeout": re.compile(r"-[ks]\0[A-Za-z0-9.]+\0|--preserve-status\0|--foreground\0"),
    "nice": re.compile(r"-n\0-?\d+\0"),
    "stdbuf": re.compile(r"-[ioe][0L]\0"),
    "nohup": None,
    "time": None,
    "command": None,
    "builtin": None,
}
"""What runs its arguments as they are, and the options that may stand before them. Not `xargs`:
what it adds to them is known only when it runs."""

_MOVES = frozenset({"cd", "pushd", "popd"})
_DURATION = re.compile(r"\d+(\.\d+)?[smhd]?")
_OPTIONS = re.compile(r"-[A-Za-z0-9]+")
_FOLLOWING = {"grep": "Rf", "diff": "r", "find": "L", "tail": "fF", "ls": "L", "du": "L"}
_TEXT_RUNNERS = frozenset({"eval", ".", "source", "trap", "alias", "hash", "enable", "fc", "bind"})


# -- rules that deny ----------------------------------------------------------------------------


def denying(script: Script, rules: Sequence[Rule]) -> tuple[Rule, str] | None:
    """The first rule that denies some part of the command, and why; None when none does."""
    if not rules:
        return None
    if script.opaque is not None:
        return rules[0], f"{script.opaque}, so it cannot be compared with the rule"
    for command in script.commands:
        if (why := _computed(command)) is not None:
            return rules[0], f"{why}, so it cannot be compared with the rule"
        for words in _meanings(command.words):
            found = next((rule for rule in rules if matches(rule, words)), None)
            if found is not None:
                return found, f"it denies `{told(words)}`"
    return None


def _computed(command: Command) -> str | None:
    """Why it is not known what the command would run."""
    if not command.words:
        return None
    name = known(command.words[0])
    if name is None:
        return "the name of a program in it is known only when it runs"
    base = name.rpartition("/")[2]
    if base in _TEXT_RUNNERS:
        return f"`{base}` runs or renames what a text says"
    rest = [known(word) for word in command.words[1:]]
    if base in RUNNERS and None in rest:
        return f"what `{base}` runs is known only when it runs"
    shells = [i for i, word in enumerate([base, *rest]) if _base(word) in SHELLS | {"eval"}]
    if shells and (base in SHELLS or base in RUNNERS):
        after = rest[shells[0] :]
        if any(word is None or re.match(r"-[A-Za-z]*c", word) for word in after):
            return f"`{base}` runs what a text says"
    texts = [word for word in rest if word is not None and ("$(" in word or "`" in word)]
    return f"`{base}` may run what a text says" if base in EVALUATORS and texts else None


def base_name(word: Word) -> str:
    """The name of the program a word names, without its folder."""
    return _base(known(word))


def texts_run(argv: Sequence[str]) -> Iterator[str]:
    """The texts a command gives to a shell to run."""
    name = _base(argv[0]) if argv else ""
    if name == "eval":
        yield " ".join(argv[1:])
    starts = [at for at, word in enumerate(argv) if _base(word) in SHELLS]
    if starts and (name in SHELLS or name in RUNNERS):
        for option, text in zip(argv[starts[0] :], argv[starts[0] + 1 :], strict=False):
            if re.match(r"-[A-Za-z]*c", option):
                yield text


def _base(word: str | None) -> str:
    return (word or "").rpartition("/")[2]


def _meanings(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """The command, and every command that it may come to: by the bare name of the program, past
    its first options, and what a program that runs its arguments would run."""
    if not words:
        return
    name = _base(known(words[0]))
    yield words
    starts = range(len(words)) if name in RUNNERS or name == "find" else range(1)
    for start in starts:
        inner = ((_base(known(words[start])),), *words[start + 1 :])
        yield inner
        if len(inner) > 1 and (known(inner[1]) or "-").startswith("-"):
            yield from ((inner[0], *inner[skip:]) for skip in range(2, len(inner)))


# -- rules that allow ---------------------------------------------------------------------------


def not_allowed(
    script: Script,
    rules: Sequence[Rule],
    free: frozenset[str],
    edits: frozenset[str] = frozenset(),
) -> str | None:
    """Why the command is not allowed, or None when a rule or its harmlessness covers every part.

    `free` are the words that lead to places inside the roots; without any, no part is harmless.
    `edits` are those that lead to places which a command may also change without a rule.
    """
    if script.odd is not None:
        return script.odd
    if not script.commands:
        return "it runs nothing"
    moves = any(word in _MOVES for c in script.commands for word in c.argv or ())
    for command in script.commands:
        argv = command.argv
        if argv is None:
            return f"a word of `{told(command.words)}` is known only when it runs"
        if command.assigns or not argv:
            return "it sets variables"
        if not moves and (is_harmless(argv, free) or is_edit(argv, edits)):
            continue
        if not any(_allows(rule, argv) for rule in rules):
            return _reason(argv, rules)
    return None


def _reason(argv: tuple[str, ...], rules: Sequence[Rule]) -> str:
    word = risky(argv)
    if word is not None and any(_any_allows(rule, argv) for rule in rules):
        return (
            f"with `{word}`, `{_cut(' '.join(argv))}` may do more than its name says, which only "
            "a rule without * allows"
        )
    return f"no rule allows `{_cut(' '.join(argv))}`"


def _any_allows(rule: Rule, argv: tuple[str, ...]) -> bool:
    return matches(rule, [(word,) for word in argv])


def _allows(rule: Rule, argv: tuple[str, ...]) -> bool:
    return any(
        _any_allows(rule, meant) and (is_exact(rule) or risky(meant) is None)
        for meant in _unwrapped(argv)
    )


def _unwrapped(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command, and what is left of it without its wrappers, one by one."""
    left: tuple[str, ...] | None = argv
    while left is not None:
        yield left
        left = _inner(left)


def _inner(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    if argv[0] not in WRAPPERS or len(argv) < 2:
        return None
    options, rest = WRAPPERS[argv[0]], "\0".join((*argv[1:], ""))
    while options is not None and (found := options.match(rest)):
        rest = rest[found.end() :]
    inner = tuple(rest.split("\0")[:-1])
    if argv[0] == "timeout":
        if not inner or not _DURATION.fullmatch(inner[0]):
            return None
        inner = inner[1:]
    return None if not inner or inner[0].startswith("-") else inner


def is_harmless(argv: Sequence[str], free: frozenset[str]) -> bool:
    """The command only reads, and only inside the roots: it needs no rule."""
    name, rest = argv[0], argv[1:]
    if name not in READ_ONLY or name not in free or risky(argv) is not None:
        return False
    follows = _FOLLOWING.get(name, "")
    for word in rest:
        if word.startswith("-") and word != "-":
            if not _OPTIONS.fullmatch(word) or any(letter in word for letter in follows):
                return False
            if name == "find" and word == "-follow":
                return False
        elif word not in free:
            return False
    return True


EDITORS: Final = {
    "mkdir": re.compile(r"-[pv]+|--parents|--verbose"),
    "touch": re.compile(r"-[acm]+|--no-create"),
    "rm": re.compile(r"-[rRfvd]+|--recursive|--force|--verbose|--dir"),
    "rmdir": re.compile(r"-v|--verbose"),
    "mv": re.compile(r"-[fnvuT]+|--force|--no-clobber|--verbose|--update"),
    "cp": re.compile(r"-[rRfnvpuT]+|--recursive|--force|--no-clobber|--verbose|--update"),
    "sed": re.compile(r"-[nErs]*i(\.[A-Za-z0-9]+)?|-[nErs]+"),
}
"""Programs that mode acceptEdits lets change files like Edit, with these options."""

_SED_KEEPS = re.compile(r"-[nErs]*i(\..+)")


def is_edit(argv: Sequence[str], edits: frozenset[str]) -> bool:
    """The command changes files as mode acceptEdits allows: only in `edits`, by known options."""
    options = EDITORS.get(argv[0])
    if options is None:
        return False
    words = [word for word in argv[1:] if not options.fullmatch(word)]
    if argv[0] == "sed":
        if not words or not plain_sed(words[0]):
            return False
        words = words[1:]
    if not words or any(word.startswith("-") for word in words):
        return False
    return edits.issuperset((*words, *landings(argv, words)))


def words_of(script: Script) -> Iterator[str]:
    """Every word that is known, and the names that `mv`, `cp` and `sed` would make."""
    for command in script.commands:
        argv = command.argv or ()
        yield from argv
        yield from landings(argv, [w for w in argv[1:] if w[:1] != "-"]) if argv else ()


def landings(argv: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """Names that are made and not written: where `mv` and `cp` would put things if the last of
    their operands is a folder, and what `sed -i` keeps."""
    if argv[0] == "sed":
        kept = [found[1] for word in argv if (found := _SED_KEEPS.fullmatch(word))]
        return tuple(f"{word}{suffix}" for suffix in kept for word in words)
    if argv[0] not in ("mv", "cp") or len(words) < 2:
        return ()
    names = (word.rstrip("/").rpartition("/")[2] for word in words[:-1])
    return tuple(f"{words[-1].rstrip('/')}/{name}" for name in names)


# -- words --------------------------------------------------------------------------------------


def known(word: Word) -> str | None:
    """The text of a word; None when the shell makes more of it."""
    return word[0] if len(word) == 1 else None


def told(words: Sequence[Word]) -> str:
    """A command for people; `…` stands for what only the shell will know."""
    return _cut(" ".join("".join("…" if p is None else p for p in word) for word in words))


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
