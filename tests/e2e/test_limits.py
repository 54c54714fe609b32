"""The caps: turns exact, money never above, and what does not count."""

from __future__ import annotations

import pytest

from tests.e2e.desk import Desk, Wire
from tests.servers import D, Step, T, Usage, X

pytestmark = pytest.mark.warm

READ = ("Read", {"file_path": "README.md"})
BASH = ("Bash", {"command": "echo hi"})
EDIT = ("Edit", {"file_path": "README.md", "old_string": "small", "new_string": "big"})
WRITE = ("Write", {"file_path": "new.txt", "content": "hello\n"})

OUTPUT_PRICE = {"input_per_mtok": 0.001, "output_per_mtok": 100}
"""A hundred output tokens are a cent, and input costs next to nothing."""

CENT = Usage(input_tokens=0, output_tokens=100)


def test_there_is_no_limit_by_default(desk: Desk) -> None:
    """Row 71: 60 tool turns, then done: success."""
    played = desk.play([*[X(READ)] * 60, D("done")])
    assert (played.exit_code, played.result["num_tool_turns"]) == (0, 60)


def test_the_turn_cap_stops_before_the_next_tool_step(desk: Desk) -> None:
    """Rows 72, 77, 64: cap 2: the edit of the closing call is not done, and is answered."""
    steps = [X(BASH), X(READ, READ), X(EDIT, BASH), T("never")]
    played = desk.play(steps, autopilot=False, max_turns=2)
    assert (played.exit_code, played.result["subtype"]) == (3, "error_max_turns")
    assert played.result["errors"] == ["Reached maximum number of turns (2)"]
    assert (played.result["num_turns"], played.result["num_llm_calls"]) == (2, 3)
    assert desk.read("README.md") == "# A small project\n"
    codes = [done.get("error", {}).get("code") for done in played.of("tool.execution_complete")]
    assert codes == [None, None, None, "not_run", "not_run"]
    (warning,) = played.of("session.warning")
    assert warning["warningType"] == "error_max_turns"


@pytest.mark.parametrize(
    ("autopilot", "steps", "turns"),
    [
        pytest.param(False, [T("yes")], 1, id="row 73: text alone"),
        pytest.param(False, [X(READ), T("yes")], 2, id="row 74: a tool, then the answer"),
        pytest.param(True, [X(*[READ] * 5), D("done")], 2, id="row 75: five calls in one reply"),
        pytest.param(True, [X(READ), T("a"), T("b"), D("done")], 4, id="row 76: nudges"),
    ],
)
def test_only_replies_with_tools_count(
    desk: Desk, autopilot: bool, steps: list[Step], turns: int
) -> None:
    """Rows 73 to 77: with a cap of 1 these succeed."""
    played = desk.play(steps, autopilot=autopilot, max_turns=1)
    assert (played.exit_code, played.result["num_turns"]) == (0, turns)
    assert all(done["success"] for done in played.of("tool.execution_complete"))


def test_num_turns_of_the_seed_example_is_4(desk: Desk) -> None:
    """Row 77: three tool turns and the text."""
    steps = [X(BASH), X(READ), X(EDIT, BASH), T("done")]
    played = desk.play(steps, autopilot=False)
    assert (played.result["num_turns"], played.result["num_tool_turns"]) == (4, 3)


def test_completion_in_a_reply_over_the_turn_cap_is_not_honoured(desk: Desk) -> None:
    """The other calls of that reply were part of the work, and they were not done."""
    over = X(WRITE, ("task_complete", {"summary": "done"}))
    played = desk.play([X(READ), over], max_turns=1)
    assert (played.exit_code, desk.read("new.txt")) == (3, None)
    assert "session.task_complete" not in played.types


def test_a_call_that_does_not_fit_under_the_cap_is_not_made(desk: Desk) -> None:
    """Row 78: a cent a reply, cap $0.025: two calls, the third would leave too little."""
    keys = {"pricing": OUTPUT_PRICE, "max_budget_usd": 0.025, "max_output_tokens": 300}
    played = desk.play([X(READ, usage=CENT)] * 4, **keys, limits={"min_output_tokens": 60})
    assert (played.exit_code, played.result["subtype"]) == (4, "error_max_budget_usd")
    assert played.types.count("assistant.turn_start") == 2
    assert played.result["total_cost_usd"] == 0.02
    assert "$0.025" in played.result["errors"][0]


@pytest.mark.parametrize("wire", [None, "openai"])
def test_a_call_is_made_smaller_until_it_fits(desk: Desk, wire: Wire | None) -> None:
    """Row 78: the last call may say just what is left, and the cap is not exceeded."""
    desk.wire = wire
    keys = {"pricing": OUTPUT_PRICE, "max_budget_usd": 0.025, "max_output_tokens": 100}
    last = X(READ, usage=Usage(input_tokens=1, output_tokens=49))
    steps = [X(READ, usage=Usage(input_tokens=1, output_tokens=100))] * 2 + [last]
    played = desk.play(steps, **keys, limits={"min_output_tokens": 10})
    limits = [turn["maxOutputTokens"] for turn in played.of("assistant.turn_start")]
    assert limits == [100, 100, 49]
    if wire:
        assert [body["max_tokens"] for body in played.requests] == limits
    assert played.exit_code == 4
    assert played.result["total_cost_usd"] <= 0.025
    assert played.result["cost_basis"] == "spec"


def test_reached_counts_as_hit(desk: Desk) -> None:
    """Row 79: two cents at a cap of two cents: two calls, and the tools of the second not run."""
    keys = {"pricing": OUTPUT_PRICE, "max_budget_usd": 0.02, "max_output_tokens": 100}
    played = desk.play([X(READ, usage=CENT)] * 2, **keys, limits={"min_output_tokens": 10})
    assert played.types.count("assistant.turn_start") == 2
    assert played.of("assistant.turn_start")[1]["maxOutputTokens"] < 100
    assert (played.exit_code, played.result["total_cost_usd"]) == (4, 0.02)


@pytest.mark.parametrize(
    ("step", "autopilot"),
    [
        pytest.param(X(WRITE, usage=Usage(output_tokens=50_000)), True, id="row 81: a tool"),
        pytest.param(T("yes", usage=Usage(output_tokens=50_000)), False, id="row 82: the answer"),
        pytest.param(D("yes", usage=Usage(output_tokens=50_000)), True, id="row 82: completion"),
    ],
)
def test_a_provider_that_overcharges_costs_one_reply(
    desk: Desk, step: Step, autopilot: bool
) -> None:
    """Rows 80 to 82: $5 at a cap of $0.05 are in the result; nothing of that reply is done."""
    keys = {"pricing": OUTPUT_PRICE, "max_budget_usd": 0.05, "max_output_tokens": 300}
    played = desk.play([step], autopilot=autopilot, **keys)
    assert (played.exit_code, played.result["subtype"]) == (4, "error_max_budget_usd")
    assert played.result["total_cost_usd"] == pytest.approx(5, abs=1e-6)
    assert desk.read("new.txt") is None
    outcomes = played.of("tool.execution_complete")
    assert [done["error"]["code"] for done in outcomes] == ["not_run"] * len(step.tools)
    assert "session.task_complete" not in played.types


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"max_turns": 0}, "max_turns"),
        ({"max_turns": -1}, "max_turns"),
        ({"max_turns": 1.5}, "max_turns"),
        ({"max_turns": "x"}, "max_turns"),
        ({"max_budget_usd": float("nan")}, "max_budget_usd"),
        ({"max_budget_usd": 0}, "max_budget_usd"),
        ({"max_autopilot_continues": -1}, "max_autopilot_continues"),
    ],
)
def test_a_bad_limit_is_refused(desk: Desk, keys: dict[str, object], path: str) -> None:
    """Row 88: exit 2, the key named, nothing asked and nothing created."""
    played = desk.play([], **keys)
    assert (played.exit_code, played.has_session, played.stdout) == (2, False, "")
    assert f"{path}: " in played.stderr


def test_a_limit_on_the_command_line_is_checked_too(desk: Desk) -> None:
    """Row 88: the option is named."""
    played = desk.play([], "--max-turns", "0")
    assert (played.exit_code, played.has_session) == (2, False)
    assert "--max-turns" in played.stderr


def test_a_budget_without_a_price_is_refused(desk: Desk) -> None:
    """Row 87: a model no table knows, a cap: exit 78 and the remedy, before any request."""
    played = desk.play([], "--output-format", "json", max_budget_usd=1)
    assert (played.exit_code, played.result["error_type"]) == (78, "preflight")
    assert "max_budget_usd" in played.result["errors"][0]
    assert "add `pricing:" in played.result["errors"][0]
    assert "assistant.turn_start" not in played.types
    assert played.stream == [played.result]
