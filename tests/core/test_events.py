"""The event vocabulary and its envelope."""

from __future__ import annotations

import re
from typing import Any

import pytest

from runner.core.events import (
    EPHEMERAL_TYPES,
    PERSISTED_TYPES,
    AssistantMessage,
    Reasoning,
    Record,
    RunnerHeartbeat,
    RunnerResult,
    SessionIdle,
    SessionInfo,
    ToolRequest,
    UserMessage,
    from_json,
    to_json,
)
from runner.core.wire import WireError, camel

INFO = SessionInfo(info_type="notification", message="hello")
LINE: dict[str, Any] = {
    "id": "id-2",
    "timestamp": "2026-01-02T03:04:05.000Z",
    "parentId": "id-1",
    "agentId": "agent",
    "seq": 1,
    "prev": "ab",
    "type": "session.info",
    "data": {"infoType": "notification", "message": "hello"},
}
RECORD = Record(
    id="id-2",
    timestamp="2026-01-02T03:04:05.000Z",
    parent_id="id-1",
    agent_id="agent",
    seq=1,
    prev="ab",
    event=INFO,
)


def test_a_persisted_record_is_its_envelope_and_its_data() -> None:
    """The line holds id, time, parent, agent, number and hash when the event is persisted."""
    assert (to_json(RECORD), from_json(LINE)) == (LINE, RECORD)


def test_the_first_line_has_no_parent_and_says_so() -> None:
    """`parentId` and `prev` are null, not absent, when nothing came before."""
    first = Record(id="1", timestamp="t", parent_id=None, seq=0, event=INFO)
    line = to_json(first)
    assert (line["parentId"], line["prev"], "agentId" in line) == (None, None, False)
    assert from_json(line) == first


def test_an_ephemeral_record_is_marked_and_has_no_number() -> None:
    """`ephemeral` is true and `seq` absent when the event is never on disk."""
    beat = RunnerHeartbeat(phase="model call", elapsed_s=30.0)
    record = Record(id="1", timestamp="t", parent_id="0", event=beat)
    assert to_json(record) == {
        "id": "1",
        "timestamp": "t",
        "parentId": "0",
        "ephemeral": True,
        "type": "runner.heartbeat",
        "data": {"phase": "model call", "elapsedS": 30.0},
    }
    assert from_json(to_json(record)) == record


def test_data_is_there_when_an_event_has_no_fields_to_say() -> None:
    """`data` is an empty object, never absent."""
    record = Record(id="1", timestamp="t", parent_id=None, event=SessionIdle())
    assert to_json(record)["data"] == {}


def test_the_result_travels_as_itself() -> None:
    """The data of `runner.result` is the object of `result.json`, nulls included."""
    result = {"type": "result", "stop_reason": None, "num_turns": 4}
    record = Record(id="1", timestamp="t", parent_id=None, seq=0, event=RunnerResult(result=result))
    assert to_json(record)["data"] == result
    assert from_json(to_json(record)) == record


def test_tool_arguments_keep_their_own_names() -> None:
    """Only our keys are in camelCase when a reply is written."""
    message = AssistantMessage(
        message_id="m",
        content="",
        model="x",
        turn_id="0",
        finish_reason="tool_calls",
        tool_requests=(ToolRequest(tool_call_id="c", name="Edit", arguments={"old_string": None}),),
        reasoning=(Reasoning(text="hm", signature="s"),),
    )
    record = Record(id="1", timestamp="t", parent_id=None, seq=0, event=message)
    assert to_json(record)["data"] == {
        "messageId": "m",
        "content": "",
        "model": "x",
        "turnId": "0",
        "finishReason": "tool_calls",
        "toolRequests": [
            {
                "toolCallId": "c",
                "name": "Edit",
                "arguments": {"old_string": None},
                "type": "function",
            }
        ],
        "reasoning": [{"text": "hm", "signature": "s"}],
    }
    assert from_json(to_json(record)) == record


def test_an_unknown_type_is_skipped() -> None:
    """A newer version's event reads as nothing."""
    assert from_json(LINE | {"type": "session.newer"}) is None


def test_unknown_keys_are_skipped() -> None:
    """A newer version's keys change nothing, in the envelope and in the data."""
    data = LINE["data"] | {"newer": 1}
    assert from_json(LINE | {"newer": 1, "data": data}) == RECORD


def test_a_known_type_of_a_wrong_shape_is_an_error() -> None:
    """The place is named when a known event cannot be read."""
    with pytest.raises(WireError, match=r"^message: missing$"):
        from_json(LINE | {"data": {"infoType": "x"}})


@pytest.mark.parametrize("cls", [*PERSISTED_TYPES.values(), *EPHEMERAL_TYPES.values()])
def test_a_class_is_its_wire_name_in_camel_case(cls: type) -> None:
    """`ToolExecutionStart` is `tool.execution_start`."""
    name: str = vars(cls)["type"]
    words = camel("_" + re.sub(r"[._]", "_", name))
    assert words == cls.__name__


def test_no_type_is_both_persisted_and_ephemeral() -> None:
    """A type is on disk always or never."""
    assert not PERSISTED_TYPES.keys() & EPHEMERAL_TYPES.keys()


def test_a_nudge_is_marked_as_one() -> None:
    """The three marks of a continuation are written when the runner speaks as the user."""
    nudge = UserMessage(
        content="go on", source="autopilot", agent_mode="autopilot", is_autopilot_continuation=True
    )
    record = Record(id="1", timestamp="t", parent_id=None, seq=0, event=nudge)
    assert to_json(record)["data"] == {
        "content": "go on",
        "source": "autopilot",
        "agentMode": "autopilot",
        "isAutopilotContinuation": True,
    }
