"""May this call run? One pure decision: deny rule, ask rule, mode, allow rule, else deny.

A removal that nobody means is denied in every mode. A mode lets nothing change sensitive paths.

Here nobody is there to be asked, so "ask" is "deny"; a host program that can be asked may lift it.
A denial names the rule that denied, or says which rule would allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from runner.core import bash_rules, own_tools, path_patterns, rules, web_rules
from runner.core.messages import MCP_PREFIX
from runner.core.rule_hints import hint
from runner.core.rules import COMMAND_TOOL, WEB_TOOL, Rule
from runner.core.sensitive_paths import sensitive_part
from runner.core.spec import TaskSpec
from runner.core.subjects import FileCall, NamedCall, ShellCall, Subject, WebCall

VerdictKind = Literal[
    "approved",
    "denied-by-rules",
    "denied-no-approval-rule-and-could-not-request-from-user",
    "denied-by-permission-request-hook",
    "denied-interactively-by-user",
]

EDITING_TOOLS: Final = ("Edit", "Write")

CRITICAL_REMOVAL: Final = "critical_removal"
"""The rule that a decision names when no rule of the spec denied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision on one call and the reason, in words.

    An `open` denial stands unless the model of mode auto allows the call, one that `asks` unless a
    host program does: a rule wants somebody to be asked, and nothing else stands against the call.
    """

    kind: VerdictKind
    reason: str
    rule: str | None = None
    open: bool = False
    asks: bool = False

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.kind == "approved"

    def to_wire(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The `result` object of `permission.completed`."""
        if self.kind == "denied-by-permission-request-hook":
            return {"kind": self.kind, "message": self.reason}
        if self.kind != "denied-by-rules":
            return {"kind": self.kind}
        return {"kind": self.kind, "rules": [{"kind": request["kind"], "argument": self.rule}]}


def offered(spec: TaskSpec, names: tuple[str, ...]) -> tuple[str, ...]:
    """The built-in tools the model is shown: `tools`, less the bare names that are denied."""
    wanted = tuple(name for name in names if _is_wanted(spec, name))
    return tuple(name for name in wanted if not removed(spec, name))


def _is_wanted(spec: TaskSpec, name: str) -> bool:
    """`tools` is about the built-in tools; which of a server's are wanted stands beside it."""
    others = name.startswith(MCP_PREFIX) or name in spec.custom_tools
    return spec.tools is None or name in spec.tools or others


def removed(spec: TaskSpec, tool: str) -> bool:
    """A rule denies the tool as a whole, so the model is not even shown it."""
    return _is_bare(tool, spec.disallowed_tools)


def looks_inside(spec: TaskSpec, tool: str) -> bool:
    """Whether a verdict on this tool depends on what exactly is called."""
    if tool in (COMMAND_TOOL, WEB_TOOL):
        return True
    if spec.permission_mode == "dontAsk" or any(r.specifier is not None for r in _denying(spec)):
        return True
    if spec.permission_mode == "bypassPermissions":
        return False
    if tool in EDITING_TOOLS and not _is_bare(tool, spec.allowed_tools):
        return True
    return any(rule.specifier is not None for rule in _rules(spec.allowed_tools))


NO_ARGUMENTS: Final[Mapping[str, Any]] = {}


def decide(
    spec: TaskSpec,
    tool: str,
    kind: str,
    subject: Subject = None,
    arguments: Mapping[str, Any] = NO_ARGUMENTS,
) -> Verdict:
    """The verdict on a call of `tool` whose permission request is of `kind`."""
    denied = _denied(spec, tool, subject, arguments) or _out_of_reach(spec, tool, subject)
    if denied is not None:
        return denied
    asks = _asking(spec, tool, subject, arguments)
    if asks is not None:
        return asks
    if spec.permission_mode == "bypassPermissions":
        return _approved("mode bypassPermissions")
    harmless = isinstance(subject, ShellCall) and _is_harmless(spec, subject)
    if harmless:
        return _approved("it only reads, inside the workspace, and needs no rule")
    if spec.permission_mode == "plan" and not own_tools.is_kept_by_plan(spec, tool, kind):
        return _refused("mode plan allows nothing that may change something")
    if own_tools.is_free(spec, tool, kind) and spec.permission_mode != "dontAsk":
        return _approved("it changes nothing and needs no rule")
    if spec.permission_mode == "acceptEdits" and _is_edit(spec, kind, subject):
        return _approved("mode acceptEdits")
    if spec.permission_mode == "dontAsk" and tool == "AskUserQuestion":
        return _refused("mode dontAsk allows no questions")
    verdict = _allowed(spec, tool, subject)
    if spec.permission_mode == "auto" and not verdict.allowed:
        return _left_open(verdict, subject)
    return verdict


def _out_of_reach(spec: TaskSpec, tool: str, subject: Subject) -> Verdict | None:
    """What no mode and no rule allows."""
    if isinstance(subject, ShellCall) and subject.removes is not None:
        return _critical(subject.removes)
    closed = web_rules.refusal(spec, tool, subject if isinstance(subject, WebCall) else None)
    return None if closed is None else _by_default(*closed)


# -- rules that deny ----------------------------------------------------------------------------


def _denying(spec: TaskSpec) -> tuple[Rule, ...]:
    return (*_rules(spec.disallowed_tools), *_rules(spec.ask_tools))


def _denied(
    spec: TaskSpec, tool: str, subject: Subject, arguments: Mapping[str, Any]
) -> Verdict | None:
    """The verdict of the deny rules."""
    return _hit(spec.disallowed_tools, "denies it", tool, subject, arguments)


def _asking(
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
    about = [rule for rule in _rules(texts) if rules.names(rule, tool)]
    bare = next((rule for rule in about if rule.specifier is None), None)
    if bare is not None:
        return _by(bare, why)
    by_value = next((rule for rule in about if rules.has_value(rule, arguments)), None)
    if by_value is not None:
        return _by(by_value, f"{why}, because of its `{by_value.parameter}`")
    found = _denying_part([rule for rule in about if rule.parameter is None], subject)
    if found is None and isinstance(subject, FileCall) and tool in EDITING_TOOLS:
        found = _unreadable(texts, subject)
    return None if found is None else _by(found[0], f"{why}: {found[1]}")


def _denying_part(about: list[Rule], subject: Subject) -> tuple[Rule, str] | None:
    match subject:
        case ShellCall():
            return bash_rules.denying(subject.script, about)
        case FileCall():
            return _denying_path(about, subject)
        case WebCall() | NamedCall():
            hit = next((rule for rule in about if _means(rule, subject, widely=True)), None)
            return None if hit is None else (hit, "it names it")
        case _:
            return (about[0], "the call cannot be compared with it") if about else None


def _means(rule: Rule, subject: WebCall | NamedCall, *, widely: bool = False) -> bool:
    if isinstance(subject, WebCall):
        return web_rules.means(rule, subject, widely=widely)
    return fnmatchcase(subject.name, rule.specifier or "")


def _unreadable(texts: tuple[str, ...], subject: FileCall) -> tuple[Rule, str] | None:
    """What must not be read must not be changed either."""
    about = [rule for rule in _rules(texts) if rule.tool == "Read" and rule.specifier is not None]
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


# -- rules that allow ---------------------------------------------------------------------------


def _is_harmless(spec: TaskSpec, subject: ShellCall) -> bool:
    """It reads at most what Read could read, and no rule says what may not be read."""
    return _may_read(spec) and bash_rules.not_allowed(subject.script, (), subject.free) is None


def _is_edit(spec: TaskSpec, kind: str, subject: Subject) -> bool:
    """A file is changed where no rule and no sensitive path stands against it."""
    if isinstance(subject, ShellCall):
        if not _may_read(spec) or any(rule.tool in EDITING_TOOLS for rule in _denying(spec)):
            return False  # a command would do what a rule keeps the tools from
        return bash_rules.not_allowed(subject.script, (), subject.free, subject.edits) is None
    return kind == "write" and _sensitive(subject) is None


def _sensitive(subject: Subject) -> str | None:
    """The part of a path that makes it sensitive."""
    if not isinstance(subject, FileCall):
        return None
    parts = (sensitive_part(path, subject.places.workspace) for path in subject.paths)
    return next((part for part in parts if part is not None), None)


def _left_open(verdict: Verdict, subject: Subject) -> Verdict:
    """A denial that a model may lift, unless a sensitive path or one outside is concerned."""
    if isinstance(subject, ShellCall) and subject.writes is not None:
        return _refused(f"{verdict.reason}; {subject.writes}: no mode allows that")
    words = sorted(subject.sensitive) if isinstance(subject, ShellCall) else []
    if not words:
        return verdict if _sensitive(subject) else replace(verdict, open=True)
    return _refused(f"{verdict.reason}; `{words[0]}` steers other programs, so no mode allows it")


def _allowed(spec: TaskSpec, tool: str, subject: Subject) -> Verdict:
    about = [rule for rule in _rules(spec.allowed_tools) if rules.names(rule, tool)]
    bare = next((rule for rule in about if rule.specifier is None), None)
    if bare is None and isinstance(subject, WebCall | NamedCall):
        bare = next((rule for rule in about if _means(rule, subject)), None)
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
        case FileCall() if tool in EDITING_TOOLS and (part := _sensitive(subject)):
            where = subject.paths[0]
            said = f"no rule allows it, and no mode does: `{part}` in {where} steers other programs"
            return _refused(f"{said}; {hint(tool, subject)}")
        case _:
            said = f"no rule allows it in mode {spec.permission_mode}"
            return _refused(f"{said}; {hint(tool, subject)}")


def _may_read(spec: TaskSpec) -> bool:
    return not any(rule.tool == "Read" for rule in _denying(spec))


def _covers_all(rule: Rule, subject: FileCall) -> bool:
    """Both the path as written and where it leads; an escaped path is not the one on the disk."""
    return all(
        "\\" not in path
        and path_patterns.covers(rule.specifier or "", path, subject.places, widely=False)
        for path in subject.paths
    )


def _listed(about: Iterable[Rule]) -> str:
    return ", ".join(f"`{rule.text}`" for rule in about)


def _is_bare(tool: str, texts: Iterable[str]) -> bool:
    """Some rule names the tool whole."""
    return any(rule.specifier is None and rules.names(rule, tool) for rule in _rules(texts))


def _rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    return tuple(rules.parse(text) for text in texts)


def _by(rule: Rule, why: str) -> Verdict:
    return Verdict(kind="denied-by-rules", reason=f"rule `{rule.text}` {why}", rule=rule.text)


def _critical(what: str) -> Verdict:
    reason = f"{what}, which no mode and no rule allows; name exactly what is to be removed"
    return _by_default(reason, CRITICAL_REMOVAL)


def _by_default(reason: str, rule: str) -> Verdict:
    """A denial by a rule that every spec has."""
    return Verdict(kind="denied-by-rules", reason=reason, rule=rule)


def _refused(reason: str) -> Verdict:
    return Verdict(kind="denied-no-approval-rule-and-could-not-request-from-user", reason=reason)


def _approved(reason: str, rule: str | None = None) -> Verdict:
    return Verdict(kind="approved", reason=reason, rule=rule)
