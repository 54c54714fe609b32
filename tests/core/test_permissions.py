"""May this call run?"""

from __future__ import annotations

import pytest

from runner.core.permissions import Verdict, VerdictKind, decide, offered
from runner.core.spec import TaskSpec

NO_RULE: VerdictKind = "denied-no-approval-rule-and-could-not-request-from-user"
KINDS = {"Bash": "shell", "Edit": "write", "Read": "read", "TaskCreate": "custom-tool"}


def spec(**changes: object) -> TaskSpec:
    return TaskSpec(name="n", prompt="p", model="m", **changes)  # type: ignore[arg-type]  # parametrised


@pytest.mark.parametrize(
    ("mode", "allowed"),
    [
        ("default", {"Read", "TaskCreate"}),
        ("acceptEdits", {"Read", "TaskCreate", "Edit"}),
        ("bypassPermissions", {"Read", "TaskCreate", "Edit", "Bash"}),
    ],
)
def test_a_mode_allows_its_kinds_without_a_rule(mode: str, allowed: set[str]) -> None:
    """Exactly these calls may run when no rule is given."""
    verdicts = {
        tool: decide(spec(permission_mode=mode), tool, kind) for tool, kind in KINDS.items()
    }
    assert {tool for tool, verdict in verdicts.items() if verdict.allowed} == allowed


def test_a_rule_allows_what_the_mode_does_not() -> None:
    """The reason names the rule when a rule allows a call."""
    verdict = decide(spec(allowed_tools=("Bash",)), "Bash", "shell")
    assert verdict == Verdict(kind="approved", reason="rule `Bash` allows it", rule="Bash")


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
@pytest.mark.parametrize("tool", list(KINDS))
def test_a_denying_rule_wins_in_every_mode(mode: str, tool: str) -> None:
    """The call is denied when a rule denies it, whatever else would allow it."""
    both = spec(permission_mode=mode, allowed_tools=(tool,), disallowed_tools=(tool,))
    verdict = decide(both, tool, KINDS[tool])
    assert verdict == Verdict(kind="denied-by-rules", reason=f"rule `{tool}` denies it", rule=tool)


def test_a_denial_without_a_rule_says_what_would_allow_it() -> None:
    """The reason holds the line for the spec when no rule allows a call."""
    assert decide(spec(), "Bash", "shell") == Verdict(
        kind=NO_RULE,
        reason="no rule allows it in mode default; `allowed_tools: [Bash]` in the spec would",
    )


def test_the_rule_stands_in_the_decision_when_it_denied() -> None:
    """`rules` names it by the kind of the request, and only then."""
    denied = decide(spec(disallowed_tools=("Bash",)), "Bash", "shell")
    assert denied.to_wire({"kind": "shell"}) == {
        "kind": "denied-by-rules",
        "rules": [{"kind": "shell", "argument": "Bash"}],
    }
    assert decide(spec(), "Bash", "shell").to_wire({"kind": "shell"}) == {"kind": NO_RULE}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, ("Read", "Edit", "Bash")),
        ({"tools": ("Bash", "Read")}, ("Read", "Bash")),
        ({"tools": ()}, ()),
        ({"disallowed_tools": ("Bash",)}, ("Read", "Edit")),
        ({"tools": ("Bash", "Read"), "disallowed_tools": ("Bash",)}, ("Read",)),
    ],
)
def test_the_model_is_shown_what_the_spec_leaves(
    changes: dict[str, object], shown: tuple[str, ...]
) -> None:
    """`tools` restricts and a bare denial removes, and the order stays."""
    assert offered(spec(**changes), ("Read", "Edit", "Bash")) == shown
