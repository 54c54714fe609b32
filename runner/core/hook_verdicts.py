"""What hooks decide about a call, and which calls the `if` of a hook means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runner.core.hooks import Ruling
from runner.core.permissions import decide
from runner.core.spec import TaskSpec
from runner.core.subjects import Subject
from runner.core.verdicts import Verdict


def concerns(
    spec: TaskSpec, rule: str, tool: str, kind: str, subject: Subject, arguments: Mapping[str, Any]
) -> bool:
    """Whether a rule means this call, or might: as it would if it denied what it means."""
    denying = replace(
        spec, disallowed_tools=(rule,), ask_tools=(), permission_mode="bypassPermissions"
    )
    return decide(denying, tool, kind, subject, arguments).rule == rule


def refusal(said: Ruling) -> Verdict | None:
    """The denial hooks ask for. Whoever wants a person to be asked asks in vain, without a host."""
    why = f": {said.reason}" if said.reason else ""
    match said.decision:
        case "deny":
            reason = f"a PreToolUse hook denies it{why}"
            return Verdict(kind="denied-by-permission-request-hook", reason=reason)
        case "ask":
            return _asking(said)
        case _:
            return None


def _asking(said: Ruling) -> Verdict:
    why = f": {said.reason}" if said.reason else ""
    reason = f"a PreToolUse hook wants a person to be asked, and nobody is there{why}"
    return Verdict(kind="denied-by-permission-request-hook", reason=reason, asks=True)


def vouched(spec: TaskSpec, said: Ruling, tool: str, verdict: Verdict) -> Verdict:
    """The verdict of the rules after hooks were heard. What they allow needs no rule; but no rule
    that denies, and not mode plan, gives way to them. Where they want somebody to be asked, a rule
    that denies comes first."""
    open_ = verdict.kind == "denied-no-approval-rule-and-could-not-request-from-user"
    if said.decision == "ask":
        asks = spec.permission_mode not in ("plan", "dontAsk")
        may_ask = verdict.allowed or open_ or verdict.asks
        return replace(_asking(said), asks=asks) if may_ask else verdict
    if said.decision != "allow" or not open_ or spec.permission_mode == "plan":
        return verdict
    if tool == "AskUserQuestion":
        return verdict
    why = f": {said.reason}" if said.reason else ""
    return Verdict(kind="approved", reason=f"a PreToolUse hook allows it{why}")
