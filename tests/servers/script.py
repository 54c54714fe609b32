"""The script vocabulary: what a fake model says, step by step, and what it was asked."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
Error: TypeAlias = str | Mapping[str, object] | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool call. Text as `arguments` is sent as it is, so it may be broken JSON.

    Without an `id` the call gets a fresh one, as from a real provider.
    """

    name: str
    arguments: Mapping[str, object] | str = field(default_factory=dict)
    id: str | None = None

    @property
    def arguments_text(self) -> str:
        """The arguments as the characters a model would have written."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Disjoint token counts: `input_tokens` holds nothing that was read from or put in a cache."""

    input_tokens: int = 100
    output_tokens: int = 20
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


DEFAULT_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One reply of the model, or one way of failing to reply.

    A chunk is one server-sent event. `chunk_delay_s` is waited between two chunks, so a large
    value is a model that starts and then falls silent.
    """

    text: str = ""
    tools: tuple[Tool, ...] = ()
    usage: Usage = DEFAULT_USAGE
    finish_reason: FinishReason | None = None  # None: what follows from the tools
    thinking: str | None = None
    signature: str = "EuYBCkYIBxgCKkDcP9mJ"  # of the thinking, where the wire has one

    status: int | None = None  # answer with this HTTP error
    headers: Mapping[str, str] = field(default_factory=dict)  # added to any answer
    error: Error | None = None  # message, whole JSON body, or raw body
    delay_s: float = 0.0  # before the first byte
    chunk_delay_s: float = 0.0
    cut_after_chunks: int | None = None  # close the socket in the middle of the reply
    end_after_chunks: int | None = None  # end the reply early, but as a proper HTTP body
    error_after_chunks: int | None = None  # then send the error as an event of the stream
    drop: bool = False  # close the socket without a reply
    hang: bool = False  # send the headers, then nothing until the client goes away
    omit_usage: bool = False
    usage_fields: Mapping[str, object] = field(default_factory=dict)  # over the usage, as they are

    @property
    def finish(self) -> FinishReason:
        """Why the model stopped."""
        return self.finish_reason or ("tool_calls" if self.tools else "stop")


@dataclass(slots=True, kw_only=True)
class Request:
    """One request as received. Header names are in lower case.

    `closed_by_client_at` is set when the client went away before it had the whole reply.
    Both times are `time.monotonic()`, which all processes of one machine share on Linux.
    """

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    received_at: float
    chunks_sent: int = 0
    closed_by_client_at: float | None = None


ScriptStep: TypeAlias = Step | Callable[[Request], Step]
Call: TypeAlias = Tool | tuple[str, Mapping[str, object] | str]


def T(text: str, *, usage: Usage = DEFAULT_USAGE) -> Step:
    """Text and no tool call."""
    return Step(text=text, usage=usage)


def X(*calls: Call, text: str = "", usage: Usage = DEFAULT_USAGE) -> Step:
    """Tool calls, each `("Read", {"file_path": "a.py"})` or a `Tool`, maybe after some text."""
    tools = tuple(
        call if isinstance(call, Tool) else Tool(name=call[0], arguments=call[1]) for call in calls
    )
    return Step(text=text, tools=tools, usage=usage)


def D(summary: str, *, text: str = "", usage: Usage = DEFAULT_USAGE) -> Step:
    """The model declares the task done."""
    return X(("task_complete", {"summary": summary}), text=text, usage=usage)


def F(
    status: int = 500, error: Error | None = None, headers: Mapping[str, str] | None = None
) -> Step:
    """An API failure. As the last step of a `repeat_last` script, retries do not cure it."""
    return Step(status=status, error=error, headers=headers or {})


def pieces(text: str, size: int) -> Iterator[str]:
    """Cut text into parts of `size` characters; longer ones if there would be more than 90.

    litellm takes 100 equal chunks in a row for a model caught in a loop and fails.
    """
    size = max(size, math.ceil(len(text) / 90))
    return (text[start : start + size] for start in range(0, len(text), size))
