"""Which rule would allow a call that was denied: the narrowest one, or none.

Rules of this file: what is named parses, allows this call, and allows no other that is not the
same. Where there is no such rule, that is said, and no wider one is named.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from runner.core import bash_rules, path_patterns, web_rules
from runner.core.rules import COMMAND_TOOL, Rule, RuleError, is_exact, parse
from runner.core.subjects import FileCall, NamedCall, ShellCall, Subject, WebCall

_PLAIN = re.compile(r"[A-Za-z](?:[\w ./=@%+()~^-]|:(?=\w))*")
_WILD = re.compile(r"[*?\[\]\\!]")
MAX_RULES, MAX_CHARS = 5, 300
"""More than that is no hint any more."""


def hint(tool: str, subject: Subject) -> str:
    """The end of a sentence that says why a call is denied."""
    found: tuple[str, ...] = ()
    match subject:
        case ShellCall():
            found = _commands(subject)
        case FileCall():
            found = _of_path("Read" if tool in ("Read", "Grep", "Glob") else "Edit", subject)
        case NamedCall():
            if not _WILD.search(subject.name):
                found = tuple(rule.text for rule in _parsed((f"{tool}({subject.name})",)))
        case WebCall():
            found = (web_rules.would_allow(subject),)
        case _:
            found = (tool,)
    if not found or len(found) > MAX_RULES or sum(map(len, found)) > MAX_CHARS:
        return "no rule names just this"
    return f"`allowed_tools: [{', '.join(map(in_yaml, found))}]` in the spec would"


def in_yaml(rule: str) -> str:
    """The rule as an entry of a YAML list."""
    return rule if _PLAIN.fullmatch(rule) else "'" + rule.replace("'", "''") + "'"


def _commands(call: ShellCall) -> tuple[str, ...]:
    """A rule for each part that needs one; none when even together they do not allow the call."""
    argvs = [one.argv for one in call.script.commands]
    needed = [argv for argv in argvs if argv and not bash_rules.is_harmless(argv, call.free)]
    texts = tuple(dict.fromkeys(f"{COMMAND_TOOL}({shlex.join(argv)})" for argv in needed))
    found = _parsed(texts)
    if len(found) < len(texts) or not all(map(is_exact, found)):
        return ()
    return texts if bash_rules.not_allowed(call.script, found, call.free) is None else ()


def _of_path(tool: str, call: FileCall) -> tuple[str, ...]:
    """The path as written and, if that is another, where it leads: rules must cover both."""
    path = call.paths[0]
    below = call.places.workspace.rstrip("/") + "/"
    text = f"{tool}(/{path.removeprefix(below)})" if path.startswith(below) else f"{tool}(/{path})"
    found = () if _WILD.search(path) else _parsed((text,))
    is_covered = all(
        path_patterns.covers(rule.specifier or "", way, call.places, widely=False)
        for rule in found
        for way in call.paths
    )
    return (text,) if found and is_covered else ()


def _parsed(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Those that are rules of a whole call."""
    found = []
    for text in texts:
        try:
            rule = parse(text)
        except RuleError:
            continue
        if rule.specifier is not None and rule.parameter is None:
            found.append(rule)
    return tuple(found)
