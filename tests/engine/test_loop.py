"""The loop over fakes: the order of facts, and every way of being stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from runner.core.endings import Ending
from runner.core.events import (
    Abort,
    AbortCause,
    RunnerHeartbeat,
    SessionIdle,
    SessionUsageCheckpoint,
    ToolExecutionComplete,
)
from runner.core.messages import ModelReply, ModelRequest
from runner.engine import loop
from runner.ports import JournalError, ModelError, ToolContext, ToolOutput
from tests.fakes import FakeTool, RetryUpTo, call, done, reply
from tests.logs import Log, task
from tests.stage import Stage, play_out, set_stage
from tests.virtual_time import run_virtual

TIMEOUT = Ending(subtype="error_timeout", message="Reached the time limit (60 s)")
BASH = call("Bash", command="sleep")


async def hang(request: ModelRequest) -> ModelReply:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def hang_working(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


def hanging_tool() -> FakeTool:
    return FakeTool(name="Bash", kind="shell", work=hang_working)


async def run_and_interrupt(stage: Stage, cause: AbortCause, after_s: float) -> None:
    """Cancel the run like a signal handler does."""
    running = asyncio.current_task()
    assert running is not None

    def stop() -> None:
        stage.interruption.cause = cause
        running.cancel()

    asyncio.get_running_loop().call_later(after_s, stop)
    await stage.run(deadline_s=60.0)


def outcomes(stage: Stage) -> list[tuple[str, str | None]]:
    return [
        (event.tool_call_id, event.error.code if event.error else None)
        for event in stage.events(ToolExecutionComplete)
    ]


def test_the_facts_of_a_run_come_in_their_order() -> None:
    """Price before reply, intent before effect, completion before the end of its turn."""
    stage = play_out(set_stage([reply("half", call("Read")), reply("half"), done()]))
    turn = ["assistant.turn_start", "session.usage_checkpoint", "assistant.message"]
    tool = ["tool.execution_start", "tool.execution_complete"]
    assert stage.types == [
        *turn,
        *tool,
        "assistant.turn_end",
        *turn,
        "assistant.turn_end",
        "user.message",
        *turn,
        *tool,
        "session.task_complete",
        "assistant.turn_end",
        "runner.result",
        "session.shutdown",
    ]
    assert [record.event.type for record in stage.sink.records][-1] == "session.idle"


def test_a_model_call_in_flight_is_charged_when_time_runs_out() -> None:
    """The reservation is spent, the turn closed and the run timed out."""
    spec = task(timeout=60.0, max_budget_usd=Decimal(1))
    stage = play_out(set_stage([hang], spec=spec), deadline_s=60.0)
    (charged,) = stage.events(SessionUsageCheckpoint)
    assert (stage.ending, charged.basis, charged.cost_usd > 0) == (TIMEOUT, "reserved", True)
    assert stage.types == [
        "assistant.turn_start",
        "session.usage_checkpoint",
        "abort",
        "assistant.turn_end",
        "runner.result",
        "session.shutdown",
    ]
    assert stage.events(Abort) == [Abort(reason="user_abort", cause="timeout")]


def test_a_running_tool_is_cancelled_when_time_runs_out() -> None:
    """Its one outcome says so, and so does that of the call that had to wait."""
    later = call("Edit", file_path="a")
    stage = set_stage([reply("", BASH, later)], spec=task(timeout=60.0), tools=(hanging_tool(),))
    play_out(stage, deadline_s=60.0)
    assert stage.ending == TIMEOUT
    assert outcomes(stage) == [("Bash-1", "cancelled"), ("Edit-1", "cancelled")]


@pytest.mark.parametrize(
    ("cause", "abort", "code"),
    [
        ("SIGINT", Abort(reason="user_initiated", cause="SIGINT"), 130),
        ("SIGTERM", Abort(reason="remote_command", cause="SIGTERM"), 143),
        ("SIGHUP", Abort(reason="remote_command", cause="SIGHUP"), 143),
    ],
)
def test_a_signal_stops_a_running_tool(cause: AbortCause, abort: Abort, code: int) -> None:
    """The call is cancelled, the abort recorded, and the code is that of the signal."""
    stage = set_stage([reply("", BASH)], tools=(hanging_tool(),))
    run_virtual(run_and_interrupt(stage, cause, after_s=5.0))
    assert stage.result is not None
    assert (stage.events(Abort), outcomes(stage)) == ([abort], [("Bash-1", "cancelled")])
    assert (stage.result["exit_code"], stage.result["num_nudges"]) == (code, 0)
    assert stage.events(SessionIdle) == [SessionIdle(aborted=True)]


def test_a_signal_wins_over_the_deadline_of_the_same_moment() -> None:
    """The run is cancelled, not timed out, when both come while a tool cleans up."""

    async def slow_to_stop(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            return await hang_working(arguments, context)
        finally:
            await asyncio.sleep(10)

    tool = FakeTool(name="Bash", kind="shell", work=slow_to_stop)
    stage = set_stage([reply("", BASH)], spec=task(timeout=60.0), tools=(tool,))
    run_virtual(run_and_interrupt(stage, "SIGTERM", after_s=59.0))
    assert stage.ending is not None
    assert (stage.ending.error_type, outcomes(stage)) == ("terminated", [("Bash-1", "cancelled")])


def test_a_wait_between_attempts_is_cut_short_and_costs_nothing() -> None:
    """Nothing is charged when the signal comes while no attempt is being made."""
    busy = ModelError("rate_limit", "busy", retryable=True, status_code=429)
    stage = set_stage([busy], retry=RetryUpTo(attempts=3, wait_s=30.0))
    run_virtual(run_and_interrupt(stage, "SIGINT", after_s=5.0))
    assert (len(stage.model.requests), stage.events(SessionUsageCheckpoint)) == (1, [])
    assert stage.state.ledger.committed_usd == 0


def test_what_follows_an_interrupted_run_can_wait_again() -> None:
    """The task counts as not cancelled any more when the ending is known."""

    async def run() -> int:
        stage = set_stage([hang])
        await run_and_interrupt(stage, "SIGINT", after_s=5.0)
        await asyncio.sleep(1)
        running = asyncio.current_task()
        assert running is not None
        return running.cancelling()

    assert run_virtual(run()) == 0


def test_a_cancellation_nobody_explained_goes_through() -> None:
    """The loop makes no ending of it when the cause is not known."""

    async def run() -> None:
        async with asyncio.timeout(5):
            await stage.steps()

    stage = set_stage([hang])
    with pytest.raises(TimeoutError):
        run_virtual(run())
    assert stage.events(Abort) == []


def test_a_timeout_that_is_not_the_runs_goes_through() -> None:
    """A model that breaks its contract is a bug, not the time limit."""

    async def breaks(request: ModelRequest) -> ModelReply:
        raise TimeoutError("read timed out")

    stage = set_stage([breaks])
    with pytest.raises(TimeoutError, match="read timed out"):
        run_virtual(stage.run(deadline_s=60.0))
    assert stage.events(Abort) == []


def test_the_runner_says_every_half_minute_what_it_waits_for() -> None:
    """Two heartbeats name the model call when it takes a minute; none comes after the run."""

    async def slow(request: ModelRequest) -> ModelReply:
        for _ in range(65):
            await asyncio.sleep(1)
            stage.journal.clock.tick(1)
        return done()

    async def run() -> None:
        await stage.run()
        await asyncio.sleep(100)

    stage = set_stage([slow])
    run_virtual(run())
    beats = stage.events(RunnerHeartbeat)
    assert [(beat.phase, beat.elapsed_s) for beat in beats] == [
        ("model call", pytest.approx(30, abs=1)),
        ("model call", pytest.approx(60, abs=1)),
    ]


def test_a_heartbeat_names_the_running_tools() -> None:
    """Every call of the batch is in the phase."""
    stage = set_stage([reply("", BASH)], tools=(hanging_tool(),))
    run_virtual(run_and_interrupt(stage, "SIGINT", after_s=31.0))
    assert [beat.phase for beat in stage.events(RunnerHeartbeat)] == ["tools: Bash"]


@pytest.mark.parametrize("lines", range(5, 14))
def test_the_run_stops_at_once_when_a_fact_cannot_be_written(lines: int) -> None:
    """No request is made after the failed write, whichever line it is."""
    answers = [reply("", call("Read")), done()]
    stage = set_stage(answers)
    stage.journal.breaks_at = lines
    with pytest.raises(JournalError, match="no space left"):
        run_virtual(stage.run())
    asked = sum(record.event.type == "assistant.turn_start" for record in stage.journal.records)
    assert (len(stage.journal.lines), len(stage.model.requests)) == (lines, asked)


def test_winding_down_without_a_stop_is_a_bug() -> None:
    """An open run cannot be wound down."""
    with pytest.raises(AssertionError, match="AskModel"):
        loop.wind_down(set_stage([]).engine.recorder)


def test_winding_down_records_what_is_left_and_gives_the_ending() -> None:
    """The open turn is closed when an abort was recorded outside the loop."""
    log = Log().turn()
    recorder = set_stage([]).recorder
    recorder.journal, recorder.state = log.journal, log.state
    loop.abort(recorder, "SIGTERM")
    assert loop.wind_down(recorder) == Ending(
        subtype="error_during_execution", error_type="terminated", message="Cancelled by SIGTERM"
    )
    assert log.journal.records[-1].event.type == "assistant.turn_end"
