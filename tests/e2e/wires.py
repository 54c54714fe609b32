"""Requests of either wire format in one shape."""

from __future__ import annotations

from typing import Any


def flat(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a request: role, text, call ids, and one entry for each tool result."""
    system = body.get("system")
    head = [{"role": "system", "content": system}] if system else []
    return [
        {**message, "results": {key: text}} if message["results"] else message
        for message in map(_message, [*head, *body["messages"]])
        for key, text in (message["results"] or {"": ""}).items()
    ]


def results(body: dict[str, Any]) -> list[str]:
    """What the tools answered, over the whole request."""
    return [text for message in flat(body) for text in message["results"].values()]


def tool_names(body: dict[str, Any]) -> list[str]:
    """The names of the tools a request offers."""
    return [tool.get("function", tool)["name"] for tool in body.get("tools") or ()]


def _message(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    calls = [call["id"] for call in message.get("tool_calls") or ()]
    calls += [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = {
        block["tool_use_id"]: _text(block["content"])
        for block in blocks
        if block["type"] == "tool_result"
    }
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    if message["role"] == "tool":
        results, texts = {message["tool_call_id"]: "".join(texts)}, []
    return {
        "role": "tool" if results else message["role"],
        "text": "".join(texts),
        "calls": calls,
        "results": results,
    }


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
