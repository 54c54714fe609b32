"""From our request to the messages and tools that litellm takes, for any provider behind it.

Rules of this file:
* What only one provider understands is sent to that one only: litellm hands unknown fields on,
  and strict servers refuse them.
* An assistant message with nothing in it is left out: some providers refuse it, and litellm would
  put a sentence of its own in its place.
* Text is valid Unicode: one lone surrogate from a tool's output would make the request unsendable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, Literal

from runner.adapters.pairing import check_pairing
from runner.core.messages import (
    Assistant,
    Message,
    ModelRequest,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)

REDACTED = "redacted:"
"""Marks the signature of a reasoning block that Anthropic sent encrypted."""

SEALED = "openai:"
"""Marks the signature of a reasoning item of OpenAI's responses: its id, a colon, its secret."""

Dialect = Literal["anthropic", "responses", "other"]
"""Who understands what others refuse: Anthropic's own API, and OpenAI's responses."""

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME_CHARS = 64
_CACHE = {"cache_control": {"type": "ephemeral"}}

WireMessage = dict[str, Any]


def speaks_anthropic(model: str) -> bool:
    """Whether a Claude model is asked, at Anthropic, Bedrock or Vertex: cache marks and signed
    reasoning belong."""
    provider, _, name = model.partition("/")
    if provider == "vertex_ai":
        return name.startswith("claude")
    if provider.startswith("bedrock"):
        return "anthropic." in name
    return model.startswith(("anthropic/", "claude-"))


class Wiring:
    """The messages of a conversation, request after request: what was converted stays.

    A history only grows, so each message is converted once; one that is shortened or rewritten is
    converted again from the first message that is not the same. What is handed out is
    copied, because litellm edits messages in place.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._known: list[tuple[Message, WireMessage | None]] = []
        self._call_ids: set[str] = set()

    @property
    def call_ids(self) -> Collection[str]:
        """The ids of all calls in the conversation that was converted last."""
        return self._call_ids

    def messages(self, request: ModelRequest) -> list[WireMessage]:
        """The whole conversation, system prompt first; cache marks if the provider takes them."""
        self._catch_up(request.messages)
        messages: list[WireMessage] = []
        if request.system:
            messages.append({"role": "system", "content": clean(request.system)})
        messages += [_copy(wired) for _, wired in self._known if wired is not None]
        return _marked(messages) if self.dialect == "anthropic" else messages

    def _catch_up(self, messages: Sequence[Message]) -> None:
        pairs = enumerate(zip(self._known, messages, strict=False))
        same = min(len(self._known), len(messages))
        same = next((n for n, (known, message) in pairs if not _is_same(known[0], message)), same)
        if same < len(self._known):
            del self._known[same:]
            self._call_ids = _call_ids(messages[:same])
        check_pairing(messages, same)
        self._call_ids |= _call_ids(messages[same:])
        self._known += [
            (message, _wire_message(message, self.dialect)) for message in messages[same:]
        ]


def wire_messages(request: ModelRequest, dialect: Dialect = "other") -> list[WireMessage]:
    """The whole conversation, once."""
    return Wiring(dialect).messages(request)


def _is_same(known: Message, message: Message) -> bool:
    return known is message or known == message


def _call_ids(messages: Sequence[Message]) -> set[str]:
    replies = (message for message in messages if isinstance(message, Assistant))
    return {call.id for reply in replies for call in reply.calls}


def wire_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as functions."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.input_schema),
            },
        }
        for tool in tools
    ]


def clean(text: str) -> str:
    """The text with a question mark for every code point that UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _copy(wired: WireMessage) -> WireMessage:
    """So deep that no edit of the copy reaches what is kept."""
    copied = wired.copy()
    if "tool_calls" in wired:
        calls = wired["tool_calls"]
        copied["tool_calls"] = [{**call, "function": call["function"].copy()} for call in calls]
    if "thinking_blocks" in wired:
        copied["thinking_blocks"] = [block.copy() for block in wired["thinking_blocks"]]
    if "reasoning_items" in wired:
        copied["reasoning_items"] = [
            {**item, "summary": [part.copy() for part in item["summary"]]}
            for item in wired["reasoning_items"]
        ]
    return copied


def _wire_message(message: Message, dialect: Dialect) -> WireMessage | None:
    match message:
        case User(text=text):
            return {"role": "user", "content": clean(text)}
        case ToolResult(call_id=call_id, content=content):
            return {"role": "tool", "tool_call_id": clean(call_id), "content": clean(content)}
        case Assistant():
            return _assistant(message, dialect)


def _assistant(message: Assistant, dialect: Dialect) -> WireMessage | None:
    text = clean(message.text)
    if not text.strip() and not message.calls:
        return None
    wired: WireMessage = {"role": "assistant", "content": text if text.strip() else None}
    if message.calls:
        wired["tool_calls"] = [_call(call) for call in message.calls]
    return wired | _reasoning(message.reasoning, dialect)


def _call(call: ToolCall) -> dict[str, Any]:
    # A model may make a name up; with a character that is not allowed the history is refused.
    name = _NOT_IN_A_NAME.sub("_", call.name)[:_MAX_NAME_CHARS]
    arguments = clean(json.dumps(dict(call.arguments), ensure_ascii=False))
    function = {"name": name, "arguments": arguments}
    return {"id": clean(call.id), "type": "function", "function": function}


def _reasoning(blocks: Sequence[ReasoningBlock], dialect: Dialect) -> WireMessage:
    """Signed blocks go back to the provider that signed them, unsigned text to one that has no
    signatures (some need it within a chain of tool calls)."""
    signed = [(block.text, block.signature) for block in blocks if block.signature]
    match dialect:
        case "anthropic":
            thoughts = [_thinking(*one) for one in signed if not one[1].startswith(SEALED)]
            return {"thinking_blocks": thoughts} if thoughts else {}
        case "responses":
            items = [_reasoning_item(*one) for one in signed if one[1].startswith(SEALED)]
            return {"reasoning_items": items} if items else {}
        case "other":
            unsigned = "".join(block.text for block in blocks if not block.signature)
            return {"reasoning_content": clean(unsigned)} if unsigned else {}


def _reasoning_item(text: str, signature: str) -> dict[str, Any]:
    item_id, _, encrypted = signature.removeprefix(SEALED).partition(":")
    summary = [{"type": "summary_text", "text": clean(text)}] if text else []
    sealed = {"encrypted_content": encrypted, "summary": summary}
    return {"type": "reasoning", "id": item_id, **sealed}


def _thinking(text: str, signature: str) -> dict[str, Any]:
    if signature.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": signature.removeprefix(REDACTED)}
    return {"type": "thinking", "thinking": text, "signature": signature}


def _marked(messages: list[WireMessage]) -> list[WireMessage]:
    """Cache marks, four at most, where requests are equal up to: the system prompt (and the tools
    before it), the first message (the instruction files, which outlive a compaction), the end of
    the request before this one, and the newest message."""
    last = len(messages) - 1
    replies = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    first = 1 if messages and messages[0]["role"] == "system" else 0
    before = replies[-1] - 1 if replies else last
    places = {0, first, before, last}
    return [
        _mark(message) if index in places else message for index, message in enumerate(messages)
    ]


def _mark(message: WireMessage) -> WireMessage:
    if not message.get("content") or message["role"] == "assistant":
        return message
    if message["role"] == "tool":
        return message | _CACHE
    return message | {"content": [{"type": "text", "text": message["content"], **_CACHE}]}
