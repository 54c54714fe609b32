"""`--include-partial-messages`: the pieces of a message add up to the message, on every wire."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from tests.e2e.desk import Desk, Wire
from tests.servers import D, Step, T, X

pytestmark = pytest.mark.warm

CALLS = X(
    ("Read", {"file_path": "README.md"}),
    ("Grep", {"pattern": "small|größe", "path": "."}),
).tools
FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
Blocks = list[tuple[str, Any]]


@pytest.mark.parametrize("wire", [None, *get_args(Wire)])
def test_the_pieces_add_up_to_the_message(desk: Desk, wire: Wire | None) -> None:
    """Row 60: text, thinking and the arguments of calls, block by block in the same order, each
    message opened once and closed once before it is there whole."""
    desk.wire = wire
    steps = [
        Step(text="Ich sehe nach: ✓ \n\n", thinking="Erst lesen, dann suchen.", tools=CALLS),
        T("Nothing more."),
        D("done"),
    ]
    options = ("--output-format", "stream-json", "--include-partial-messages")
    played = desk.play(steps, *options)
    assert played.exit_code == 0, played.stderr
    whole = [line["message"] for line in played.stream if line["type"] == "assistant"]
    events = [line["event"] for line in played.stream if line["type"] == "stream_event"]
    pieces = built(events)
    assert pieces == {message["id"]: blocks(message) for message in whole}
    kinds = [kind for kind, _ in pieces[whole[0]["id"]]]
    assert kinds[-3:] == ["text", "tool_use", "tool_use"]
    assert len(whole) == 3


def blocks(message: dict[str, Any]) -> Blocks:
    """The content of a whole message."""
    content = message["content"]
    return [(part["type"], part.get(part["type"], part.get("input"))) for part in content]


def built(events: list[dict[str, Any]]) -> dict[str, Blocks]:
    """The messages that a reader of the stream puts together."""
    messages: dict[str, Blocks] = {}
    open_message: Blocks = []
    block: dict[str, Any] = {}
    parts: list[str] = []
    for event in events:
        match event["type"]:
            case "message_start":
                open_message = messages.setdefault(event["message"]["id"], [])
            case "content_block_start":
                block, parts = event["content_block"], []
                assert event["index"] == len(open_message)
            case "content_block_delta":
                delta = event["delta"]
                assert event["index"] == len(open_message)
                parts.append(delta[FIELDS[delta["type"]]])
            case "content_block_stop":
                said = "".join(parts)
                value = json.loads(said) if block["type"] == "tool_use" else said
                open_message.append((block["type"], value))
    starts = [event["type"] for event in events if event["type"].startswith("message_st")]
    assert starts == ["message_start", "message_stop"] * len(messages)
    return messages
