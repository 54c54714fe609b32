"""The loop and its log: what is asked, what is written, in which order."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.e2e.desk import CENT, Desk
from tests.servers import D, F, Step, T, Usage, X

pytestmark = pytest.mark.warm

READ = ("Read", {"file_path": "README.md"})
SLEEP = ("Bash", {"command": "sleep 60"})


def test_a_plain_run_asks_until_a_reply_has_no_tools(desk: Desk) -> None:
    """Rows 1, 6: `X,X,T` makes three pairs of turn events, and the text is the answer."""
    played = desk.play([X(READ), X(READ), T("bye"), T("never")], autopilot=False)
    assert played.types.count("assistant.turn_start") == 3
    assert (played.exit_code, played.stdout) == (0, "bye\n")
    assert played.result["stop_reason"] == "end_turn"


@pytest.mark.parametrize(("steps", "autopilot"), [([T("yes")], False), ([D("yes")], True)])
def test_nothing_is_asked_beside_the_task(desk: Desk, steps: list[Step], autopilot: bool) -> None:
    """Row 3: one reply that ends the run is one model call."""
    played = desk.play(steps, autopilot=autopilot)
    assert (played.exit_code, played.types.count("assistant.turn_start")) == (0, 1)


def test_one_prompt_makes_several_turns(desk: Desk) -> None:
    """Row 8: four turns with five calls, and one user message."""
    grep = ("Grep", {"pattern": "project"})
    steps = [X(grep, ("Glob", {"pattern": "*"})), X(READ), X(READ), T("ok")]
    played = desk.play(steps, autopilot=False)
    assert played.types.count("assistant.turn_end") == 4
    assert [message["content"] for message in played.of("user.message")] == ["Do it."]
    assert [start["toolName"] for start in played.of("tool.execution_start")] == [
        "Grep",
        "Glob",
        "Read",
        "Read",
    ]


def test_a_log_begins_with_what_the_run_is_made_of(desk: Desk) -> None:
    """Rows 10, 18: session, spec, preflight, system prompt, prompt, then the first turn."""
    played = desk.play([D("done")])
    assert played.types[:7] == [
        "session.start",
        "runner.spec",
        "runner.preflight",
        "runner.protection",
        "system.message",
        "user.message",
        "assistant.turn_start",
    ]
    assert played.of("session.shutdown")[0]["shutdownType"] == "routine"
    assert "scripted:" in next(iter(played.of("session.shutdown")[0]["modelMetrics"]))


ENDINGS: dict[str, tuple[list[Step], dict[str, Any], int]] = {
    "success": ([D("done")], {}, 0),
    "turn cap": ([X(READ), X(READ)], {"max_turns": 1}, 3),
    "budget": (
        [X(READ, usage=Usage(input_tokens=1000, output_tokens=500))] * 9,
        {"pricing": CENT, "max_budget_usd": 0.04, "max_output_tokens": 300},
        4,
    ),
    "failure": ([X(READ), F(500)], {}, 75),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_idle_is_the_last_event_of_every_stream(desk: Desk, ending: str) -> None:
    """Rows 13, 14, 41: one `session.idle`, last, on the stream and never on disk."""
    steps, keys, code = ENDINGS[ending]
    played = desk.play(steps, "--output-format", "events", **keys)
    assert played.exit_code == code
    types = [event["type"] for event in played.stream]
    assert (types[-1], types.count("session.idle")) == ("session.idle", 1)
    assert [e for e in played.stream if not e.get("ephemeral")] == played.log
    assert "aborted" not in played.stream[-1]["data"]


def test_idle_says_when_the_run_was_aborted(desk: Desk) -> None:
    """Rows 14, 42: SIGINT in a tool, `aborted: true` on the last line of the stream."""
    with desk.started([X(SLEEP)], "--output-format", "events") as running:
        running.wait_for("tool.execution_start")
        running.send(signal.SIGINT)
        played = running.finish()
    assert played.exit_code == 130
    assert (played.stream[-1]["type"], played.stream[-1]["data"]) == (
        "session.idle",
        {"aborted": True},
    )


def test_a_turn_ends_although_the_model_fails(desk: Desk) -> None:
    """Rows 20, 37, 41: `X,F(500)`: starts and ends are as many, the error stands in between."""
    played = desk.play([X(READ), F(500, "down for good")])
    assert played.types[-6:] == [
        "assistant.turn_start",
        "session.error",
        "assistant.turn_end",
        "runner.protection_check",
        "runner.result",
        "session.shutdown",
    ]
    (error,) = played.of("session.error")
    assert (error["errorType"], error["statusCode"]) == ("provider_unavailable", 500)
    assert "down for good" in error["message"]
    assert not any(m.get("isAutopilotContinuation") for m in played.of("user.message"))
    assert played.result["subtype"] == "error_during_execution"
    assert played.result["api_error_status"] == 500


def test_a_kill_leaves_a_log_that_can_be_read(desk: Desk) -> None:
    """Rows 19, 86: SIGKILL in turn 3: two whole turns are there, and what they cost."""
    with desk.started([X(READ), X(READ), X(SLEEP)], pricing=CENT) as running:
        running.wait_for("tool.execution_start", 3)
        running.send(signal.SIGKILL)
        played = running.finish()
    assert played.exit_code == -signal.SIGKILL
    assert played.types.count("assistant.turn_end") == 2
    assert played.of("session.usage_checkpoint")[-1]["totalCostUsd"] == pytest.approx(0.0036)
    assert not (played.folder / "result.json").exists()


def test_a_session_is_a_private_folder_below_the_home(desk: Desk) -> None:
    """Row 43: the session folder lies below the home, and nobody else may read it."""
    played = desk.play([D("done")])
    assert played.folder.parent == desk.home / "session-state"
    modes = {path.name: path.stat().st_mode & 0o777 for path in played.folder.iterdir()}
    assert modes["events.jsonl"] == modes["result.json"] == modes["lock"] == 0o600
    assert played.folder.stat().st_mode & 0o077 == 0
    assert set(modes) >= {"workspace.yaml", "files"}
