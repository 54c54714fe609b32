"""Options by which a program that a rule allows would run or write something else.

A rule with `*` never covers a command that uses one; a rule that spells out the command does.
Long options count in every shortened form, short ones also in a bundle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class _Risky:
    """Long options without dashes, short letters, and whole words, of one program."""

    long: tuple[str, ...] = ()
    short: str = ""
    words: frozenset[str] = frozenset()


RUNNERS: Final = frozenset(
    [
        "env",
        "sudo",
        "doas",
        "su",
        "xargs",
        "timeout",
        "time",
        "nice",
        "nohup",
        "stdbuf",
        "command",
        "builtin",
        "exec",
        "setsid",
        "watch",
        "strace",
        "ltrace",
        "parallel",
        "ssh",
        "chroot",
        "unshare",
        "nsenter",
        "busybox",
        "script",
        "flock",
        "ionice",
        "taskset",
        "chrt",
        "systemd-run",
        "gdb",
        "setpriv",
        "runuser",
        "pkexec",
        "numactl",
        "prlimit",
        "entr",
        "rush",
        "toybox",
    ]
)
"""Programs and builtins that run what their arguments say."""

EVALUATORS: Final = frozenset(
    [
        "eval",
        ".",
        "source",
        "trap",
        "alias",
        "unalias",
        "hash",
        "enable",
        "shopt",
        "set",
        "bind",
        "complete",
        "compgen",
        "coproc",
        "fc",
        "read",
        "declare",
        "typeset",
        "local",
        "export",
        "readonly",
        "let",
        "test",
        "[",
        "printf",
        "unset",
        "wait",
        "mapfile",
        "readarray",
        "getopts",
        "exec",
        "command",
        "builtin",
        "pushd",
        "popd",
    ]
)
"""Builtins that run text, evaluate array subscripts, or change what later words mean."""

SHELLS: Final = frozenset(["sh", "bash", "dash", "zsh", "ksh", "ash", "fish"])

_WORDS = {
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from",
    "git": "config filter-branch difftool mergetool send-email daemon hook credential var instaweb "
    "web--browse clone ls-remote fetch-pack run foreach",
    "go": "-exec -toolexec -vettool -overlay",
}

_TABLE: Final[Mapping[str, _Risky]] = {
    **{name: _Risky(words=frozenset(text.split())) for name, text in _WORDS.items()},
    **{name: _Risky(short="c", long=("command", "init-file", "rcfile")) for name in SHELLS},
    "git": _Risky(
        long=(
            "upload-pack",
            "receive-pack",
            "exec",
            "config",
            "config-env",
            "ext-diff",
            "textconv",
            "open-files-in-pager",
            "output",
            "template",
            "paginate",
        ),
        short="cOxo",
        words=frozenset(_WORDS["git"].split()),
    ),
    "sort": _Risky(long=("output", "compress-program", "files0-from"), short="oT"),
    "rg": _Risky(long=("pre", "hostname-bin", "search-zip"), short="z"),
    "tar": _Risky(
        long=(
            "checkpoint-action",
            "to-command",
            "use-compress-program",
            "rsh-command",
            "rmt-command",
            "info-script",
            "new-volume-script",
        ),
        short="IF",
    ),
    "rsync": _Risky(long=("rsh", "rsync-path"), short="e"),
    "scp": _Risky(short="SoF"),
    "sftp": _Risky(short="SoFb"),
    "zip": _Risky(long=("unzip-command", "test"), short="T"),
    "curl": _Risky(long=("config", "output", "remote-name", "output-dir"), short="oOK"),
    "wget": _Risky(
        long=("output-document", "output-file", "append-output", "execute", "use-askpass"),
        short="Ooae",
    ),
    "tcpdump": _Risky(short="zw"),
    "man": _Risky(long=("pager", "html", "preprocessor"), short="PHp"),
    "cargo": _Risky(long=("config",)),
    "perl": _Risky(short="eEMmI"),
    "ruby": _Risky(short="erI"),
    "node": _Risky(long=("eval", "print", "require", "import"), short="epr"),
    "php": _Risky(short="rBRE", long=("run",)),
    "lua": _Risky(short="el"),
    "yq": _Risky(long=("inplace", "in-place"), short="i"),
}

_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_AWK_ESCAPES = re.compile(r"system|getline|[|>@]")
_SED_ADDRESS = r"(?:\d+|\$)?(?:,\+?(?:\d+|\$))?"
_SED_TEXT = r"(?:(?!\1)[^\\\n]|\\[^\n])*"
_SED_SAFE = re.compile(rf"{_SED_ADDRESS} ?(?:[pdq=]|s([/#,|]){_SED_TEXT}\1{_SED_TEXT}\1[gpiI0-9]*)")


def risky(argv: Sequence[str]) -> str | None:
    """The word by which this command would do more than its name says, or None."""
    program, arguments = argv[0].rpartition("/")[2], argv[1:]
    if program in RUNNERS or program in EVALUATORS:
        return program
    if program in _AWKS:
        return next((a for a in arguments if _AWK_ESCAPES.search(a) or _option(a)), None)
    if program == "sed":
        return _sed(arguments)
    if program.startswith("python"):
        return next((a for a in arguments if re.match(r"-[A-Za-z]*c", a)), None)
    if program == "git" and arguments and arguments[0].startswith("-"):
        return None if arguments[0] in ("--version", "--help") else arguments[0]
    if program == "tar" and arguments and re.fullmatch(r"[A-Za-z]*[IF][A-Za-z]*", arguments[0]):
        return arguments[0]
    known = _TABLE.get(program)
    return next((a for a in arguments if known and _is_risky(a, known)), None)


def _is_risky(argument: str, known: _Risky) -> bool:
    if argument in known.words:
        return True
    if argument.startswith("--"):
        name = argument[2:].partition("=")[0]
        return bool(name) and any(option.startswith(name) for option in known.long)
    return argument.startswith("-") and any(letter in argument[1:] for letter in known.short)


def _option(argument: str) -> bool:
    """Any option of awk but a field separator."""
    return argument.startswith("-") and not argument.startswith("-F")


def _sed(arguments: Sequence[str]) -> str | None:
    """Only scripts that print, delete or replace are known to do no more."""
    options = [a for a in arguments if a.startswith("-")]
    strange = next((a for a in options if not re.fullmatch(r"-[nErsuz]+", a)), None)
    if strange is not None:
        return strange
    script = next((a for a in arguments if not a.startswith("-")), "")
    return None if plain_sed(script) else script


def plain_sed(script: str) -> bool:
    """The script only prints, deletes, replaces or quits."""
    return _SED_SAFE.fullmatch(script) is not None
