"""Claude's messages, read from the records of a run."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from runner.core.events import (
    Abort,
    AbortCause,
    AssistantMessage,
    AssistantMessageDelta,
    AssistantReasoningDelta,
    Event,
    HookStart,
    ModelCallFailure,
    PermissionCompleted,
    PermissionRequested,
    RunnerPreflight,
    SessionCompactionComplete,
    SessionInfo,
    SessionUsageCheckpoint,
    SessionWarning,
    SubagentStarted,
    ToolContent,
    ToolExecutionComplete,
    ToolListing,
    ToolRequest,
    UserMessage,
)
from runner.core.messages import ModelReply, ReasoningBlock
from runner.core.spec import AgentSpec, HookEvent
from runner.core.state import CLASSIFIER, MAIN
from runner.core.views import ClaudeView
from tests.fakes import call, reply
from tests.logs import MODEL, Log, task

READ = call("Read", file_path="a")
Message = dict[str, Any]


def bare(message: Message) -> Message:
    """A message without its ids."""
    return {key: value for key, value in message.items() if key not in ("uuid", "session_id")}


def view(log: Log, *, partial: bool = False) -> list[Message]:
    """The messages of a whole log, without their ids."""
    claude = ClaudeView(partial=partial)
    return [bare(message) for record in log.journal.records for message in claude.feed(record)]


def after_init(log: Log) -> list[Message]:
    return view(log)[1:]


def shown(*events: Event, partial: bool = True, said: ModelReply | None = None) -> list[Message]:
    """The messages of ephemeral events in an open turn, and of the reply after them if any."""
    log = Log().turn().paid()
    claude = ClaudeView(partial=partial)
    for record in log.journal.records:
        claude.feed(record)
    messages = [m for event in events for m in claude.feed(log.journal.stamp(event))]
    if said is not None:
        messages += claude.feed(log.hears(said).journal.records[-1])
    return [bare(message) for message in messages]


def text(piece: str) -> AssistantMessageDelta:
    return AssistantMessageDelta(message_id="m", delta_content=piece)


def thought(piece: str) -> AssistantReasoningDelta:
    return AssistantReasoningDelta(reasoning_id="m", delta_content=piece)


def test_init_comes_first_and_holds_what_was_found() -> None:
    """Session, model, tools, folder and mode are in it."""
    assert view(Log(task(permission_mode="acceptEdits"))) == [
        {
            "type": "system",
            "subtype": "init",
            "cwd": "/work",
            "tools": ["Read", "Glob", "Grep"],
            "mcp_servers": [],
            "model": MODEL,
            "permissionMode": "acceptEdits",
            "apiKeySource": "none",
            "claude_code_version": "0.1.0",
            "slash_commands": [],
            "output_style": "default",
            "skills": [],
            "plugins": [],
            "agents": [],
        }
    ]


def test_what_came_before_init_comes_right_after_it() -> None:
    """A warning of the start-up is held back, not lost."""
    log = Log()
    start, spec, found, *_ = log.journal.records
    warning = log.journal.stamp(SessionWarning(warning_type="no_diff", message="no git"))
    claude = ClaudeView()
    fed = [claude.feed(record) for record in (start, spec, warning, found, warning)]
    kinds = [[message["subtype"] for message in messages] for messages in fed]
    assert kinds == [[], [], [], ["init", "informational"], ["informational"]]


def test_every_message_carries_the_session_and_the_id_of_its_record() -> None:
    """Both ids are on a message of every kind."""
    log = Log().reply(reply("hello", READ)).runs(READ).settle()
    claude = ClaudeView()
    for record in log.journal.records:
        for message in claude.feed(record):
            ids = (message["uuid"], message["session_id"])
            assert ids == (record.id, "session-1")


def test_ids_are_there_before_the_session_is_known() -> None:
    """The session id is empty when a log does not start with its session."""
    log = Log()
    (message,) = ClaudeView().feed(log.journal.records[2])
    assert (message["session_id"], message["model"]) == ("", "")


def test_a_reply_is_an_assistant_message_with_its_blocks() -> None:
    """Text and calls are blocks, and the usage of the call is with them."""
    (message,) = after_init(Log().reply(reply("hello", READ)))
    assert message == {
        "type": "assistant",
        "message": {
            "id": "message-0",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [
                {"type": "text", "text": "hello"},
                {"type": "tool_use", "id": "Read-1", "name": "Read", "input": {"file_path": "a"}},
            ],
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 100,
                "output_tokens": 0,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
            },
        },
        "parent_tool_use_id": None,
    }


def test_reasoning_is_a_thinking_block_with_a_signature() -> None:
    """The signature is empty, not absent, when the provider gave none."""
    blocks = (ReasoningBlock(text="hm", signature="s"), ReasoningBlock(text="so"))
    (message,) = after_init(Log().reply(reply("hello", reasoning=blocks)))
    assert message["message"]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "thinking", "thinking": "so", "signature": ""},
        {"type": "text", "text": "hello"},
    ]


@pytest.mark.parametrize("good", [True, False])
def test_a_result_is_a_user_message_that_names_its_call(good: bool) -> None:
    """Content or error, joined by the id of the call."""
    log = Log().reply(reply("", READ)).runs(READ, code=None if good else "failed")
    assert after_init(log)[-1] == {
        "type": "user",
        "message": {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "Read-1",
                    "content": "ok" if good else "failed",
                    "is_error": not good,
                }
            ],
        },
        "parent_tool_use_id": None,
    }


def test_a_nudge_is_a_synthetic_user_message() -> None:
    """It is marked as the runner's own; the prompt is not repeated."""
    assert after_init(Log().reply(reply("half")).settle())[-1] == {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "text", "text": "Not yet marked complete."}],
        },
        "parent_tool_use_id": None,
        "isSynthetic": True,
        "origin": {"kind": "auto-continuation"},
    }


def test_a_denial_names_tool_call_and_reason() -> None:
    """The tool is that of the call, whatever the kind of the request; an approval is no news."""
    log = Log().reply(reply("", READ))
    for kind in ("approved", "denied-by-rules"):
        log.add(
            PermissionRequested(request_id="r", permission_request={"kind": "read"}),
            PermissionCompleted(
                request_id="r", tool_call_id="Read-1", result={"kind": kind}, reason="rule `Read`"
            ),
        )
    assert after_init(log)[1:] == [
        {
            "type": "system",
            "subtype": "permission_denied",
            "tool_name": "Read",
            "tool_use_id": "Read-1",
            "decision_reason_type": "rule",
            "decision_reason": "rule `Read`",
            "message": "rule `Read`",
        }
    ]


def test_notes_are_banners_with_their_level() -> None:
    """A warning and a piece of information are shown as text."""
    log = Log().add(
        SessionWarning(warning_type="x", message="careful"),
        SessionInfo(info_type="x", message="by the way"),
    )
    assert after_init(log) == [
        {"type": "system", "subtype": "informational", "content": c, "level": level}
        for c, level in (("careful", "warning"), ("by the way", "info"))
    ]


def test_hooks_of_the_start_precede_init_and_others_are_shown_when_asked_for() -> None:
    """Row 56: `hook_started` before `init`; a hook of a call only with `hooks`."""

    def started(event: HookEvent) -> HookStart:
        return HookStart(
            hook_invocation_id="h",
            hook_type=event[0].lower() + event[1:],
            hook_event_name=event,
            handler="1",
            command="true",
        )

    records = Log().add(started("SessionStart"), started("PreToolUse")).journal.records
    for hooks, names in ((False, ["SessionStart"]), (True, ["SessionStart", "PreToolUse"])):
        claude = ClaudeView(hooks=hooks)
        messages = [message for record in records for message in claude.feed(record)]
        told = [m["hook_name"] for m in messages if m.get("subtype") == "hook_started"]
        assert told == names


@pytest.mark.parametrize(("cause", "count"), [("SIGTERM", 1), ("SIGHUP", 1), ("SIGINT", 0)])
def test_the_host_going_away_is_told(cause: AbortCause, count: int) -> None:
    """A message is shown when the machine stops the run, not when a person does."""
    log = Log().add(Abort(reason="remote_command", cause=cause))
    leaving = {"type": "system", "subtype": "worker_shutting_down", "reason": "host_exit"}
    assert after_init(log) == [leaving] * count


def test_failed_attempts_are_numbered() -> None:
    """Each failure of a call is one more attempt, with its status."""
    failure = ModelCallFailure(
        model=MODEL, error_message="busy", failure_kind="api", duration_ms=1, status_code=529
    )
    assert shown(failure, failure)[1] == {
        "type": "system",
        "subtype": "api_retry",
        "attempt": 2,
        "max_retries": None,
        "retry_delay_ms": None,
        "error_status": 529,
        "error": "busy",
    }


def test_a_compaction_is_a_boundary_or_the_reason_why_there_is_none() -> None:
    """The trigger is Claude's word for it."""
    log = Log().add(
        SessionCompactionComplete(success=True, trigger="manual", pre_compaction_tokens=9),
        SessionCompactionComplete(success=False, trigger="manual", error="busy"),
    )
    boundary, banner = after_init(log)
    assert boundary["compact_metadata"] == {"trigger": "manual", "pre_tokens": 9}
    assert (banner["content"], banner["level"]) == ("not compacted: busy", "warning")


def stream(*events: Message) -> list[Message]:
    return [{"type": "stream_event", "event": e, "parent_tool_use_id": None} for e in events]


def begun(message_id: str) -> Message:
    message: Message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    return {"type": "message_start", "message": message}


BEGIN = begun("m")
USAGE = {
    "input_tokens": 100,
    "output_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def ending(stop_reason: str) -> tuple[Message, Message]:
    over = {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": USAGE}
    return over, {"type": "message_stop"}


def begin(index: int, kind: str) -> Message:
    block = {"type": kind, kind: ""}
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, piece: str) -> Message:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": f"{kind}_delta", kind: piece},
    }


def stop(index: int) -> Message:
    return {"type": "content_block_stop", "index": index}


def test_pieces_are_not_shown_unless_asked_for() -> None:
    """No stream event is there without partial messages."""
    pieces = shown(text("a"), thought("b"), partial=False, said=reply("a"))
    assert [message["type"] for message in pieces] == ["assistant"]


def test_pieces_are_the_events_of_a_streamed_message() -> None:
    """Blocks are opened, numbered and closed, and the reply follows the end of its stream."""
    pieces = shown(thought("h"), thought("m"), text("a"), thought("x"), said=reply("a"))
    assert pieces[:-1] == stream(
        BEGIN,
        begin(0, "thinking"),
        delta(0, "thinking", "h"),
        delta(0, "thinking", "m"),
        stop(0),
        begin(1, "text"),
        delta(1, "text", "a"),
        stop(1),
        begin(2, "thinking"),
        delta(2, "thinking", "x"),
        stop(2),
        *ending("end_turn"),
    )
    assert pieces[-1]["type"] == "assistant"


def test_an_attempt_after_a_cut_stream_is_a_new_message() -> None:
    """A second `message_start` is there when the first stream broke."""
    cut = ModelCallFailure(
        model=MODEL, error_message="cut", failure_kind="transport", duration_ms=1
    )
    retry, *pieces = shown(text("hal"), cut, text("half"))[3:]
    assert retry["subtype"] == "api_retry"
    assert pieces == stream(BEGIN, begin(0, "text"), delta(0, "text", "half"))


def test_an_empty_reply_streams_nothing() -> None:
    """Only the assistant message is there when nothing was said and nothing is called."""
    assert [message["type"] for message in shown(said=reply(""))] == ["assistant"]


def calling(index: int, call_id: str, partial_json: str) -> tuple[Message, ...]:
    """The events of one call's block, without its end."""
    block = {"type": "tool_use", "id": call_id, "name": "Read", "input": {}}
    piece = {"type": "input_json_delta", "partial_json": partial_json}
    return (
        {"type": "content_block_start", "index": index, "content_block": block},
        {"type": "content_block_delta", "index": index, "delta": piece},
    )


def test_calls_are_blocks_of_the_streamed_message() -> None:
    """After the text, each call is a block of its own with all its arguments in one piece."""
    calls = (call("Read", "r1", file_path="é"), call("Read", "r2"))
    assert shown(text("a"), said=reply("a", *calls))[:-1] == stream(
        BEGIN,
        begin(0, "text"),
        delta(0, "text", "a"),
        stop(0),
        *calling(1, "r1", '{"file_path": "\\u00e9"}'),
        stop(1),
        *calling(2, "r2", "{}"),
        stop(2),
        *ending("tool_use"),
    )


def test_a_reply_that_only_calls_is_a_streamed_message_too() -> None:
    """It begins under the reply's own id, and is not there without partial messages."""
    *pieces, whole = shown(said=reply("", call("Read", "r1")))
    begins = begun(whole["message"]["id"])
    assert pieces == stream(begins, *calling(0, "r1", "{}"), stop(0), *ending("tool_use"))
    assert shown(partial=False, said=reply("", READ))[0]["type"] == "assistant"


def test_what_the_model_of_mode_auto_says_is_not_the_agents() -> None:
    """Its turns stand for no message, and change none that follows."""
    log = Log().reply(reply("", READ))
    claude = ClaudeView()
    for record in log.journal.records:
        claude.feed(record)
    said = AssistantMessage(
        message_id="m", content="{}", model="m/judge", turn_id="0.c", finish_reason="stop"
    )
    assert claude.feed(log.journal.append(said, CLASSIFIER)) == []
    assert claude.called == {MAIN: {READ.id: "Read"}}


def test_init_lists_the_agents_there_are_when_they_can_be_started() -> None:
    """The general one is always there, once, and those of the spec follow; none without Agent."""
    own = AgentSpec(description="d", prompt="p")
    log = Log(task(agents={"scout": own, "general-purpose": own}))
    spec = log.journal.records[1]
    found = RunnerPreflight(
        checks=(),
        tools=(ToolListing(name="Agent", read_only=False),),
        sandbox="process",
        workspace="/work",
    )
    claude = ClaudeView()
    claude.feed(spec)
    (message,) = claude.feed(log.journal.append(found))
    assert message["agents"] == ["general-purpose", "scout"]
    assert view(log)[0]["agents"] == []


AGENT = call("Agent", "a1", prompt="look")


def with_child(*events: Event) -> tuple[ClaudeView, Log, list[Message]]:
    """A view in the main loop's stream, and the messages of what its sub-agent `kid` does then."""
    log = Log().reply(reply("", AGENT))
    started = SubagentStarted(
        tool_call_id=AGENT.id,
        turn_id="0",
        agent_name="scout",
        agent_display_name="scout",
        agent_description="d",
    )
    claude = ClaudeView(partial=True)
    for record in log.journal.records:
        claude.feed(record)
    claude.feed(log.journal.stamp(text("of main")))
    records = [log.journal.stamp(event) for event in (started, *events)]
    messages = [m for r in records for m in claude.feed(replace(r, agent_id="kid"))]
    return claude, log, [bare(message) for message in messages]


def child_says(words: str, *requests: ToolRequest) -> AssistantMessage:
    return AssistantMessage(
        message_id="k",
        content=words,
        model=MODEL,
        turn_id="0",
        finish_reason="tool_calls" if requests else "stop",
        tool_requests=requests,
        reasoning=(),
    )


def test_of_a_sub_agent_only_calls_and_results_are_told_under_the_call_that_started_it() -> None:
    """Its words are not shown; its usage, its calls and a denial of them are its own."""
    usage = SessionUsageCheckpoint(
        model=MODEL, cost_usd=Decimal(0), total_cost_usd=Decimal(0), basis="spec", input_tokens=7
    )
    request = ToolRequest(tool_call_id="k1", name="Glob", arguments={})
    denied = PermissionCompleted(
        request_id="r", tool_call_id="k1", result={"kind": "denied-by-rules"}, reason="no"
    )
    done = ToolExecutionComplete(
        tool_call_id="k1",
        tool_name="Glob",
        success=True,
        turn_id="0",
        result=ToolContent(content="ok"),
    )
    claude, _, (calls, denial, result) = with_child(
        usage, child_says("hm", request), denied, done, child_says("that is all")
    )
    assert calls["message"]["content"] == [
        {"type": "tool_use", "id": "k1", "name": "Glob", "input": {}}
    ]
    assert calls["message"]["usage"]["input_tokens"] == 7
    assert (denial["subtype"], denial["tool_name"]) == ("permission_denied", "Glob")
    assert result["message"]["content"][0]["tool_use_id"] == "k1"
    assert [m["parent_tool_use_id"] for m in (calls, result)] == [AGENT.id] * 2
    assert (claude.usage[MAIN], claude.called[MAIN]) == (USAGE, {AGENT.id: "Agent"})


def test_what_a_sub_agent_hears_and_tries_leaves_the_stream_of_the_agent_alone() -> None:
    """Its pieces and failed attempts are no messages, and the agent's open block stays open."""
    failed = ModelCallFailure(
        model=MODEL, error_message="cut", failure_kind="transport", duration_ms=1
    )
    told = UserMessage(content="look", is_autopilot_continuation=True)
    compacted = SessionCompactionComplete(success=False, trigger="manual", error="e")
    claude, log, messages = with_child(text("x"), thought("y"), failed, told, compacted)
    assert messages == []
    (piece,) = claude.feed(log.journal.stamp(text("more")))
    assert piece["event"] == delta(0, "text", "more")
    assert claude.retries == 0
