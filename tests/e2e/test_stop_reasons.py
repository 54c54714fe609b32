"""Why replies ended, from the provider's word to the log, the stream and the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.desk import Wire
from tests.e2e.warm import WarmDesk
from tests.servers import Step, T, X

SAID = [
    X(("Read", {"file_path": "README.md"}), text="Let me look."),
    T("I think that is all."),
    Step(text="And so on and", finish_reason="length"),
    Step(text="I will not.", finish_reason="content_filter"),
]


@pytest.mark.parametrize("wire", ["openai", "responses", "anthropic", "gemini"])
def test_every_reason_has_its_word_for_each_reader(
    warm_desk: Callable[[Wire], WarmDesk], wire: Wire
) -> None:
    """Row 68: Copilot's words in the log, Claude's on the stream, in whole messages and in their
    pieces, and in the result that of the last reply; the same whatever the provider calls it."""
    options = ("--output-format", "stream-json", "--include-partial-messages")
    played = warm_desk(wire).play(SAID, *options)
    assert (played.exit_code, played.result["error_type"]) == (6, "refusal")
    logged = [message["finishReason"] for message in played.of("assistant.message")]
    assert logged == ["tool_calls", "stop", "length", "content_filter"]
    claude = ["tool_use", "end_turn", "max_tokens", "refusal"]
    whole = [line["message"] for line in played.stream if line["type"] == "assistant"]
    assert list(dict.fromkeys(message["stop_reason"] for message in whole)) == claude
    assert pieces(played.stream) == claude
    assert played.result["stop_reason"] == claude[-1]


def pieces(stream: list[dict[str, Any]]) -> list[str]:
    """The reasons at the ends of the messages that came in pieces."""
    events = [line["event"] for line in stream if line["type"] == "stream_event"]
    return [e["delta"]["stop_reason"] for e in events if e["type"] == "message_delta"]
