"""A reply while it is streamed, as the raw events that a client of the Messages API would see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.core.events import AssistantMessage, ToolRequest
from runner.core.outcome import STOP_REASONS

RawEvent = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class RawStream:
    """The stream of one message after the other. `block` is the kind of the open block, or the id
    of the call in it; None between two messages."""

    block: str | None = None
    index: int = 0

    def drop(self) -> None:
        """The attempt failed: what streams next is another message."""
        self.block = None

    def delta(self, model: str, message_id: str, kind: str, text: str) -> list[RawEvent]:
        """A piece of text or thinking."""
        events = self._switch_to(model, message_id, kind, {"type": kind, kind: ""})
        delta = {"type": f"{kind}_delta", kind: text}
        return [*events, {"type": "content_block_delta", "index": self.index, "delta": delta}]

    def end(self, model: str, event: AssistantMessage, usage: Mapping[str, int]) -> list[RawEvent]:
        """The calls, each whole in one delta, and the end of the message, if there is any."""
        events: list[RawEvent] = []
        for request in event.tool_requests:
            events += self._call(model, event.message_id, request)
        if self.block is None:  # nothing was said and nothing is called
            return []
        self.block = None
        stop = STOP_REASONS[event.finish_reason]
        return [
            *events,
            {"type": "content_block_stop", "index": self.index},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
            {"type": "message_stop"},
        ]

    def _call(self, model: str, message_id: str, request: ToolRequest) -> list[RawEvent]:
        block = {"type": "tool_use", "id": request.tool_call_id, "name": request.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(request.arguments)}
        return [
            *self._switch_to(model, message_id, request.tool_call_id, block),
            {"type": "content_block_delta", "index": self.index, "delta": delta},
        ]

    def _switch_to(self, model: str, message_id: str, kind: str, block: RawEvent) -> list[RawEvent]:
        """Open a block of this kind, unless it is open; before the first one, the message."""
        if self.block == kind:
            return []
        events: list[RawEvent] = []
        if self.block is None:
            self.index = 0
            events.append({"type": "message_start", "message": _begun(model, message_id)})
        else:
            events.append({"type": "content_block_stop", "index": self.index})
            self.index += 1
        self.block = kind
        start = {"type": "content_block_start", "index": self.index, "content_block": block}
        return [*events, start]


def _begun(model: str, message_id: str) -> RawEvent:
    """The message before it has anything; its tokens are counted when it is over."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
