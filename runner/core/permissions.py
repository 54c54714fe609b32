"""May this call run? One pure decision: deny rule, ask rule, mode, allow rule, else deny.

A removal that nobody means is denied in every mode. A mode lets nothing change sensitive paths.

Here nobody is there to be asked, so "ask" is "deny"; a host program that can be asked may lift it.
A denial names the rule that denied, or says which rule would allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from runner.core import bash_rules, own_tools, path_patterns, rules
from runner.core.denials import EDITING_TOOLS, asking, denied, denying, means, out_of_reach
from runner.core.messages import MCP_PREFIX
from runner.core.rule_hints import hint
from runner.core.rules import COMMAND_TOOL, WEB_TOOL, Rule
from runner.core.sensitive_paths import sensitive_part
from runner.core.spec import TaskSpec
from runner.core.subjects import FileCall, NamedCall, ShellCall, Subject, WebCall
from runner.core.verdicts import Verdict, approved, refused


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
    if spec.permission_mode == "dontAsk" or any(r.specifier is not None for r in denying(spec)):
        return True
    if spec.permission_mode == "bypassPermissions":
        return False
    if tool in EDITING_TOOLS and not _is_bare(tool, spec.allowed_tools):
        return True
    return any(rule.specifier is not None for rule in rules.parsed(spec.allowed_tools))


NO_ARGUMENTS: Final[Mapping[str, Any]] = {}


def decide(
    spec: TaskSpec,
    tool: str,
    kind: str,
    subject: Subject = None,
    arguments: Mapping[str, Any] = NO_ARGUMENTS,
) -> Verdict:
    """The verdict on a call of `tool` whose permission request is of `kind`."""
    against = denied(spec, tool, subject, arguments) or out_of_reach(spec, tool, subject)
    if against is not None:
        return against
    asks = asking(spec, tool, subject, arguments)
    if asks is not None:
        return asks
    if spec.permission_mode == "bypassPermissions":
        return approved("mode bypassPermissions")
    harmless = isinstance(subject, ShellCall) and _is_harmless(spec, subject)
    if harmless:
        return approved("it only reads, inside the workspace, and needs no rule")
    if spec.permission_mode == "plan" and not own_tools.is_kept_by_plan(spec, tool, kind):
        return refused("mode plan allows nothing that may change something")
    if own_tools.is_free(spec, tool, kind) and spec.permission_mode != "dontAsk":
        return approved("it changes nothing and needs no rule")
    if spec.permission_mode == "acceptEdits" and _is_edit(spec, kind, subject):
        return approved("mode acceptEdits")
    if spec.permission_mode == "dontAsk" and tool == "AskUserQuestion":
        return refused("mode dontAsk allows no questions")
    verdict = _allowed(spec, tool, subject)
    if spec.permission_mode == "auto" and not verdict.allowed:
        return _left_open(verdict, subject)
    return verdict


def _is_harmless(spec: TaskSpec, subject: ShellCall) -> bool:
    """It reads at most what Read could read, and no rule says what may not be read."""
    return _may_read(spec) and bash_rules.not_allowed(subject.script, (), subject.free) is None


def _is_edit(spec: TaskSpec, kind: str, subject: Subject) -> bool:
    """A file is changed where no rule and no sensitive path stands against it."""
    if isinstance(subject, ShellCall):
        if not _may_read(spec) or any(rule.tool in EDITING_TOOLS for rule in denying(spec)):
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
        return refused(f"{verdict.reason}; {subject.writes}: no mode allows that")
    words = sorted(subject.sensitive) if isinstance(subject, ShellCall) else []
    if not words:
        return verdict if _sensitive(subject) else replace(verdict, open=True)
    return refused(f"{verdict.reason}; `{words[0]}` steers other programs, so no mode allows it")


def _allowed(spec: TaskSpec, tool: str, subject: Subject) -> Verdict:
    about = [rule for rule in rules.parsed(spec.allowed_tools) if rules.names(rule, tool)]
    whole = next((rule for rule in about if rule.specifier is None), None)
    if whole is None and isinstance(subject, WebCall | NamedCall):
        whole = next((rule for rule in about if means(rule, subject)), None)
    if whole is not None:  # it allows all that the call is about
        return approved(f"rule `{whole.text}` allows it", whole.text)
    match subject:
        case ShellCall() if about:
            free = subject.free if _may_read(spec) else frozenset()
            why = bash_rules.not_allowed(subject.script, about, free)
            if why is None:
                return approved(f"allowed is {_listed(about)}", about[0].text)
            return refused(f"{why}; allowed is {_listed(about)}")
        case FileCall() if about:
            found = next((rule for rule in about if _covers_all(rule, subject)), None)
            if found is not None:
                return approved(f"rule `{found.text}` allows it", found.text)
            return refused(f"no rule covers {subject.paths[0]}; allowed is {_listed(about)}")
        case FileCall() if tool in EDITING_TOOLS and (part := _sensitive(subject)):
            where = subject.paths[0]
            said = f"no rule allows it, and no mode does: `{part}` in {where} steers other programs"
            return refused(f"{said}; {hint(tool, subject)}")
        case _:
            said = f"no rule allows it in mode {spec.permission_mode}"
            return refused(f"{said}; {hint(tool, subject)}")


def _may_read(spec: TaskSpec) -> bool:
    return not any(rule.tool == "Read" for rule in denying(spec))


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
    return any(rule.specifier is None and rules.names(rule, tool) for rule in rules.parsed(texts))
