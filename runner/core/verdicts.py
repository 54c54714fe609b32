"""What a decision on a call says: allowed or denied, why, and by which rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from runner.core.rules import Rule

VerdictKind = Literal[
    "approved",
    "denied-by-rules",
    "denied-no-approval-rule-and-could-not-request-from-user",
    "denied-by-permission-request-hook",
    "denied-interactively-by-user",
]


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


def approved(reason: str, rule: str | None = None) -> Verdict:
    """The call may run."""
    return Verdict(kind="approved", reason=reason, rule=rule)


def refused(reason: str) -> Verdict:
    """Nothing allows the call."""
    return Verdict(kind="denied-no-approval-rule-and-could-not-request-from-user", reason=reason)


def by_rule(rule: Rule, why: str) -> Verdict:
    """A denial by a rule of the spec."""
    return Verdict(kind="denied-by-rules", reason=f"rule `{rule.text}` {why}", rule=rule.text)


def by_default(reason: str, rule: str) -> Verdict:
    """A denial by a rule that every spec has."""
    return Verdict(kind="denied-by-rules", reason=reason, rule=rule)
