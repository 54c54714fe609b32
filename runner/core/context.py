"""The view of a conversation that a model is sent, and how large it may be.

The log keeps everything; this file decides what of it is shown. The prefix (tools, system
prompt) comes first and never changes within a run, so that provider caches hold.
"""

from __future__ import annotations

import json
from typing import assert_never

from runner.core import wire
from runner.core.messages import Assistant, Message, ModelRequest, ToolResult, ToolSpec, User
from runner.core.state import State
from runner.core.thread import Thread

MESSAGE_OVERHEAD_TOKENS = 16
"""Role markers and separators a provider may add around one message or call."""


def request(state: State, tools: tuple[ToolSpec, ...]) -> ModelRequest:
    """The next model call of the main loop, with the whole history."""
    spec = state.need
    told = (User(text=state.instructions),) if state.instructions else ()
    return ModelRequest(
        model=state.model,
        system=state.system,
        messages=(*told, *state.main.messages),
        tools=tools,
        max_output_tokens=spec.max_output_tokens,
    )


def input_bound(thread: Thread) -> int | None:
    """At most this many tokens will be read; None before the provider has measured anything.

    What the provider reported stands for the messages it saw. A token is at least one byte of
    UTF-8 in every byte-level vocabulary, so the bytes of what came since are a bound for it.
    """
    if thread.measured_tokens is None:
        return None
    added = thread.messages[thread.measured_messages :]
    return thread.measured_tokens + sum(map(message_bound, added))


def request_bound(request: ModelRequest) -> int:
    """An upper bound for the tokens of a whole request, from its bytes alone."""
    tools = sum(
        _size(tool.name + tool.description + json.dumps(wire.encode(tool.input_schema)))
        for tool in request.tools
    )
    return _size(request.system) + tools + sum(map(message_bound, request.messages))


def message_bound(message: Message) -> int:
    """An upper bound for the tokens of one message."""
    match message:
        case User(text=text):
            return _size(text)
        case ToolResult(content=content):
            return _size(content)
        case Assistant(text=text, calls=calls, reasoning=reasoning):
            called = sum(_size(c.name + c.id + json.dumps(wire.encode(c.arguments))) for c in calls)
            thought = sum(_size(block.text + (block.signature or "")) for block in reasoning)
            return _size(text) + called + thought
        case _:
            assert_never(message)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) + MESSAGE_OVERHEAD_TOKENS
