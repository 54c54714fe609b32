"""May this call run? One pure decision: deny rule, ask rule, mode, allow rule, else deny.

Nobody is there to be asked, so "ask" is always "deny". A denial names the rule that denied, or
says which rule would allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from runner.core import bash_rules, rules
from runner.core.rules import COMMAND_TOOL, Places, Rule
from runner.core.shell import Script
from runner.core.spec import TaskSpec

VerdictKind = Literal[
    "approved",
    "denied-by-rules",
    "denied-no-approval-rule-and-could-not-request-from-user",
]

FREE_KINDS = frozenset({"read", "custom-tool"})
"""Permission kinds that change nothing outside the run and need no rule inside the roots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision on one call and the reason, in words."""

    kind: VerdictKind
    reason: str
    rule: str | None = None

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.kind == "approved"

    def to_wire(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The `result` object of `permission.completed`."""
        if self.kind != "denied-by-rules":
            return {"kind": self.kind}
        return {"kind": self.kind, "rules": [{"kind": request["kind"], "argument": self.rule}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCall:
    """What a Bash call would run. `free` are its words that lead to places inside the roots."""

    script: Script
    free: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCall:
    """The file or folder a call is about: its absolute path as written, and where that leads.

    `searches` is set when files beneath it are read too.
    """

    paths: tuple[str, ...]
    places: Places
    searches: bool = False


Subject = ShellCall | FileCall | None
"""What rules with a specifier look at; None for a call that has nothing they know."""


def offered(spec: TaskSpec, names: tuple[str, ...]) -> tuple[str, ...]:
    """The built-in tools the model is shown: `tools`, less the bare names that are denied."""
    wanted = names if spec.tools is None else tuple(n for n in names if n in spec.tools)
    denied = _bare(spec.disallowed_tools)
    return tuple(name for name in wanted if name not in denied)


def looks_inside(spec: TaskSpec, tool: str) -> bool:
    """Whether a verdict on this tool depends on what exactly is called."""
    if any(rule.specifier is not None for rule in _denying(spec)):
        return True
    if spec.permission_mode == "bypassPermissions":
        return False
    if tool == COMMAND_TOOL:
        return spec.permission_mode == "plan" or tool not in _bare(spec.allowed_tools)
    return any(rule.specifier is not None for rule in _rules(spec.allowed_tools))


def decide(spec: TaskSpec, tool: str, kind: str, subject: Subject = None) -> Verdict:
    """The verdict on a call of `tool` whose permission request is of `kind`."""
    denied = _denied(spec, tool, subject)
    if denied is not None:
        return denied
    if spec.permission_mode == "bypassPermissions":
        return _approved("mode bypassPermissions")
    harmless = isinstance(subject, ShellCall) and _is_harmless(spec, subject)
    if harmless:
        return _approved("it only reads, inside the workspace, and needs no rule")
    if spec.permission_mode == "plan" and kind not in FREE_KINDS:
        return _refused("mode plan allows nothing that may change something")
    if kind in FREE_KINDS and spec.permission_mode != "dontAsk":
        return _approved("it changes nothing and needs no rule")
    if spec.permission_mode == "acceptEdits" and kind == "write":
        return _approved("mode acceptEdits")
    if spec.permission_mode == "dontAsk" and tool == "AskUserQuestion":
        return _refused("mode dontAsk allows no questions")
    return _allowed(spec, tool, subject)


# -- rules that deny ----------------------------------------------------------------------------


def _denying(spec: TaskSpec) -> tuple[Rule, ...]:
    return (*_rules(spec.disallowed_tools), *_rules(spec.ask_tools))


def _denied(spec: TaskSpec, tool: str, subject: Subject) -> Verdict | None:
    """The verdict of the deny rules, then that of the ask rules: nobody is there to be asked."""
    for texts, why in (
        (spec.disallowed_tools, "denies it"),
        (spec.ask_tools, "wants a person to be asked, and nobody is there"),
    ):
        about = [rule for rule in _rules(texts) if rules.names(rule, tool)]
        bare = next((rule for rule in about if rule.specifier is None), None)
        if bare is not None:
            return _by(bare, why)
        found = _denying_part(about, subject)
        if found is not None:
            return _by(found[0], f"{why}: {found[1]}")
    if isinstance(subject, FileCall) and tool in ("Edit", "Write"):
        return _unreadable(spec, subject)
    return None


def _denying_part(about: list[Rule], subject: Subject) -> tuple[Rule, str] | None:
    match subject:
        case ShellCall():
            return bash_rules.denying(subject.script, about)
        case FileCall():
            return _denying_path(about, subject)
        case _:
            return (about[0], "the call cannot be compared with it") if about else None


def _unreadable(spec: TaskSpec, subject: FileCall) -> Verdict | None:
    """What must not be read must not be changed either."""
    about = [r for r in _denying(spec) if r.tool == "Read" and r.specifier is not None]
    found = _denying_path(about, subject)
    return None if found is None else _by(found[0], f"denies it: {found[1]}")


def _denying_path(about: Iterable[Rule], subject: FileCall) -> tuple[Rule, str] | None:
    for rule in about:
        for path in subject.paths:
            if "\\" in path:  # escaped for people: not the name on the disk
                return rule, "the path cannot be compared with the rule"
            if rules.covers(rule, path, subject.places, widely=True):
                return rule, f"it covers {path}"
            if subject.searches and rules.reaches_below(rule, path, subject.places):
                return rule, f"it may cover a file in {path}; search a folder or a file outside it"
    return None


# -- rules that allow ---------------------------------------------------------------------------


def _is_harmless(spec: TaskSpec, subject: ShellCall) -> bool:
    """It reads at most what Read could read, and no rule says what may not be read."""
    return _may_read(spec) and bash_rules.not_allowed(subject.script, (), subject.free) is None


def _allowed(spec: TaskSpec, tool: str, subject: Subject) -> Verdict:
    about = [rule for rule in _rules(spec.allowed_tools) if rules.names(rule, tool)]
    bare = next((rule for rule in about if rule.specifier is None), None)
    if bare is not None:
        return _approved(f"rule `{bare.text}` allows it", bare.text)
    match subject:
        case ShellCall() if about:
            free = subject.free if _may_read(spec) else frozenset()
            why = bash_rules.not_allowed(subject.script, about, free)
            if why is None:
                return _approved(f"allowed is {_listed(about)}", about[0].text)
            return _refused(f"{why}; allowed is {_listed(about)}")
        case FileCall() if about:
            found = next((rule for rule in about if _covers_all(rule, subject)), None)
            if found is not None:
                return _approved(f"rule `{found.text}` allows it", found.text)
            return _refused(f"no rule covers {subject.paths[0]}; allowed is {_listed(about)}")
        case _:
            hint = f"`allowed_tools: [{tool}]` in the spec would"
            return _refused(f"no rule allows it in mode {spec.permission_mode}; {hint}")


def _may_read(spec: TaskSpec) -> bool:
    return not any(rule.tool == "Read" for rule in _denying(spec))


def _covers_all(rule: Rule, subject: FileCall) -> bool:
    """Both the path as written and where it leads; an escaped path is not the one on the disk."""
    return all(
        "\\" not in path and rules.covers(rule, path, subject.places, widely=False)
        for path in subject.paths
    )


def _listed(about: Iterable[Rule]) -> str:
    return ", ".join(f"`{rule.text}`" for rule in about)


def _bare(texts: Iterable[str]) -> frozenset[str]:
    """The tools that rules name whole."""
    return frozenset(rule.tool for rule in _rules(texts) if rule.specifier is None)


def _rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    return tuple(rules.parse(text) for text in texts)


def _by(rule: Rule, why: str) -> Verdict:
    return Verdict(kind="denied-by-rules", reason=f"rule `{rule.text}` {why}", rule=rule.text)


def _refused(reason: str) -> Verdict:
    return Verdict(kind="denied-no-approval-rule-and-could-not-request-from-user", reason=reason)


def _approved(reason: str, rule: str | None = None) -> Verdict:
    return Verdict(kind="approved", reason=reason, rule=rule)
