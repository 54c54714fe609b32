"""The program that has it run is asked about calls that no rule decides, and about no other."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from runner.core.events import PermissionCompleted
from runner.core.messages import ToolCall
from runner.core.spec import PermissionMode
from tests.fakes import FakeTool, call, done, reply
from tests.logs import task
from tests.stage import play_out, set_stage

ASKING = ("default", "acceptEdits")


def asked_about(answer: str | None, **keys: Any) -> tuple[list[str], list[str]]:
    """The calls the host was asked about, and how each recorded decision went."""
    tools = (
        FakeTool(name="Bash", kind="shell"),
        FakeTool(name="Read", kind="read", read_only=True),
    )
    stage = set_stage(
        [reply("", call("Bash"), call("Read")), done()],
        spec=task(**{"permission_mode": "default", **keys}),
        tools=tools,
    )
    heard: list[str] = []

    async def ask(about: ToolCall) -> str | None:
        heard.append(about.name)
        return answer

    stage.engine.ask = ask
    play_out(stage)
    decided = [r.event for r in stage.journal.records if isinstance(r.event, PermissionCompleted)]
    return heard, [str(event.result["kind"]) for event in decided]


def test_what_no_rule_decides_is_asked_and_recorded() -> None:
    """An answer is a decision like another; what needs no rule is not asked about."""
    assert asked_about(None) == (["Bash"], ["approved"])
    assert asked_about("no") == (["Bash"], ["denied-interactively-by-user"])


@pytest.mark.parametrize("rules", ["allowed_tools", "disallowed_tools"])
def test_what_a_rule_decides_is_not_asked(rules: str) -> None:
    """An allowing rule allows, a denying one denies, whatever the host would say."""
    heard, decided = asked_about("no", **{rules: ("Bash",)})
    assert heard == []
    assert decided == ["approved" if rules == "allowed_tools" else "denied-by-rules"]


@pytest.mark.parametrize(
    ("answer", "decided"), [(None, "approved"), ("no", "denied-interactively-by-user")]
)
def test_what_a_rule_wants_asked_is_asked(answer: str | None, decided: str) -> None:
    """Somebody is there; an allowing rule beside it changes nothing about that."""
    asked = asked_about(answer, ask_tools=("Bash",), allowed_tools=("Bash",))
    assert asked == (["Bash"], [decided])


@pytest.mark.parametrize("mode", sorted({*get_args(PermissionMode)} - {"auto"}))
def test_only_modes_that_leave_it_open_ask(mode: PermissionMode) -> None:
    """Plan and dontAsk have decided, bypassPermissions asks nobody (and auto asks a model)."""
    heard, _ = asked_about(None, permission_mode=mode)
    assert heard == (["Bash"] if mode in ASKING else [])
