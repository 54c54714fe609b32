"""How large messages are, in bytes; and a message that is too large, cut down.

A token is at least one byte of UTF-8 in every byte-level vocabulary, so bytes bound tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, assert_never

from runner.core import wire
from runner.core.messages import Assistant, Message, ToolResult, ToolSpec, User
from runner.core.truncate import fit

MESSAGE_OVERHEAD_TOKENS = 16
"""Role markers and separators a provider may add around one message or call."""


def text_bound(text: str) -> int:
    """An upper bound for the tokens of a text that stands alone."""
    return len(text.encode("utf-8", "surrogatepass")) + MESSAGE_OVERHEAD_TOKENS


def tools_bound(tools: Iterable[ToolSpec]) -> int:
    """An upper bound for the tokens of the definitions of tools."""
    return sum(
        text_bound(tool.name + tool.description + json.dumps(wire.encode(tool.input_schema)))
        for tool in tools
    )


def message_bound(message: Message) -> int:
    """An upper bound for the tokens of one message."""
    match message:
        case User(text=text):
            return text_bound(text)
        case ToolResult(content=content):
            return text_bound(content)
        case Assistant(text=text, calls=calls, reasoning=reasoning):
            called = sum(
                text_bound(c.name + c.id + json.dumps(wire.encode(c.arguments))) for c in calls
            )
            thought = sum(text_bound(block.text + (block.signature or "")) for block in reasoning)
            return text_bound(text) + called + thought
        case _:
            assert_never(message)


def cut(message: Message, max_bytes: int | None) -> Message:
    """The message with each of its texts cut to head and tail; the very same if nothing is longer.

    Ids, names and signed reasoning stay as they are: a provider would not know them otherwise.
    """
    if max_bytes is None or message_bound(message) <= max_bytes:
        return message
    match message:
        case User(text=text):
            return replace(message, text=fit(text, max_bytes))
        case ToolResult(content=content):
            return replace(message, content=fit(content, max_bytes))
        case Assistant(text=text, calls=calls):
            shorter = tuple(
                replace(call, arguments=_cut_value(call.arguments, max_bytes)) for call in calls
            )
            return replace(message, text=fit(text, max_bytes), calls=shorter)
        case _:
            assert_never(message)


def _cut_value(value: Any, max_bytes: int) -> Any:
    if isinstance(value, str):
        return fit(value, max_bytes)
    if isinstance(value, dict):
        return {key: _cut_value(item, max_bytes) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut_value(item, max_bytes) for item in value]
    return value
