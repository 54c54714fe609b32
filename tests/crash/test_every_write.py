"""A run that is killed at any write of its log resumes to the same ending, doing nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.adapters.journal import read_log
from runner.core.events import (
    AssistantTurnEnd,
    AssistantTurnStart,
    Record,
    SubagentCompleted,
    SubagentStarted,
    ToolExecutionComplete,
    ToolExecutionStart,
)
from runner.core.fold import fold

STEP = 3
"""Three tests share the kill points of one mode, so that workers share the load."""


@pytest.mark.parametrize("first", range(1, STEP + 1))
@pytest.mark.parametrize("mode", ["before", "torn", "after"])
def test_a_run_killed_at_any_write_resumes_to_the_same_ending(
    mode: str, first: int, tmp_path: Path
) -> None:
    """Same ending, the file right, the Bash run at most once, and every intent has one outcome."""
    command = [sys.executable, "-m", "tests.crash.driver", str(tmp_path), mode, str(first), "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) >= 14
    assert [o["kill"] for o in outcomes] == list(range(first, first + 3 * len(outcomes), 3))
    for outcome in outcomes:
        _check(outcome)


@pytest.mark.parametrize(("mode", "first"), [("before", 1), ("torn", 2), ("after", 3)])
def test_sub_agents_killed_at_any_write_go_on_to_the_same_ending(
    mode: str, first: int, tmp_path: Path
) -> None:
    """The same when a sub-agent does the work: every fifth write of each mode is the last."""
    script = [sys.executable, "-m", "tests.crash.driver"]
    command = [*script, str(tmp_path), mode, str(first), "5", "agents"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) >= 12
    for outcome in outcomes:
        _check(outcome)


def _check(outcome: dict[str, Any]) -> None:
    logs = sorted(Path(outcome["home"]).glob("session-state/*/events.jsonl"))
    records = list(read_log(logs[-1].parent))
    told = _results(records)
    ran_or_doubted = outcome["bash_runs"] == 1 or "unknown" in told
    assert (
        outcome["exit_code"],
        outcome["greeting"],
        outcome["bash_runs"] <= 1,
        ran_or_doubted,
    ) == (
        0,
        "hello, world\n",
        True,
        True,
    ), outcome
    _check_log(records)


def _results(records: list[Record]) -> str:
    errors = (r.event.error for r in records if isinstance(r.event, ToolExecutionComplete))
    return " ".join(error.message for error in errors if error is not None)


def _check_log(records: list[Record]) -> None:
    """Starts and outcomes pair up, turns too, and the money adds up."""
    events = [record.event for record in records]
    starts = [e.tool_call_id for e in events if isinstance(e, ToolExecutionStart)]
    outcomes = [e.tool_call_id for e in events if isinstance(e, ToolExecutionComplete)]
    assert len(starts) == len(set(starts))
    assert sorted(starts) == sorted(outcomes)
    for agent in {record.agent_id for record in records}:
        own = [record.event for record in records if record.agent_id == agent]
        turns = [e.turn_id for e in own if isinstance(e, AssistantTurnStart)]
        assert turns == [e.turn_id for e in own if isinstance(e, AssistantTurnEnd)]
    begun = [record.agent_id for record in records if isinstance(record.event, SubagentStarted)]
    ended = [record.agent_id for record in records if isinstance(record.event, SubagentCompleted)]
    assert sorted(map(str, begun)) == sorted(map(str, ended))
    state = fold(records)
    assert state.result is not None
    assert len(state.result["permission_denials"]) == 1  # however often it was decided
    assert state.result["total_cost_usd"] == float(state.ledger.spent_usd)
    assert state.ledger.reserved == {}
