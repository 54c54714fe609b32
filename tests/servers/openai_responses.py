"""Replies in the format of OpenAI responses."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from . import openai_chat
from .script import Step, Tool, pieces

PATH = PLAIN_PATH = "/v1/responses"
BASE_PATH = "/v1"
REQUEST_ID_HEADER = "x-request-id"

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}

Event = dict[str, Any]


def reply(step: Step, body: Mapping[str, Any]) -> dict[str, Any]:
    """The whole response as one object."""
    return _response(step, body, _head(), [item for item, _ in _items(step)])


def frames(step: Step, body: Mapping[str, Any]) -> Iterator[str]:
    """The response as server-sent events, numbered; the last one holds all of it again."""
    for number, event in enumerate(_events(step, body)):
        data = json.dumps({**event, "sequence_number": number}, ensure_ascii=False)
        yield f"event: {event['type']}\ndata: {data}\n\n"


def error(status: int, message: str) -> dict[str, Any]:
    """The body of a failed request."""
    return openai_chat.error(status, message)


def error_frame(body: Mapping[str, object]) -> str:
    """A failure in the middle of a stream."""
    said = body.get("error")
    event = {"type": "error", **(said if isinstance(said, Mapping) else {}), "sequence_number": 99}
    if event["type"] != "error":
        event = {**event, "code": event.get("code") or event["type"], "type": "error"}
    return f"event: error\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


def _events(step: Step, body: Mapping[str, Any]) -> Iterator[Event]:
    head = _head()
    begun = {**_response(step, body, head, []), "status": "in_progress", "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    done = []
    for index, (item, deltas) in enumerate(_items(step)):
        place = {"output_index": index}
        yield {"type": "response.output_item.added", **place, "item": _begun(item)}
        for event in deltas:
            yield {**event, **place, "item_id": item["id"]}
        yield {"type": "response.output_item.done", **place, "item": item}
        done.append(item)
    last = "incomplete" if step.finish in _INCOMPLETE else "completed"
    yield {"type": f"response.{last}", "response": _response(step, body, head, done)}


def _head() -> Event:
    return {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "created_at": int(time.time())}


def _response(step: Step, body: Mapping[str, Any], head: Event, output: list[Event]) -> Event:
    reason = _INCOMPLETE.get(step.finish)
    response = {
        **head,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "model": body.get("model"),
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "temperature": 1.0,
        "top_p": 1.0,
        "metadata": {},
        "max_output_tokens": body.get("max_output_tokens"),
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": body.get("store", True),
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
        "user": None,
    }
    return response if step.omit_usage else {**response, "usage": _usage(step)}


def _items(step: Step) -> Iterator[tuple[Event, Iterator[Event]]]:
    """Each item of the output with the events that build it up."""
    if step.thinking is not None:
        yield _reasoning(step), _reasoning_events(step.thinking)
    if step.text or not step.tools:
        yield _message(step.text), _text_events(step.text)
    for tool in step.tools:
        yield _call(tool, step), _argument_events(tool)


def _reasoning(step: Step) -> Event:
    return {
        "id": f"rs_{uuid.uuid4().hex}",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": step.thinking}],
        "encrypted_content": step.signature,
    }


def _message(text: str) -> Event:
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_part(text)],
    }


def _part(text: str) -> Event:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(tool: Tool, step: Step) -> Event:
    return {
        "id": f"fc_{uuid.uuid4().hex}",
        "type": "function_call",
        "status": "incomplete" if step.finish in _INCOMPLETE else "completed",
        "call_id": tool.id or f"call_{uuid.uuid4().hex[:24]}",
        "name": tool.name,
        "arguments": tool.arguments_text,
    }


def _begun(item: Event) -> Event:
    """The item before its first delta: the same shape without its content."""
    blanks = {"summary": [], "content": [], "arguments": "", "status": "in_progress"}
    hidden = item.keys() - {"encrypted_content"}
    return {key: blanks.get(key, item[key]) for key in item if key in hidden}


def _reasoning_events(thinking: str) -> Iterator[Event]:
    place = {"summary_index": 0}
    part = {"type": "summary_text", "text": ""}
    yield {"type": "response.reasoning_summary_part.added", **place, "part": part}
    for piece in pieces(thinking, 8):
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": thinking}
    part = {"type": "summary_text", "text": thinking}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _text_events(text: str) -> Iterator[Event]:
    place = {"content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": _part("")}
    for piece in pieces(text, 5):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": _part(text)}


def _argument_events(tool: Tool) -> Iterator[Event]:
    for piece in pieces(tool.arguments_text, 7):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {"type": "response.function_call_arguments.done", "arguments": tool.arguments_text}


def _usage(step: Step) -> Event:
    usage = step.usage
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    details = {"cached_tokens": usage.cache_read_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "input_tokens": read,
        "input_tokens_details": details,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + usage.output_tokens,
        **step.usage_fields,
    }
