"""Permission rules: `Tool` and `Tool(specifier)`, what each means, and what it matches.

A command pattern and a command are compared as words that are decoded already: blanks of the
pattern stand for the borders of words, and `*` for anything, borders included. Paths are compared
in `path_patterns`. The grammar is that of Claude Code's permission rules.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

from runner.core import path_patterns

Glob = tuple[str | None, ...]
"""Characters; None stands for any text, also for none."""

Word = tuple[str | None, ...]
"""One word of a command: pieces of known text, and None for what only the shell will know."""

BORDER: Final = "\0"
"""Between two words. No word can hold it."""

PATH_TOOLS: Final = ("Read", "Edit", "Write")
COMMAND_TOOL: Final = "Bash"
WEB_TOOL: Final = "WebFetch"
NAMED_TOOLS: Final = ("Agent", "Skill")

PARAMETERS: Final[Mapping[str, frozenset[str]]] = {
    "Bash": frozenset({"timeout", "description"}),
    "Read": frozenset({"offset", "limit"}),
    "Edit": frozenset({"old_string", "new_string", "replace_all"}),
    "Write": frozenset({"content"}),
    "WebFetch": frozenset({"url"}),
}
"""What `Tool(parameter:value)` may name where another specifier could be meant as well; of any
other tool, every parameter."""

_RULE = re.compile(r"([^()\s]+)(?:\((.*)\))?", re.DOTALL)
_PARAMETER = re.compile(r"([A-Za-z_]\w*):(.*)", re.DOTALL)
_HOST = re.compile(r"((\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?|\*")
_SHELL_SYNTAX = re.compile(r"[;&|<>$`\n]")


class RuleError(ValueError):
    """The text is no rule; the message says why, and what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `specifier` is None when the rule means every call of the tool.

    `tool` may hold a `*`. With a `parameter`, the specifier is the value that is meant.
    """

    text: str
    tool: str
    specifier: str | None = None
    parameter: str | None = None


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
    return _specified(text, tool, specifier)


def parsed(texts: Iterable[str]) -> tuple[Rule, ...]:
    """The rules these texts mean. Raises `RuleError`."""
    return tuple(parse(text) for text in texts)


def _specified(text: str, tool: str, specifier: str) -> Rule:
    found = _PARAMETER.fullmatch(specifier)
    if found is not None and found[1] in PARAMETERS.get(tool, frozenset({found[1]})):
        return Rule(text=text, tool=tool, parameter=found[1], specifier=found[2])
    if tool == COMMAND_TOOL:
        command_globs(specifier)
    elif tool in PATH_TOOLS:
        try:
            path_patterns.pattern(specifier)
        except path_patterns.PatternError as error:
            raise RuleError(str(error)) from None
    elif tool == WEB_TOOL:
        host = specifier.removeprefix("domain:")
        if host == specifier or not _HOST.fullmatch(host):
            raise RuleError("write WebFetch(domain:example.com) or WebFetch(domain:*.example.com)")
    elif tool not in NAMED_TOOLS:
        raise RuleError(f"{tool} takes no such specifier: write {tool}, or {tool}(parameter:value)")
    return Rule(text=text, tool=tool, specifier=specifier)


def may_allow(rule: Rule) -> str | None:
    """Why the rule cannot stand among those that allow; None when it can.

    A value says what a call is only in part, and a `*` may mean tools nobody has thought of.
    """
    if rule.parameter is not None:
        return "a rule about a parameter can only deny or ask"
    known = rule.tool.partition("*")[0]
    server = known.startswith("mcp__") and "__" in known.removeprefix("mcp__")
    if "*" in rule.tool and not server:
        return "a `*` in the name of a tool can only deny or ask, unless mcp__server__ is before it"
    return None


def names(rule: Rule, tool: str) -> bool:
    """The rule is about calls of this tool, all or some of them.

    With a path, `Edit` means every tool that writes, and `Read` the searching ones too.
    """
    if rule.tool == tool or _server(tool) == rule.tool:  # `mcp__server` is its tools
        return True
    if "*" in rule.tool:
        return fnmatchcase(tool, rule.tool)
    if rule.specifier is None or rule.parameter is not None:
        return False
    covered = {"Edit": ("Write",), "Read": ("Grep", "Glob")}
    return tool in covered.get(rule.tool, ())


def _server(tool: str) -> str:
    """What a rule calls the whole server of a tool. Only the server's own name has no `__` in it:
    one that calls a tool `log__all` does not bring it under a rule about its `log`."""
    return "__".join(tool.split("__", 2)[:2])


def has_value(rule: Rule, arguments: Mapping[str, Any]) -> bool:
    """Whether a rule about a parameter means this call: its value is there, and fits."""
    if rule.parameter is None or rule.parameter not in arguments:
        return False
    value = arguments[rule.parameter]
    text = value if isinstance(value, str) else json.dumps(_whole(value), ensure_ascii=False)
    return fnmatchcase(text, re.sub(r"([\[?])", r"[\1]", rule.specifier or ""))


def _whole(value: Any) -> Any:
    """JSON whose numbers have one form: `100.0` and `1e2` are what a rule calls `100`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


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
