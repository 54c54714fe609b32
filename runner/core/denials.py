"""What stands against a call: deny rules, ask rules, and what no mode and no rule allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final

from runner.core import bash_rules, path_patterns, rules, web_rules
from runner.core.rules import Rule
from runner.core.spec import TaskSpec
from runner.core.subjects import FileCall, NamedCall, ShellCall, Subject, WebCall
from runner.core.verdicts import Verdict, by_default, by_rule

EDITING_TOOLS: Final = ("Edit", "Write")

CRITICAL_REMOVAL: Final = "critical_removal"
"""The rule that a decision names when no rule of the spec denied."""


def denying(spec: TaskSpec) -> tuple[Rule, ...]:
    """The rules of a spec that deny, or would have somebody asked."""
    return (*rules.parsed(spec.disallowed_tools), *rules.parsed(spec.ask_tools))


def denied(
    spec: TaskSpec, tool: str, subject: Subject, arguments: Mapping[str, Any]
) -> Verdict | None:
    """The verdict of the deny rules."""
    return _hit(spec.disallowed_tools, "denies it", tool, subject, arguments)


def asking(
    spec: TaskSpec, tool: str, subject: Subject, arguments: Mapping[str, Any]
) -> Verdict | None:
    """The verdict of the ask rules; what a mode does not allow anyway stays a denial."""
    why = "wants a person to be asked, and nobody is there"
    found = _hit(spec.ask_tools, why, tool, subject, arguments)
    may_be_asked = spec.permission_mode not in ("plan", "dontAsk")
    return None if found is None else replace(found, asks=may_be_asked)


def _hit(
    texts: tuple[str, ...], why: str, tool: str, subject: Subject, arguments: Mapping[str, Any]
) -> Verdict | None:
    """The denial by the first of these rules that is about the call."""
    about = [rule for rule in rules.parsed(texts) if rules.names(rule, tool)]
    bare = next((rule for rule in about if rule.specifier is None), None)
    if bare is not None:
        return by_rule(bare, why)
    by_value = next((rule for rule in about if rules.has_value(rule, arguments)), None)
    if by_value is not None:
        return by_rule(by_value, f"{why}, because of its `{by_value.parameter}`")
    found = _denying_part([rule for rule in about if rule.parameter is None], subject)
    if found is None and isinstance(subject, FileCall) and tool in EDITING_TOOLS:
        found = _unreadable(texts, subject)
    return None if found is None else by_rule(found[0], f"{why}: {found[1]}")


def _denying_part(about: list[Rule], subject: Subject) -> tuple[Rule, str] | None:
    match subject:
        case ShellCall():
            return bash_rules.denying(subject.script, about)
        case FileCall():
            return _denying_path(about, subject)
        case WebCall() | NamedCall():
            hit = next((rule for rule in about if means(rule, subject, widely=True)), None)
            return None if hit is None else (hit, "it names it")
        case _:
            return (about[0], "the call cannot be compared with it") if about else None


def means(rule: Rule, subject: WebCall | NamedCall, *, widely: bool = False) -> bool:
    """Whether a rule with a specifier is about this host or name; `widely` for one that denies."""
    if isinstance(subject, WebCall):
        return web_rules.means(rule, subject, widely=widely)
    return fnmatchcase(subject.name, rule.specifier or "")


def _unreadable(texts: tuple[str, ...], subject: FileCall) -> tuple[Rule, str] | None:
    """What must not be read must not be changed either."""
    about = [
        rule for rule in rules.parsed(texts) if rule.tool == "Read" and rule.specifier is not None
    ]
    return _denying_path(about, subject)


def _denying_path(about: Iterable[Rule], subject: FileCall) -> tuple[Rule, str] | None:
    for rule in about:
        for path in subject.paths:
            if "\\" in path:  # escaped for people: not the name on the disk
                return rule, "the path cannot be compared with the rule"
            if path_patterns.covers(rule.specifier or "", path, subject.places, widely=True):
                return rule, f"it covers {path}"
            if subject.searches and path_patterns.reaches_below(
                rule.specifier or "", path, subject.places
            ):
                return rule, f"it may cover a file in {path}; search a folder or a file outside it"
    return None


def out_of_reach(spec: TaskSpec, tool: str, subject: Subject) -> Verdict | None:
    """What no mode and no rule allows."""
    if isinstance(subject, ShellCall) and subject.removes is not None:
        return _critical(subject.removes)
    closed = web_rules.refusal(spec, tool, subject if isinstance(subject, WebCall) else None)
    return None if closed is None else by_default(*closed)


def _critical(what: str) -> Verdict:
    reason = f"{what}, which no mode and no rule allows; name exactly what is to be removed"
    return by_default(reason, CRITICAL_REMOVAL)
