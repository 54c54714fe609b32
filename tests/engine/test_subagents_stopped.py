"""Sub-agents and what stops a run: money, signals, the clock, kills."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from runner.core.endings import exit_code
from runner.core.events import (
    AbortCause,
    AssistantTurnStart,
    SessionError,
    SessionUsageCheckpoint,
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
    ToolExecutionComplete,
    ToolExecutionStart,
)
from runner.core.messages import ModelReply, ModelRequest, Usage
from runner.core.spec import LimitsSpec
from runner.engine.recover import recover
from runner.ports import JournalError, Tool, ToolContext, ToolOutput
from tests.crew import AgentTool, Steady, agent, check_books, manned, start, with_crew
from tests.engine.test_subagents import play, told
from tests.fakes import Answer, FakeTool, call, done, reply
from tests.logs import PRICE, task
from tests.stage import Stage, go_on, play_out, set_of_tools
from tests.virtual_time import run_virtual

SMALL = {"max_output_tokens": 1000, "limits": LimitsSpec(min_output_tokens=1)}
DEAR = replace(PRICE, input_per_mtok=Decimal(1000), output_per_mtok=Decimal(1000))
"""A tenth of a cent a token."""


def costs(dollars: str, *calls: Any, text: str = "") -> ModelReply:
    """A reply that costs this much at the dear price."""
    tokens = int(Decimal(dollars) * 1000)
    return reply(text, *calls, usage=Usage(input_tokens=100, output_tokens=tokens - 100))


# -- money -----------------------------------------------------------------------------------------


def test_a_sub_agent_that_spends_the_last_cent_ends_the_run() -> None:
    """Row 83: the parent stops with exit 4, and makes no further request."""
    stage = play(
        {
            "main": [costs("0.2", start("scout"))],
            "scout": [costs("0.8", text="All of it.")],
        },
        spec=task(agents={"scout": agent()}, max_budget_usd=Decimal(1), **SMALL),
        price=DEAR,
        code=4,
    )
    (failed,) = stage.events(SubagentFailed)
    assert failed.error.startswith("Budget limit reached. Reached maximum budget ($1")
    assert stage.state.ledger.spent_usd == 1


def test_a_sub_agent_whose_next_call_does_not_fit_fails_and_its_parent_goes_on() -> None:
    """What it read is too much to be sent; the parent can still pay for its own, smaller call."""

    async def long(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(content="x" * 600)

    big = replace(task(), max_output_tokens=1000)
    stage = play(
        {
            "main": [
                costs("0.2", start("scout")),
                costs("0.1", call("task_complete", summary="x")),
            ],
            "scout": [costs("0.2", call("Read"), text="Half.")],
        },
        spec=replace(
            big,
            agents={"scout": agent()},
            max_budget_usd=Decimal(1),
            limits=LimitsSpec(min_output_tokens=120),
        ),
        tools=lambda: (FakeTool(name="Read", read_only=True, kind="read", work=long),),
        price=DEAR,
        counted_tokens=10,
    )
    assert told(stage)["scout"].startswith("error: scout: Budget limit reached. Reached maximum")
    assert told(stage)["scout"].endswith("Half.")


@pytest.mark.parametrize("seed", range(40))
def test_racing_sub_agents_never_spend_more_than_the_cap(seed: int) -> None:
    """BUD9: twenty at once, a cap for three and a half calls, latencies at random: at least three
    calls are made, the bill is never above the cap, and the run ends over the budget."""
    chance = random.Random(seed)
    names = [f"a{number}" for number in range(20)]

    async def race(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(chance.random())
        most = request.max_output_tokens
        return reply("", call("Read"), usage=Usage(input_tokens=100, output_tokens=most))

    spec = task(
        agents={name: agent() for name in names},
        max_budget_usd=Decimal(4),
        max_output_tokens=900,
        limits=LimitsSpec(min_output_tokens=500),
    )
    answers: dict[str, Iterable[Answer]] = {name: [race] * 5 for name in names}
    answers["main"] = [costs("0.5", *map(start, names)), costs("0.1", call("Read"))]
    stage = manned(answers, spec=spec, price=DEAR, counted_tokens=20)
    play_out(stage)
    check_books(stage)
    paid = [e.cost_usd for e in stage.events(SessionUsageCheckpoint)]
    assert sum(paid) == stage.state.ledger.spent_usd <= 4
    assert len(paid) >= 4
    assert stage.result is not None
    assert stage.result["exit_code"] == 4


def test_no_sub_agent_is_started_at_the_cap() -> None:
    """Row 84: the money is gone when the second one would be started by the first."""

    async def late(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        await asyncio.sleep(5)
        return ToolOutput(content="ok")

    async def spends(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(3)
        return costs("0.8", text="Mine.")

    stage = play(
        {"main": [costs("0.2", start("rich"), start("poor"))], "rich": [spends], "poor": []},
        spec=task(agents={"rich": agent(), "poor": agent()}, max_budget_usd=Decimal(1), **SMALL),
        price=DEAR,
        code=4,
    )
    poor = next(e for e in stage.events(SubagentFailed) if e.agent_name == "poor")
    assert "Budget limit reached" in poor.error


def test_at_the_cap_what_runs_is_stopped() -> None:
    """BUD19: a command of another sub-agent does not outlive the money, which is the ending."""
    alive: list[str] = []

    async def sleeps(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        alive.append("begun")
        try:
            await asyncio.sleep(10_000)
        finally:
            alive.append("stopped")
        return ToolOutput(content="ok")

    async def spends(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(5)
        most = request.max_output_tokens
        return reply("Mine.", usage=Usage(input_tokens=100, output_tokens=most))

    async def runs(request: ModelRequest) -> ModelReply:
        return costs("0.2", call("Bash"))

    async def waits(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(1)
        return costs("0.2", start("rich"))

    spec = task(
        agents={name: agent() for name in ("busy", "boss", "rich")},
        max_budget_usd=Decimal(2),
        **{**SMALL, "max_output_tokens": 500},
    )
    stage = play(
        {
            "main": [costs("0.2", start("busy"), start("boss"))],
            "busy": [runs],
            "boss": [waits],
            "rich": [spends, spends, spends, spends],
        },
        spec=replace(spec, max_budget_usd=Decimal("1.2")),
        tools=lambda: (FakeTool(name="Bash", kind="shell", work=sleeps),),
        price=DEAR,
        counted_tokens=10,
        code=4,
    )
    assert alive == ["begun", "stopped"]
    ended = {e.agent_name: e.reason for e in stage.events(SubagentFailed)}
    assert ended == {
        "rich": "error_max_budget_usd",
        "boss": "error_max_budget_usd",
        "busy": "cancelled",
    }


# -- stopped from outside --------------------------------------------------------------------------


async def hang(request: ModelRequest) -> ModelReply:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def hang_working(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def run_and_interrupt(stage: Stage, cause: AbortCause, after_s: float) -> None:
    """Cancel the run like a signal handler does."""
    running = asyncio.current_task()
    assert running is not None

    def stop() -> None:
        stage.interruption.cause = cause
        running.cancel()

    asyncio.get_running_loop().call_later(after_s, stop)
    await stage.run()


def busy_stage() -> Stage:
    """One sub-agent hangs in a model call, one in a command, one below another."""
    return manned(
        {
            "main": [reply("", start("asks"), start("works"), start("upper"))],
            "asks": [hang],
            "works": [reply("Starting.", call("Bash"), call("Edit", file_path="a"))],
            "upper": [reply("", start("lower"), call("Read"))],
            "lower": [hang],
        },
        spec=task(
            agents={name: agent() for name in ("asks", "works", "upper", "lower")},
            max_budget_usd=Decimal(1),
            timeout=60.0,
        ),
        tools=lambda: (
            FakeTool(name="Bash", kind="shell", work=hang_working),
            FakeTool(name="Edit", kind="write"),
            FakeTool(name="Read", read_only=True, kind="read"),
        ),
    )


def check_stopped(stage: Stage, cause: str) -> None:
    """Everything is closed as cancelled, and the open calls of models are paid as reserved."""
    check_books(stage)
    failed = stage.events(SubagentFailed)
    assert {(e.agent_name, e.error, e.cancelled) for e in failed} == {
        (name, f"Cancelled by {cause}", True) for name in ("asks", "works", "upper", "lower")
    }
    codes = {e.error.code for e in stage.events(ToolExecutionComplete) if e.error}
    assert codes == {"cancelled"}
    bases = [e.basis for e in stage.events(SessionUsageCheckpoint)]
    assert bases.count("reserved") == 2


@pytest.mark.parametrize("cause", ["SIGINT", "SIGTERM"])
def test_a_signal_stops_all_sub_agents(cause: AbortCause) -> None:
    """Their calls are answered as cancelled, and their histories are whole."""
    stage = busy_stage()
    run_virtual(run_and_interrupt(stage, cause, 5.0))
    check_stopped(stage, cause)


def test_the_clock_stops_all_sub_agents() -> None:
    """A run that is out of time ends as that, whoever was at work."""
    stage = play_out(busy_stage(), deadline_s=60.0)
    check_stopped(stage, "timeout")
    assert stage.ending is not None
    assert stage.ending.subtype == "error_timeout"


def test_a_log_that_cannot_be_written_stops_all_of_them() -> None:
    """Whatever line fails: no agent asks or does anything after it."""
    whole = busy_stage()
    run_virtual(run_and_interrupt(whole, "SIGINT", 5.0))
    for lines in range(6, len(whole.journal.records) - 2):
        stage = busy_stage()
        stage.journal.breaks_at = lines
        with pytest.raises(JournalError, match="no space left"):
            run_virtual(run_and_interrupt(stage, "SIGINT", 5.0))
        assert len(stage.journal.records) == lines


# -- killed and resumed ----------------------------------------------------------------------------


def steady() -> Steady:
    """Two sub-agents at once, each with a read, an effect and an answer; one has one below it."""
    return Steady(
        answers={
            "main": [reply("", start("left"), start("right")), done("both")],
            "left": [
                reply("", call("Read")),
                reply("", call("Bash", "left-bash", by="left")),
                reply("left is done"),
            ],
            "right": [
                reply("", start("below")),
                reply("", call("Bash", "right-bash", by="right")),
                reply("right is done"),
            ],
            "below": [reply("", call("Bash", "below-bash", by="below")), reply("below is done")],
        }
    )


def steady_stage() -> Stage:
    model = steady()
    spec = task(
        agents={name: agent() for name in model.answers if name != "main"},
        max_budget_usd=Decimal(5),
    )
    stage = manned({}, spec=spec)
    tools = all_tools([])
    stage.engine.tools = {tool.spec.name: tool for tool in tools}
    return with_crew(stage, model, tools)


def working_tools(ran: list[str]) -> tuple[FakeTool, ...]:
    async def work(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        ran.append(arguments["by"])
        await asyncio.sleep(1)
        return ToolOutput(content="ok")

    return tuple(
        replace(tool, work=work) if tool.name == "Bash" else tool for tool in set_of_tools()
    )


def all_tools(ran: list[str]) -> tuple[Tool, ...]:
    return (*working_tools(ran), AgentTool())


def resumed(stage: Stage, lines: int) -> tuple[Stage, list[str]]:
    """The session killed after so many lines, and run to its end; what ran after the kill."""
    ran: list[str] = []
    tools = all_tools(ran)
    again = go_on(stage, lines=lines, tools=tools)
    with_crew(again, steady(), tools)

    async def perform() -> None:
        await recover(again.engine)
        await again.run()

    run_virtual(perform())
    again.sink.records[:0] = stage.journal.records[:lines]
    return again, ran


def test_a_kill_after_any_line_is_gone_on_from() -> None:
    """Each sub-agent goes on with its own conversation: none is started twice, no command is run
    twice, and what comes back is what came back without the kill."""
    whole = play_out(steady_stage())
    check_books(whole)
    assert told(whole) == {
        "left": "left is done",
        "right": "right is done",
        "task_complete-1": "The task is marked complete.",
    }
    records = whole.journal.records
    for lines in range(5, len(records) - 1):
        stage, ran = resumed(whole, lines)
        check_books(stage)
        assert stage.ending is not None, lines
        assert exit_code(stage.ending) == 0, (lines, stage.ending)
        assert told(stage) == told(whole), lines
        began = [e.agent_name for e in stage.events(SubagentStarted)]
        assert sorted(began) == ["below", "left", "right"], lines
        assert len(stage.events(SubagentCompleted)) == 3
        before = [
            r.event.arguments["by"]
            for r in records[:lines]
            if isinstance(r.event, ToolExecutionStart) and r.event.tool_name == "Bash"
        ]
        assert sorted(before + ran) == ["below", "left", "right"], lines


def test_a_second_kill_is_gone_on_from_too() -> None:
    """Also when it comes while the first one is being recovered from."""
    whole = play_out(steady_stage())
    chance = random.Random(7)
    for _ in range(60):
        first, _ = resumed(whole, chance.randrange(5, len(whole.journal.records) - 1))
        cut = chance.randrange(5, len(first.journal.records) - 1)
        stage, _ = resumed(first, cut)
        check_books(stage)
        assert told(stage) == told(whole)


def test_a_call_of_a_sub_agent_in_flight_is_charged_as_reserved() -> None:
    """The kill comes while both models are asked: each call is paid, at its own reservation."""
    whole = play_out(steady_stage())
    starts = [
        n
        for n, r in enumerate(whole.journal.records, 1)
        if isinstance(r.event, AssistantTurnStart) and r.agent_id
    ]
    stage, _ = resumed(whole, starts[1])
    reserved = [
        r
        for r in stage.journal.records
        if isinstance(r.event, SessionUsageCheckpoint) and r.event.basis == "reserved"
    ]
    assert len({record.agent_id for record in reserved}) == 2


def test_unknown_outcomes_of_sub_agents_are_told_to_who_resumes() -> None:
    """`recover` names the commands that were running, wherever in the tree."""
    whole = play_out(steady_stage())
    lines = next(
        n
        for n, r in enumerate(whole.journal.records, 1)
        if isinstance(r.event, ToolExecutionStart) and r.event.tool_name == "Bash"
    )
    tools = all_tools([])
    again = with_crew(go_on(whole, lines=lines, tools=tools), steady(), tools)
    unknown = asyncio.run(recover(again.engine))
    assert len(unknown) == 1
    assert unknown[0].name == "Bash"


def test_a_session_that_goes_on_without_sub_agents_closes_them() -> None:
    """The tool is gone from the spec: the call is an error, and its sub-agent has failed."""
    whole = play_out(steady_stage())
    lines = next(
        n
        for n, r in enumerate(whole.journal.records, 1)
        if isinstance(r.event, SubagentStarted) and r.event.agent_name == "below"
    )
    stage = go_on(
        whole, lines=lines, tools=working_tools([]), spec=replace(whole.state.need, agents={})
    )
    stage.engine.offered = tuple(t for t in stage.engine.offered if t.name != "Agent")
    stage.engine.model = steady()
    stage.engine.crew = None

    async def perform() -> None:
        await recover(stage.engine)
        await stage.run()

    run_virtual(perform())
    check_books(stage)
    assert told(stage)["left"].startswith("error: there is no tool `Agent`")
    assert {e.reason for e in stage.events(SubagentFailed)} == {"cancelled"}


def test_a_stop_before_the_loop_closes_open_sub_agents() -> None:
    """A preflight that fails after a kill ends the run with its books in order."""
    whole = play_out(steady_stage())
    lines = next(
        n
        for n, r in enumerate(whole.journal.records, 1)
        if isinstance(r.event, SubagentStarted) and r.event.agent_name == "below"
    )
    tools = all_tools([])
    stage = with_crew(go_on(whole, lines=lines, tools=tools), steady(), tools)
    stage.engine.recorder.record(SessionError(error_type="preflight", message="no key"))
    play_out(stage)
    check_books(stage)
    errors = {e.agent_name: e.error for e in stage.events(SubagentFailed)}
    assert errors == dict.fromkeys(("left", "right", "below"), "The run was stopped")
