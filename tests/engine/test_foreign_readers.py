"""Other people's parsers read our logs and streams: those of the Copilot and Claude SDKs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk._internal.message_parser import parse_message
from claude_agent_sdk.types import (
    AssistantMessage,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ToolUseBlock,
)
from copilot.generated.session_events import SessionEvent, SessionEventType

from runner.core.events import (
    EPHEMERAL_TYPES,
    PERSISTED_TYPES,
    RunnerLogRecovered,
    RunnerProtection,
    SessionInfo,
    SkillInvoked,
    ToolExecutionStart,
    ToolSearchActivated,
    to_json,
)
from runner.core.hook_answers import HookRun
from runner.core.messages import ReasoningBlock, Usage
from runner.core.spec import CompactionSpec, VerifySpec
from runner.core.views import ClaudeView
from runner.engine.engine import Bench
from runner.engine.loop import Interruption
from runner.engine.recover import recover
from runner.ports import ModelError, ToolContext, ToolDenied, ToolFailure, ToolOutput
from tests.crew import manned, start
from tests.fakes import Answer, FakeSandbox, FakeTool, RetryUpTo, call, done, reply
from tests.hooked import FakeHooks, hooks_of
from tests.logs import task
from tests.stage import Stage, go_on, play_out, set_of_tools, set_stage
from tests.virtual_time import run_virtual

BUSY = ModelError("rate_limit", "busy", retryable=True, status_code=429, may_bill=True)
ONE_NANO = Decimal("0.000000001")
GONE = ModelError("provider_unavailable", "connection refused")


async def talk(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    context.on_progress("half way")
    context.on_status("1 of 2")
    await asyncio.sleep(40)
    return ToolOutput(content="ok", details="- a\n+ b")


async def fail(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    raise ToolFailure("no such file")


async def refuse(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    raise ToolDenied("outside the roots")


async def load(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    fact = SkillInvoked(
        name="tidy",
        path="/w/.claude/skills/tidy/SKILL.md",
        content="Sort.",
        trigger="agent-invoked",
        description="Tidies up.",
        source="project",
        allowed_tools=("Read",),
    )
    return ToolOutput(content="Sort.", facts=(fact,))


async def search(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    fact = ToolSearchActivated(strategy="select", tool_names=("mcp__docs__find",))
    return ToolOutput(content="{}", facts=(fact,))


def good_run() -> Stage:
    """Everything that can happen in a run that ends well."""
    tools = (
        FakeTool(name="Bash", kind="shell", work=talk),
        FakeTool(name="Edit", kind="write", work=fail),
        FakeTool(name="Read", kind="read", read_only=True, work=refuse),
        FakeTool(name="Skill", required=("skill",), work=load),
        *set_of_tools()[4:],
    )
    calls = [call(name) for name in ("Bash", "Edit", "Read", "TaskCreate", "Nope")]
    calls.append(call("Skill", skill="tidy"))
    said = reply("look", *calls, reasoning=(ReasoningBlock(text="hm", signature="s"),))
    unsigned = reply("half", reasoning=(ReasoningBlock(text="hm"),))
    answers: list[Answer] = [BUSY, said, unsigned, done()]
    stage = set_stage(answers, tools=tools, retry=RetryUpTo(attempts=2))
    stage.engine.recorder.record(SessionInfo(info_type="notification", message="hello"))
    return play_out(stage)


def denied_run() -> Stage:
    """Every kind of call, with nothing allowed."""
    spec = task(permission_mode="default", disallowed_tools=("Read", "Glob", "TaskCreate"))
    calls = [call(tool.name, file_path="a") for tool in set_of_tools()]
    blocked = call("task_blocked", reason="nothing is allowed")
    return play_out(set_stage([reply("", *calls), reply("", blocked)], spec=spec))


def failed_run() -> Stage:
    """The provider is down, and so is the one that takes over."""
    return play_out(set_stage([GONE, GONE], spec=task(fallback_models=("fake/spare",))))


def capped_run() -> Stage:
    """The turn cap ends it."""
    turns = [reply("", call("Read"))] * 2
    return play_out(set_stage(turns, spec=task(max_turns=1)))


def unpaid_run() -> Stage:
    """The budget does not pay for one call."""
    return play_out(set_stage([], spec=task(max_budget_usd=ONE_NANO)))


def cancelled_run() -> Stage:
    """A signal stops it in a tool."""
    stage = set_stage([reply("", call("Bash"))], tools=(FakeTool(name="Bash", work=talk),))
    stage.interruption = Interruption(cause="SIGTERM")

    async def run() -> None:
        running = asyncio.current_task()
        assert running is not None
        asyncio.get_running_loop().call_later(5, running.cancel)
        await stage.run()

    run_virtual(run())
    return stage


def resumed_run() -> Stage:
    """A kill in a command, a torn line, and a run that goes on; only this one is shown."""
    killed = play_out(set_stage([reply("", call("Bash"), call("Edit", file_path="a")), done()]))
    in_bash = next(
        line
        for line, record in enumerate(killed.journal.records, start=1)
        if isinstance(record.event, ToolExecutionStart)
    )
    stage = go_on(killed, lines=in_bash, answers=[reply("half"), done()])
    torn = RunnerLogRecovered(offset=10, torn_bytes=3, torn_file="torn/10")
    stage.engine.recorder.record(torn)
    run_virtual(recover(stage.engine))
    return play_out(stage)


def checked_run() -> Stage:
    """The check fails once, then passes."""
    spec = task(verify=(VerifySpec(run="make test"),))
    stage = set_stage([done(), done()], spec=spec)
    sandbox = FakeSandbox(exit_codes=[1, 0])
    stage.engine.bench = Bench(sandbox=sandbox, workspace=Path("/work"), env={})
    return play_out(stage)


def guarded_run() -> Stage:
    """An answer as an object, and paths that nobody may change."""
    stage = set_stage(
        [reply("", call("StructuredOutput", a=1)), done()],
        spec=task(output_schema={"type": "object"}),
    )
    stage.engine.recorder.record(RunnerProtection(entries={"check.sh": "file 0755 00"}))

    async def errors(schema: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    stage.engine.output_errors = errors
    return play_out(stage)


def compacted_run() -> Stage:
    """The window fills up: a summary that is none, one that stands, and a message to cut."""

    async def fill(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(content="x" * 9_000)

    spec = task(compaction=CompactionSpec(window=8_000))
    look = [reply("", call("Read", f"r{n}"), usage=Usage(input_tokens=6_900)) for n in range(2)]
    answers: list[Answer] = [*look, reply(""), reply("All was read."), done()]
    return play_out(set_stage(answers, spec=spec, tools=(FakeTool(name="Read", work=fill),)))


def hooked_run() -> Stage:
    """Hooks that deny, add, fail, and are cut short."""
    hooks = {**hooks_of("PreToolUse", "no", matcher="Bash"), **hooks_of("PostToolUse", "more")}
    answers = {
        "no": HookRun(exit_code=2, stderr="not today"),
        "more": HookRun(exit_code=1, stderr="out of luck"),
    }
    stage = set_stage([reply("", call("Bash"), call("Read")), done()], spec=task(hooks=hooks))
    stage.engine.hooks = FakeHooks(answers=answers)
    return play_out(stage)


def crowded_run() -> Stage:
    """Two sub-agents, of which one fails."""
    return play_out(
        manned(
            {
                "main": [reply("", start("good"), start("bad")), done()],
                "good": [reply("look", call("Bash")), reply("found")],
                "bad": [ModelError("quota", "no credit", status_code=402)],
            }
        )
    )


def searching_run() -> Stage:
    """A tool of a server is called once it is loaded."""
    tools = (
        FakeTool(name="ToolSearch", required=("query",), work=search),
        FakeTool(name="mcp__docs__find"),
    )
    look = call("ToolSearch", query="select:mcp__docs__find")
    answers = [reply("", look), reply("", call("mcp__docs__find")), done()]
    return play_out(set_stage(answers, tools=tools))


RUNS = (
    good_run,
    denied_run,
    failed_run,
    capped_run,
    unpaid_run,
    cancelled_run,
    resumed_run,
    checked_run,
    guarded_run,
    hooked_run,
    compacted_run,
    crowded_run,
    searching_run,
)


def everything_shown(stage: Stage) -> list[dict[str, Any]]:
    """Every record of the stream as the JSON a reader gets."""
    return [json.loads(json.dumps(to_json(record))) for record in stage.sink.records]


@pytest.mark.parametrize("run", RUNS)
def test_the_copilot_sdk_reads_every_line(run: Any) -> None:
    """Its generated classes parse the log and the stream, and know every type but `runner.*`."""
    for line in everything_shown(run()):
        event = SessionEvent.from_dict(line)
        ours = line["type"].startswith("runner.")
        assert (event.type is SessionEventType.UNKNOWN) == ours, line["type"]


def test_these_runs_hold_every_type_there_is() -> None:
    """No event class is left out of what the SDK was shown."""
    shown = {line["type"] for run in RUNS for line in everything_shown(run())}
    assert shown == {*PERSISTED_TYPES, *EPHEMERAL_TYPES}


@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize("run", RUNS)
def test_the_claude_sdk_reads_every_message(run: Any, partial: bool) -> None:
    """Its parser knows every message, init first, stream events on request, the result last."""
    stage = run()
    view = ClaudeView(partial=partial)
    messages = [m for record in stage.sink.records for m in view.feed(record)]
    messages = json.loads(json.dumps([*messages, stage.result]))
    parsed = [parse_message(message) for message in messages]
    assert None not in parsed
    assert messages[0]["subtype"] == "init"
    assert partial or not any(isinstance(message, StreamEvent) for message in parsed)
    last = parsed[-1]
    assert isinstance(last, ResultMessage)
    assert (last.subtype, last.session_id) == (stage.result["subtype"], "session-1")


def test_stream_events_add_up_to_the_messages_they_announce() -> None:
    """As the Claude SDK reads them: the text and each call's input, whole, under the same ids."""
    stage = good_run()
    view = ClaudeView(partial=True)
    shown = [m for record in stage.sink.records for m in view.feed(record)]
    parsed = [parse_message(message) for message in json.loads(json.dumps(shown))]
    events = [message.event for message in parsed if isinstance(message, StreamEvent)]
    whole = [message for message in parsed if isinstance(message, AssistantMessage)]
    begun = [event["message"]["id"] for event in events if event["type"] == "message_start"]
    assert begun == [message.message_id for message in whole]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    blocks = [block for message in whole for block in message.content]
    inputs = [json.loads(d["partial_json"]) for d in deltas if d["type"] == "input_json_delta"]
    assert inputs == [block.input for block in blocks if isinstance(block, ToolUseBlock)]
    said = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    assert "".join(delta.get("text", "") for delta in deltas) == said
    reasons = [e["delta"]["stop_reason"] for e in events if e["type"] == "message_delta"]
    assert reasons == [message.stop_reason for message in whole]


def test_the_copilot_classes_keep_what_they_read() -> None:
    """Nothing that the SDK's classes model is lost when a line goes through them."""
    lines = [line for line in everything_shown(good_run()) if "runner." not in line["type"]]
    for line in lines:
        kept = SessionEvent.from_dict(line).to_dict()["data"]
        kept.pop("startTime", None)  # the same moment in other characters
        assert part_of(kept, line["data"]) == kept, line["type"]


def part_of(kept: Any, ours: Any) -> Any:
    """Ours without the keys the other side does not know."""
    if isinstance(kept, dict) and isinstance(ours, dict):
        return {key: part_of(value, ours.get(key)) for key, value in kept.items()}
    if isinstance(kept, list) and isinstance(ours, list):
        return [part_of(*pair) for pair in zip(kept, ours, strict=True)]
    return ours
