"""Replies in the format of OpenAI chat completions."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .script import Step, Tool, pieces

PATH = PLAIN_PATH = "/v1/chat/completions"
BASE_PATH = "/v1"
REQUEST_ID_HEADER = "x-request-id"

_ERRORS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def reply(step: Step, body: Mapping[str, Any]) -> dict[str, Any]:
    """The whole completion as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": _content(step), "refusal": None}
    if step.thinking is not None:
        message["reasoning_content"] = step.thinking
    if step.tools:
        message["tool_calls"] = [_call(tool) for tool in step.tools]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": step.finish}
    completion = {**_head("chat.completion", body), "choices": [choice]}
    return completion if step.omit_usage else {**completion, "usage": _usage(step)}


def frames(step: Step, body: Mapping[str, Any]) -> Iterator[str]:
    """The completion as server-sent events."""
    head = _head("chat.completion.chunk", body)
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    if with_usage:
        head["usage"] = None
    for delta in _deltas(step):
        yield _frame({**head, "choices": [_choice(delta, None)]})
    yield _frame({**head, "choices": [_choice({}, step.finish)]})
    if with_usage and not step.omit_usage:
        yield _frame({**head, "choices": [], "usage": _usage(step)})
    yield "data: [DONE]\n\n"


def error(status: int, message: str) -> dict[str, Any]:
    """The body of a failed request."""
    kind, code = _ERRORS.get(status, ("server_error" if status >= 500 else "api_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_frame(body: Mapping[str, object]) -> str:
    """A failure in the middle of a stream."""
    return _frame(body)


def _head(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": body.get("model"),
        "service_tier": "default",
        "system_fingerprint": "fp_f1a2b3c4d5",
    }


def _content(step: Step) -> str | None:
    return None if step.tools and not step.text else step.text


def _call(tool: Tool) -> dict[str, Any]:
    return {
        "id": tool.id or f"call_{uuid.uuid4().hex[:24]}",
        "type": "function",
        "function": {"name": tool.name, "arguments": tool.arguments_text},
    }


def _deltas(step: Step) -> Iterator[dict[str, Any]]:
    first = None if _content(step) is None else ""
    yield {"role": "assistant", "content": first, "refusal": None}
    for piece in pieces(step.thinking or "", 8):
        yield {"reasoning_content": piece}
    for piece in pieces(step.text, 5):
        yield {"content": piece}
    for index, tool in enumerate(step.tools):
        call = _call(tool)
        call["function"]["arguments"] = ""
        yield {"tool_calls": [{"index": index, **call}]}
        for piece in pieces(tool.arguments_text, 7):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _choice(delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _usage(step: Step) -> dict[str, Any]:
    usage = step.usage
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    details = {"cached_tokens": usage.cache_read_tokens, "audio_tokens": 0}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        **step.usage_fields,
    }


def _frame(data: Mapping[str, object]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
