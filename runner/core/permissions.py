"""May this call run? One pure decision: deny rule, mode, allow rule, else deny.

Nobody is there to be asked, so "ask" is always "deny". A denial names the rule that denied, or
says which rule would allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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


def offered(spec: TaskSpec, names: tuple[str, ...]) -> tuple[str, ...]:
    """The built-in tools the model is shown: `tools`, less the bare names that are denied."""
    wanted = names if spec.tools is None else tuple(n for n in names if n in spec.tools)
    return tuple(name for name in wanted if name not in spec.disallowed_tools)


def decide(spec: TaskSpec, tool: str, kind: str) -> Verdict:
    """The verdict on a call of `tool` whose permission request is of `kind`."""
    if tool in spec.disallowed_tools:
        return Verdict(kind="denied-by-rules", reason=f"rule `{tool}` denies it", rule=tool)
    if spec.permission_mode == "bypassPermissions":
        return _approved("mode bypassPermissions")
    if kind in FREE_KINDS:
        return _approved("it changes nothing and needs no rule")
    if spec.permission_mode == "acceptEdits" and kind == "write":
        return _approved("mode acceptEdits")
    if tool in spec.allowed_tools:
        return _approved(f"rule `{tool}` allows it", tool)
    return Verdict(
        kind="denied-no-approval-rule-and-could-not-request-from-user",
        reason=f"no rule allows it in mode {spec.permission_mode}; "
        f"`allowed_tools: [{tool}]` in the spec would",
    )


def _approved(reason: str, rule: str | None = None) -> Verdict:
    return Verdict(kind="approved", reason=reason, rule=rule)
