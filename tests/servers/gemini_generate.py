"""Replies in the format of Gemini's generateContent and streamGenerateContent."""

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .script import Step, Tool, pieces

MODEL = "gemini-2.5-flash"
BASE_PATH = "/v1beta"
PATH = f"{BASE_PATH}/models/{MODEL}:streamGenerateContent"
PLAIN_PATH = f"{BASE_PATH}/models/{MODEL}:generateContent"
REQUEST_ID_HEADER = "x-request-id"

_FINISH = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
}
_ERRORS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def reply(step: Step, body: Mapping[str, Any]) -> dict[str, Any]:
    """The whole reply as one object. The model stands in the path, not in the body."""
    parts = [*([_thought(step.thinking)] if step.thinking else [])]
    parts += [{"text": step.text}] if step.text else []
    return _reply(step, [*parts, *_calls(step)], _FINISH[step.finish])


def frames(step: Step, body: Mapping[str, Any]) -> Iterator[str]:
    """The reply as server-sent events; a call comes whole, and the last event says why it ends."""
    for piece in pieces(step.thinking or "", 8):
        yield _frame(_reply(step, [_thought(piece)], None))
    for piece in pieces(step.text, 5):
        yield _frame(_reply(step, [{"text": piece}], None))
    for call in _calls(step):
        yield _frame(_reply(step, [call], None))
    yield _frame(_reply(step, [{"text": ""}], _FINISH[step.finish]))


def error(status: int, message: str) -> dict[str, Any]:
    """The body of a failed request."""
    return {
        "error": {
            "code": status,
            "message": message,
            "status": _ERRORS.get(status, "UNKNOWN"),
        }
    }


def error_frame(body: Mapping[str, object]) -> str:
    """A failure in the middle of a stream."""
    return _frame(body)


def _reply(step: Step, parts: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {} if step.omit_usage else {"usageMetadata": _usage(step)}
    return {
        "candidates": [candidate],
        **usage,
        "modelVersion": MODEL,
        "responseId": uuid.uuid4().hex[:22],
    }


def _thought(text: str) -> dict[str, Any]:
    return {"text": text, "thought": True}


def _calls(step: Step) -> list[dict[str, Any]]:
    """The calls; the first carries the signature of the thinking that led to them."""
    parts: list[dict[str, Any]] = [
        {"functionCall": {"name": tool.name, "args": _arguments(tool)}} for tool in step.tools
    ]
    if parts and step.thinking is not None:
        parts[0]["thoughtSignature"] = step.signature
    return parts


def _arguments(tool: Tool) -> object:
    """The arguments as an object; broken JSON stays text, as this wire cannot hold it."""
    try:
        return json.loads(tool.arguments_text)
    except ValueError:
        return tool.arguments_text


def _usage(step: Step) -> dict[str, Any]:
    usage = step.usage
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": usage.output_tokens,
        "totalTokenCount": prompt + usage.output_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        **step.usage_fields,
    }


def _frame(data: Mapping[str, object]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
