"""Sub-agents over fakes: what they see, what comes back, and how they end."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pytest

from runner.core.endings import exit_code
from runner.core.events import (
    SessionCompactionComplete,
    SessionWarning,
    SkillInvoked,
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
    ToolExecutionComplete,
)
from runner.core.hook_answers import HookRun
from runner.core.messages import ModelReply, ModelRequest, ToolResult, Usage, User
from runner.core.spec import AutoModeSpec, CompactionSpec, HookEvent, LimitsSpec
from runner.core.state import CLASSIFIER
from runner.ports import ModelError, ToolContext, ToolFailure, ToolOutput
from tests.crew import Cast, agent, check_books, manned, start, with_crew
from tests.fakes import Answer, FakeTool, barrier_work, call, done, reply
from tests.hooked import FakeHooks, hooks_of
from tests.logs import task
from tests.stage import Stage, go_on, play_out, set_of_tools


def cast(stage: Stage) -> Cast:
    assert isinstance(stage.engine.model, Cast)
    return stage.engine.model


def told(stage: Stage) -> dict[str, str]:
    """What the main loop was told about each of its calls, by call id."""
    results = (m for m in stage.state.main.messages if isinstance(m, ToolResult))
    return {r.call_id: ("error: " if r.is_error else "") + r.content for r in results}


def play(
    answers: Mapping[str, Iterable[Answer]],
    *,
    code: int = 0,
    deadline_s: float | None = None,
    hooks: Mapping[str, HookRun] | None = None,
    **parts: Any,
) -> Stage:
    """Play it to its end, which has this exit code; the books are right."""
    stage = manned(answers, **parts)
    if hooks is not None:
        stage.engine.hooks = FakeHooks(answers=hooks)
    play_out(stage, deadline_s)
    assert stage.ending is not None
    assert exit_code(stage.ending) == code, stage.ending
    check_books(stage)
    return stage


# -- one sub-agent ---------------------------------------------------------------------------------


def test_a_sub_agent_starts_anew_and_only_its_last_text_comes_back() -> None:
    """Row 116: its requests hold nothing of its parent, whose result is its final text alone."""
    stage = play(
        {
            "main": [reply("I ask.", start("scout", prompt="Find it.")), done()],
            "scout": [reply("Looking.", call("Read")), reply("It is in a.txt.")],
        }
    )
    first, second = cast(stage).requests("scout")
    assert (first.system, first.messages) == ("You are scout.", (User(text="Find it."),))
    assert [type(message).__name__ for message in second.messages] == [
        "User",
        "Assistant",
        "ToolResult",
    ]
    assert told(stage)["scout"] == "It is in a.txt."
    assert stage.result is not None
    assert (stage.result["num_llm_calls"], stage.result["num_turns"]) == (4, 2)
    assert stage.result["usage"]["input_tokens"] == 200
    assert stage.result["modelUsage"]["fake/model"]["inputTokens"] == 400


def test_everything_a_sub_agent_does_stands_under_its_own_id() -> None:
    """From its start to its end: prompt, turns, calls, permissions; and nothing of its parent."""
    spec = task(agents={"scout": agent()}, permission_mode="default", allowed_tools=("Bash",))
    stage = play(
        {
            "main": [reply("", start("scout")), done()],
            "scout": [reply("", call("Bash")), reply("Done.")],
        },
        spec=spec,
    )
    (begun,) = stage.events(SubagentStarted)
    assert (begun.agent_name, begun.agent_description, begun.turn_id, begun.parent_agent_id) == (
        "scout",
        "scout helps",
        "0",
        None,
    )
    ids = {record.agent_id for record in stage.journal.records} - {None}
    (own,) = ids
    assert [r.event.type for r in stage.journal.records if r.agent_id == own] == [
        "subagent.started",
        "system.message",
        "user.message",
        "assistant.turn_start",
        "session.usage_checkpoint",
        "assistant.message",
        "permission.requested",
        "permission.completed",
        "tool.execution_start",
        "tool.execution_complete",
        "assistant.turn_end",
        "assistant.turn_start",
        "session.usage_checkpoint",
        "assistant.message",
        "assistant.turn_end",
        "subagent.completed",
    ]
    (ended,) = stage.events(SubagentCompleted)
    assert (ended.total_tokens, ended.total_tool_calls) == (220, 1)


def test_a_sub_agent_has_neither_control_tools_nor_questions() -> None:
    """It is offered the tools of its parent, less those that are the main loop's alone."""
    spec = task(agents={"scout": agent()}, limits=LimitsSpec(max_subagent_depth=1))
    tools = lambda: (*set_of_tools(), FakeTool(name="AskUserQuestion"))  # noqa: E731
    stage = play(
        {"main": [reply("", start("scout")), done()], "scout": [reply("Yes.")]},
        spec=spec,
        tools=tools,
    )
    (asked,) = cast(stage).requests("scout")
    assert [tool.name for tool in asked.tools] == ["Read", "Glob", "Edit", "Bash", "TaskCreate"]


def test_a_call_a_sub_agent_is_not_offered_is_an_error_and_it_goes_on() -> None:
    """`task_complete`, and a tool its definition leaves out, are unknown to it."""
    stage = play(
        {
            "main": [reply("", start("scout")), done()],
            "scout": [reply("", call("Bash"), call("task_complete", summary="x")), reply("So.")],
        },
        spec=task(agents={"scout": agent(tools=("Read",))}),
    )
    codes = [e.error.code for e in stage.events(ToolExecutionComplete) if e.error]
    assert codes == ["unknown_tool", "unknown_tool"]
    assert told(stage)["scout"] == "So."


def test_its_own_model_effort_and_tools_reach_its_request() -> None:
    """Row 119: what its definition says is asked for; what it leaves out is its parent's."""
    spec = task(
        agents={"deep": agent(model="fake/other", effort="high"), "plain": agent()}, effort="low"
    )
    stage = play(
        {
            "main": [reply("", start("deep"), start("plain")), done()],
            "deep": [reply("a")],
            "plain": [reply("b")],
        },
        spec=spec,
    )
    (deep,), (plain,) = cast(stage).requests("deep"), cast(stage).requests("plain")
    assert (deep.model, deep.effort) == ("fake/other", "high")
    assert (plain.model, plain.effort) == ("fake/model", "low")
    assert stage.result is not None
    assert set(stage.result["modelUsage"]) == {"fake/model", "fake/other"}


def test_the_skills_of_an_agent_are_told_to_it_after_its_prompt() -> None:
    """In full, in their order, before it is asked for the first time; also over a kill."""
    stage = play({"main": [reply("", start("taught")), done()], "taught": [reply("ok")]})
    (asked,) = cast(stage).requests("taught")
    said = [User(text=text) for text in ("Look.", "How to walk.", "How to run.")]
    assert asked.messages == tuple(said)
    lines = [n for n, r in enumerate(stage.journal.records, 1) if isinstance(r.event, SkillInvoked)]
    for line in (lines[0] - 1, *lines):
        tools = tuple(stage.engine.tools.values())
        again = go_on(stage, lines=line, tools=tools)
        answers = {"main": [done()], "taught": [reply("ok")]}
        with_crew(again, Cast(answers=answers), tools)
        play_out(again)
        (asked,) = cast(again).requests("taught")
        assert asked.messages == tuple(said)


def test_an_unknown_agent_is_an_error_that_lists_those_there_are() -> None:
    """No sub-agent is started, and the model may choose again."""
    stage = play({"main": [reply("", start("nobody")), done()], "scout": []})
    assert told(stage)["nobody"] == (
        "error: there is no agent `nobody`; the agents are general-purpose, scout"
    )
    assert not stage.events(SubagentStarted)


def test_the_general_agent_is_always_there() -> None:
    """A call that names no agent gets it."""
    bare = call("Agent", "a", prompt="Look.")
    stage = play(
        {"main": [reply("", bare), done()], "general-purpose": [reply("Here.")]}, spec=task()
    )
    assert told(stage)["a"] == "Here."


# -- several ---------------------------------------------------------------------------------------


def test_the_sub_agents_of_one_reply_run_together_and_answer_in_order() -> None:
    """Each waits for the other in a tool; their results stand as they were asked for."""
    meeting = FakeTool(name="Read", read_only=True, kind="read", work=barrier_work(2))
    stage = play(
        {
            "main": [reply("", start("one"), start("two")), done()],
            "one": [reply("", call("Read")), reply("first")],
            "two": [reply("", call("Read")), reply("second")],
        },
        tools=lambda: (meeting,),
    )
    results = [m.content for m in stage.state.main.messages if isinstance(m, ToolResult)]
    assert results[:2] == ["first", "second"]


def test_only_one_agent_changes_something_at_a_time() -> None:
    """Reads of different sub-agents overlap; their edits and commands never do."""
    inside: dict[bool, int] = {True: 0, False: 0}
    most: dict[bool, int] = {True: 0, False: 0}

    def work_of(reads: bool) -> Any:
        async def work(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            inside[reads] += 1
            most[reads] = max(most[reads], inside[reads])
            await asyncio.sleep(1)
            inside[reads] -= 1
            return ToolOutput(content="ok")

        return work

    tools = (
        FakeTool(name="Read", read_only=True, kind="read", work=work_of(True)),
        FakeTool(name="Bash", kind="shell", work=work_of(False)),
        FakeTool(name="Edit", kind="write", work=work_of(False)),
    )
    names = ("a", "b", "c")
    busy = [reply("", call("Read")), reply("", call("Bash"), call("Edit")), reply("ok")]
    play(
        {"main": [reply("", *map(start, names)), done()], **{name: list(busy) for name in names}},
        tools=lambda: tools,
    )
    assert most == {True: 3, False: 1}


def test_whole_outputs_of_different_agents_are_different_files() -> None:
    """What a tool calls its file by is each call's own, though turns are counted by agent."""
    ids: list[str] = []

    async def work(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        ids.append(context.call_id)
        return ToolOutput(content="ok")

    play(
        {
            "main": [reply("", call("Bash")), reply("", start("scout")), done()],
            "scout": [reply("", call("Bash")), reply("ok")],
        },
        tools=lambda: (FakeTool(name="Bash", kind="shell", work=work),),
    )
    assert ids[0] == "0-0"
    assert ids[1].endswith("-0-0")
    assert len(set(ids)) == 2


def test_sub_agents_may_start_sub_agents() -> None:
    """The parent is recorded, and each gets what the one below it said last."""
    stage = play(
        {
            "main": [reply("", start("upper")), done()],
            "upper": [reply("", start("lower")), reply("lower says: x")],
            "lower": [reply("x")],
        }
    )
    upper, lower = stage.events(SubagentStarted)
    ids = {
        r.event.agent_name: r.agent_id
        for r in stage.journal.records
        if isinstance(r.event, SubagentStarted)
    }
    assert (upper.parent_agent_id, lower.parent_agent_id) == (None, ids["upper"])
    assert told(stage)["upper"] == "lower says: x"


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_depth_cap_is_exact(most: int) -> None:
    """BUD17: as deep as the cap says works, and there Agent is not offered any more."""
    names = [f"d{number}" for number in range(1, most + 2)]
    answers: dict[str, Iterable[Answer]] = {"main": [reply("", start("d1")), done()]}
    for name, below in itertools.pairwise(names):
        answers[name] = [reply("", start(below)), reply(name)]
    spec = task(
        agents={name: agent() for name in names}, limits=LimitsSpec(max_subagent_depth=most)
    )
    stage = play(answers, spec=spec)
    assert len(stage.events(SubagentStarted)) == most
    refused = [e for e in stage.events(ToolExecutionComplete) if e.error]
    assert [(e.tool_name, e.error.code) for e in refused] == [("Agent", "unknown_tool")]
    offers = [{tool.name for tool in r.tools} for name, r in cast(stage).asked if name != "main"]
    assert ["Agent" in offer for offer in offers[:most]] == [True] * (most - 1) + [False]


@pytest.mark.parametrize("wanted", [2, 3, 4])
def test_the_count_cap_is_exact(wanted: int) -> None:
    """BUD17: three at once are allowed; one more is an error result, and the run goes on."""
    names = [f"a{number}" for number in range(wanted)]

    async def slow(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(1)
        return reply("ok")

    stage = play(
        {
            "main": [reply("", *map(start, names)), reply("", start("a0", "late")), done()],
            **{name: [slow, slow] for name in names},
        },
        spec=task(agents={name: agent() for name in names}, limits=LimitsSpec(max_subagents=3)),
    )
    heard = told(stage)
    assert sum(heard[name] == "ok" for name in names) == min(wanted, 3)
    refused = [heard[name] for name in names if heard[name] != "ok"]
    assert len(refused) == max(wanted - 3, 0)
    assert all("`limits.max_subagents`" in text for text in refused)
    assert heard["late"] == "ok"


# -- endings ---------------------------------------------------------------------------------------

BROKEN = reply("", call("Nothing"))


@pytest.mark.parametrize(
    ("changes", "answers", "reason", "words"),
    [
        (
            {"max_turns": 1},
            [reply("I begin.", call("Read")), reply("More.", call("Read"))],
            "error_max_turns",
            "Reached maximum number of turns (1)",
        ),
        ({}, [ModelError("authentication", "no key")], "authentication", "no key"),
        (
            {},
            [reply("", call("Read")), ModelError("provider_unavailable", "down")],
            "provider_unavailable",
            "down",
        ),
        ({}, [BROKEN, BROKEN, BROKEN], "malformed_replies", "3 malformed replies"),
        ({}, [reply("No.", finish_reason="content_filter")], "refusal", "refused"),
        ({}, [reply("")], "malformed_replies", "without a word"),
    ],
)
def test_a_sub_agent_that_does_not_finish_is_an_error_for_its_parent(
    changes: dict[str, Any], answers: list[Answer], reason: str, words: str
) -> None:
    """Never a success: the reason is told and recorded, and the parent goes on."""
    stage = play(
        {"main": [reply("", start("scout")), done()], "scout": answers},
        spec=task(agents={"scout": agent(**changes)}),
    )
    (failed,) = stage.events(SubagentFailed)
    assert failed.reason == reason
    assert words in failed.error
    assert told(stage)["scout"].startswith("error: scout: ")
    assert words in told(stage)["scout"]
    assert not stage.events(SubagentCompleted)


def test_the_parent_is_told_how_far_a_failed_sub_agent_had_come() -> None:
    """What it said last stands beside the reason."""
    stage = play(
        {
            "main": [reply("", start("scout")), done()],
            "scout": [reply("Half is done.", call("Read")), ModelError("quota", "no credit")],
        }
    )
    assert told(stage)["scout"] == "error: scout: no credit\n\nHalf is done."


def test_a_fallback_is_the_sub_agents_own() -> None:
    """It goes on with the spare model; its parent is still asked as before."""
    busy = ModelError("provider_unavailable", "busy")
    stage = play(
        {
            "main": [reply("", start("scout")), done()],
            "scout": [busy, reply("", call("Read")), reply("ok")],
        },
        spec=task(agents={"scout": agent()}, fallback_models=("fake/spare",)),
    )
    asked = [(who, request.model) for who, request in cast(stage).asked]
    assert asked == [
        ("main", "fake/model"),
        ("scout", "fake/model"),
        ("scout", "fake/spare"),
        ("scout", "fake/spare"),
        ("main", "fake/model"),
    ]
    assert stage.state.attempts_over == {"fake/model": 3, "fake/spare": 2}
    (change,) = [r for r in stage.journal.records if r.event.type == "session.model_change"]
    assert change.agent_id is not None


def test_an_answer_that_was_cut_off_says_so() -> None:
    """A reply at its output limit is handed on with a mark."""
    stage = play(
        {
            "main": [reply("", start("scout")), done()],
            "scout": [reply("One, two,", finish_reason="length")],
        }
    )
    assert told(stage)["scout"].endswith("[cut off here: the reply reached its output limit]")


def test_the_cap_of_a_parent_counts_for_each_sub_agent_by_itself() -> None:
    """Without a cap of its own a sub-agent has the one of its parent, which it does not use up."""
    stage = play(
        {
            "main": [reply("", start("scout")), reply("", call("Read")), done()],
            "scout": [reply("", call("Read")), reply("", call("Read")), reply("ok")],
        },
        spec=task(agents={"scout": agent()}, max_turns=2),
    )
    assert told(stage)["scout"] == "ok"


def test_a_denial_counts_for_the_whole_run() -> None:
    """What a sub-agent was denied stands in the result, and `on_denied: fail` sees it."""
    stage = play(
        {
            "main": [reply("", start("scout")), done()],
            "scout": [reply("", call("Bash")), reply("not allowed")],
        },
        spec=task(agents={"scout": agent()}, permission_mode="default", on_denied="fail"),
        code=10,
    )
    assert [one["tool_name"] for one in stage.state.denials] == ["Bash"]


def test_a_failing_tool_of_a_sub_agent_is_its_own_affair() -> None:
    """It hears the error and goes on."""

    async def fails(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        raise ToolFailure("no such file")

    stage = play(
        {
            "main": [reply("", start("scout")), done()],
            "scout": [reply("", call("Read")), reply("There is none.")],
        },
        tools=lambda: (FakeTool(name="Read", read_only=True, kind="read", work=fails),),
    )
    assert told(stage)["scout"] == "There is none."


# -- hooks -----------------------------------------------------------------------------------------

SAYS_HI = HookRun(
    exit_code=0, stdout='{"hookSpecificOutput": {"additionalContext": "Mind the gap."}}'
)
BLOCKS = HookRun(exit_code=0, stdout='{"decision": "block", "reason": "Look again."}')


def told_hooks(stage: Stage, command: str) -> list[Mapping[str, Any]]:
    """What one hook was told, each time."""
    assert isinstance(stage.engine.hooks, FakeHooks)
    return [payload for name, payload, _ in stage.engine.hooks.told if name == command]


def test_what_a_hook_of_the_start_adds_is_told_to_the_sub_agent() -> None:
    """Row 110: it matches on the kind of agent, and stands in the sub-agent's conversation."""
    spec = task(
        agents={"scout": agent(), "other": agent()},
        hooks=hooks_of("SubagentStart", "hello", matcher="scout"),
    )
    stage = play(
        {
            "main": [reply("", start("scout"), start("other")), done()],
            "scout": [reply("a")],
            "other": [reply("b")],
        },
        spec=spec,
        hooks={"hello": SAYS_HI},
    )
    (scout,), (other,) = cast(stage).requests("scout"), cast(stage).requests("other")
    assert [m.text for m in scout.messages if isinstance(m, User)] == ["Look.", "Mind the gap."]
    assert [m.text for m in other.messages if isinstance(m, User)] == ["Look."]
    (payload,) = told_hooks(stage, "hello")
    (own,) = {r.agent_id for r in stage.journal.records if r.event.type == "hook.end"}
    assert (payload["agent_type"], payload["agent_id"]) == ("scout", own)


def test_a_hook_of_the_stop_keeps_a_sub_agent_at_work_eight_times_at_most() -> None:
    """Its reason is what the sub-agent hears; after that its answer stands, with a warning."""
    spec = task(agents={"scout": agent()}, hooks=hooks_of("SubagentStop", "no"))
    stage = play(
        {
            "main": [reply("", start("scout")), done()],
            "scout": [reply(f"answer {number}") for number in range(9)],
        },
        spec=spec,
        hooks={"no": BLOCKS},
    )
    assert told(stage)["scout"] == "answer 8"
    heard = told_hooks(stage, "no")
    assert [p["stop_hook_active"] for p in heard] == [False] + [True] * 8
    assert [p["last_assistant_message"] for p in heard] == [f"answer {n}" for n in range(9)]
    warnings = [e.message for e in stage.events(SessionWarning)]
    assert warnings == ["SubagentStop hooks blocked 8 times in a row; this is ignored: Look again."]


def test_the_stop_hooks_of_the_run_are_not_asked_about_sub_agents() -> None:
    """They are about the end of the task."""
    spec = task(agents={"scout": agent()}, hooks=hooks_of("Stop", "end"))
    stage = play(
        {"main": [reply("", start("scout")), done()], "scout": [reply("a")]}, spec=spec, hooks={}
    )
    assert len(told_hooks(stage, "end")) == 1
    assert "agent_id" not in told_hooks(stage, "end")[0]


def test_a_hook_of_a_call_is_told_whose_call_it_is() -> None:
    """Agent and kind of agent stand in the payload of a sub-agent's call, and of no other."""
    both = {**hooks_of("PreToolUse", "pre"), **hooks_of("PostToolUse", "post")}
    stage = play(
        {
            "main": [reply("", call("Bash"), start("scout")), done()],
            "scout": [reply("", call("Bash")), reply("a")],
        },
        spec=task(agents={"scout": agent()}, hooks=both),
        hooks={},
    )
    for command in ("pre", "post"):
        kinds = [(p["tool_name"], p.get("agent_type")) for p in told_hooks(stage, command)]
        assert sorted(kinds, key=str) == [("Agent", None), ("Bash", "scout"), ("Bash", None)]


@pytest.mark.parametrize("event", ["SubagentStart", "PreToolUse", "SubagentStop"])
def test_a_hook_that_stops_the_run_stops_it_from_within_a_sub_agent(event: HookEvent) -> None:
    """`continue: false` ends the run, and every agent in it."""
    spec = task(agents={"scout": agent()}, hooks=hooks_of(event, "halt", matcher="scout|Bash"))
    stage = play(
        {
            "main": [reply("", start("scout"))],
            "scout": [reply("", call("Bash")), reply("a")],
        },
        spec=spec,
        hooks={"halt": HookRun(exit_code=0, stdout='{"continue": false, "stopReason": "enough"}')},
        code=1,
    )
    assert stage.ending is not None
    assert stage.ending.error_type == "hook_stopped"


def test_a_hook_that_stops_the_run_ends_what_other_sub_agents_do() -> None:
    """A command of another one is stopped, though nothing was wrong with it."""
    alive: list[str] = []

    async def sleeps(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        alive.append("begun")
        try:
            await asyncio.sleep(10_000)
        finally:
            alive.append("stopped")
        return ToolOutput(content="ok")

    async def late(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(5)
        return reply("", call("Edit", file_path="a"))

    tools = (
        FakeTool(name="Bash", kind="shell", work=sleeps),
        FakeTool(name="Edit", kind="write"),
    )
    names = ("scout", "other")
    stage = play(
        {
            "main": [reply("", *map(start, names))],
            "scout": [late],
            "other": [reply("", call("Bash"))],
        },
        spec=task(
            agents={name: agent() for name in names},
            hooks=hooks_of("PreToolUse", "halt", matcher="Edit"),
        ),
        tools=lambda: tools,
        hooks={"halt": HookRun(exit_code=0, stdout='{"continue": false, "stopReason": "enough"}')},
        code=1,
    )
    assert alive == ["begun", "stopped"]
    assert {e.agent_name: e.reason for e in stage.events(SubagentFailed)} == {
        "scout": "hook_stopped",
        "other": "cancelled",
    }


def test_a_warning_about_a_hook_of_a_sub_agent_is_the_sub_agents() -> None:
    """A hook that fails is named under the agent whose call it was about."""
    stage = play(
        {
            "main": [reply("", start("scout")), done()],
            "scout": [reply("", call("Bash")), reply("a")],
        },
        spec=task(agents={"scout": agent()}, hooks=hooks_of("PreToolUse", "pre", matcher="Bash")),
        hooks={"pre": HookRun(exit_code=1, stderr="oops")},
    )
    (warning,) = [r for r in stage.journal.records if isinstance(r.event, SessionWarning)]
    assert warning.agent_id is not None


# -- compaction and mode auto ----------------------------------------------------------------------


def test_the_conversation_of_a_sub_agent_is_compacted_by_itself() -> None:
    """Its summary holds what it was asked, not the task of the run; its parent keeps everything."""

    async def long(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(content="x" * 4_000)

    def reads(tokens: int, number: int) -> ModelReply:
        usage = Usage(input_tokens=tokens, output_tokens=10)
        return reply("", call("Read", f"read-{number}"), usage=usage)

    filling = [reads(tokens, n) for n, tokens in enumerate((5_000, 11_000, 16_500))]
    stage = play(
        {
            "main": [reply("", start("scout", prompt="Read it all.")), done()],
            "scout": [*filling, reply("All was read."), reply("It is fine.")],
        },
        spec=task(agents={"scout": agent()}, compaction=CompactionSpec(window=20_000)),
        tools=lambda: (FakeTool(name="Read", read_only=True, kind="read", work=long),),
    )
    (made,) = [r for r in stage.journal.records if isinstance(r.event, SessionCompactionComplete)]
    assert made.agent_id is not None
    last = cast(stage).requests("scout")[-1]
    assert last.messages[0] == User(text="Task: Read it all. Summary: All was read.")
    assert stage.state.main.summary is None
    assert told(stage)["scout"] == "It is fine."
    assert stage.state.attempts_over == {"fake/model": 7}


def test_a_prompt_that_looks_like_a_command_is_a_prompt() -> None:
    """`/compact` asks nothing special of a sub-agent."""
    stage = play(
        {
            "main": [reply("", start("scout", prompt="/compact all")), done()],
            "scout": [reply("What is to be compacted?")],
        }
    )
    assert told(stage)["scout"] == "What is to be compacted?"


def test_mode_auto_judges_one_call_at_a_time_whoever_makes_it() -> None:
    """Two sub-agents ask at once about calls of the same id: each gets the answer to its own."""
    names = ("good", "bad")

    async def judge(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(1)
        told = str(request.messages)
        decision = "allow" if "good-thing" in told else "deny"
        return reply(json.dumps({"decision": decision, "reason": "so it is"}))

    spec = task(
        agents={name: agent() for name in names},
        permission_mode="auto",
        auto_mode=AutoModeSpec(model="fake/judge", instructions="You are judge."),
        max_budget_usd=Decimal(1),
    )
    does = {n: [reply("", call("Bash", "same-id", thing=f"{n}-thing")), reply(n)] for n in names}
    main = [reply("", *map(start, names)), done()]
    stage = play({"main": main, "judge": [judge, judge], **does}, spec=spec)
    named = {
        r.agent_id: r.event.agent_name
        for r in stage.journal.records
        if isinstance(r.event, SubagentStarted)
    }
    ran = {
        named[r.agent_id]: r.event.error is None
        for r in stage.journal.records
        if isinstance(r.event, ToolExecutionComplete) and r.event.tool_name == "Bash"
    }
    assert ran == {"good": True, "bad": False}
    asked = [r.event.type for r in stage.journal.records if r.agent_id == CLASSIFIER]
    question = ["turn_start", "session.usage_checkpoint", "message", "turn_end"]
    assert [kind.removeprefix("assistant.") for kind in asked] == question * 2
