"""Replies in the format of Anthropic messages."""

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .script import Step, Tool, pieces

PATH = PLAIN_PATH = "/v1/messages"
BASE_PATH = ""
REQUEST_ID_HEADER = "request-id"

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def reply(step: Step, body: Mapping[str, Any]) -> dict[str, Any]:
    """The whole message as one object."""
    message = {
        **_message(body),
        "content": [block for block, _ in _blocks(step)],
        "stop_reason": _STOP_REASONS[step.finish],
    }
    return message if step.omit_usage else {**message, "usage": _usage(step)}


def frames(step: Step, body: Mapping[str, Any]) -> Iterator[str]:
    """The message as server-sent events."""
    usage = {} if step.omit_usage else {"usage": {**_usage(step), "output_tokens": 1}}
    yield _frame({"type": "message_start", "message": {**_message(body), **usage}})
    yield _frame({"type": "ping"})
    for index, (block, deltas) in enumerate(_blocks(step)):
        start = {"type": "content_block_start", "index": index, "content_block": _empty(block)}
        yield _frame(start)
        for delta in deltas:
            yield _frame({"type": "content_block_delta", "index": index, "delta": delta})
        yield _frame({"type": "content_block_stop", "index": index})
    yield _frame(_message_delta(step))
    yield _frame({"type": "message_stop"})


def error(status: int, message: str) -> dict[str, Any]:
    """The body of a failed request."""
    kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": f"req_{uuid.uuid4().hex[:24]}",
    }


def error_frame(body: Mapping[str, object]) -> str:
    """A failure in the middle of a stream."""
    return _frame({"type": "error", **body})


def _message(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(step: Step) -> Iterator[tuple[dict[str, Any], Iterator[dict[str, Any]]]]:
    """Each content block with the deltas that build it up."""
    block: dict[str, Any]
    if step.thinking is not None:
        block = {"type": "thinking", "thinking": step.thinking, "signature": step.signature}
        yield block, _thinking_deltas(step.thinking, step.signature)
    if step.text:
        yield {"type": "text", "text": step.text}, _text_deltas(step.text)
    for tool in step.tools:
        call_id = tool.id or f"toolu_{uuid.uuid4().hex[:24]}"
        block = {"type": "tool_use", "id": call_id, "name": tool.name, "input": _input(tool)}
        yield block, _json_deltas(tool.arguments_text)


def _empty(block: dict[str, Any]) -> dict[str, Any]:
    """The block before its first delta: the same shape without its content."""
    blanks = {"thinking": "", "signature": "", "text": "", "input": {}}
    return {key: blanks.get(key, value) for key, value in block.items()}


def _thinking_deltas(thinking: str, signature: str) -> Iterator[dict[str, Any]]:
    for piece in pieces(thinking, 8):
        yield {"type": "thinking_delta", "thinking": piece}
    yield {"type": "signature_delta", "signature": signature}


def _text_deltas(text: str) -> Iterator[dict[str, Any]]:
    for piece in pieces(text, 5):
        yield {"type": "text_delta", "text": piece}


def _json_deltas(arguments: str) -> Iterator[dict[str, Any]]:
    yield {"type": "input_json_delta", "partial_json": ""}
    for piece in pieces(arguments, 7):
        yield {"type": "input_json_delta", "partial_json": piece}


def _input(tool: Tool) -> object:
    """The arguments as an object; broken JSON stays text, as a plain reply cannot hold it."""
    try:
        return json.loads(tool.arguments_text)
    except ValueError:
        return tool.arguments_text


def _message_delta(step: Step) -> dict[str, Any]:
    delta = {"stop_reason": _STOP_REASONS[step.finish], "stop_sequence": None}
    usage = {} if step.omit_usage else {"usage": _counts(step)}
    return {"type": "message_delta", "delta": delta, **usage}


def _counts(step: Step) -> dict[str, Any]:
    return {
        "input_tokens": step.usage.input_tokens,
        "cache_creation_input_tokens": step.usage.cache_write_tokens,
        "cache_read_input_tokens": step.usage.cache_read_tokens,
        "output_tokens": step.usage.output_tokens,
        **step.usage_fields,
    }


def _usage(step: Step) -> dict[str, Any]:
    writes = {
        "ephemeral_5m_input_tokens": step.usage.cache_write_tokens,
        "ephemeral_1h_input_tokens": 0,
    }
    return {**_counts(step), "cache_creation": writes, "service_tier": "standard"}


def _frame(data: dict[str, Any]) -> str:
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
