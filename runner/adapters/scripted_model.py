"""A model that says what a file says, to try the tool and to test a spec without a provider.

Rules of this file: nothing is left to chance; every `ask`, failed or not, uses up one entry of
the script. Without `usage` in the script the tokens are estimated: a quarter of the bytes.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from runner.adapters.litellm_wire import wire_messages, wire_tools
from runner.adapters.script_file import ScriptedFailure, ScriptedReply, ScriptError, read_script
from runner.adapters.tool_calls import tool_calls
from runner.core.messages import (
    Assistant,
    FinishReason,
    ModelReply,
    ModelRequest,
    ReasoningBlock,
    Usage,
)
from runner.ports import Delta, ModelError

__all__ = ["ScriptError", "ScriptedModel"]

_BYTES_PER_TOKEN = 4
_PIECES = 4
_PASSING = frozenset({"rate_limit", "provider_unavailable"})


class ScriptedModel:
    """A `Model` that gives the replies of a script in order."""

    def __init__(
        self,
        replies: Sequence[ScriptedReply],
        *,
        name: str = "",
        skip: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.replies = tuple(replies)
        self._name = name
        self._next = skip
        self._sleep = sleep

    @classmethod
    def load(cls, path: Path, *, skip: int = 0) -> Self:
        """Read the script. `skip` entries were used up by earlier runs of the session.
        Raises `ScriptError` with everything that is wrong with the file."""
        return cls(read_script(path), name=str(path), skip=skip)

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Give the next reply, in a few pieces. Raises `ModelError` where the script says so,
        and when it has no reply left."""
        number = self._next
        if number >= len(self.replies):
            message = f"the script {self._name} has no reply for call {number + 1}"
            raise ModelError("invalid_request", message)
        self._next += 1
        said = self.replies[number]
        await self._sleep(said.delay_s)
        for piece in _pieces(said.reasoning):
            on_delta(Delta(kind="reasoning", text=piece))
        for piece in _pieces(said.text):
            on_delta(Delta(kind="text", text=piece))
        if said.failure:
            raise _error(said.failure)
        return _reply(said, request)

    async def ready(self) -> None:
        """There is nothing to load."""

    async def count_tokens(self, request: ModelRequest) -> int:
        """The estimate, or what the next reply will report if that is more."""
        coming = self.replies[self._next].usage if self._next < len(self.replies) else None
        stated = coming.prompt_tokens if isinstance(coming, Usage) else 0
        return max(_request_tokens(request), stated)

    async def aclose(self) -> None:
        """There is nothing to let go of."""


def _reply(said: ScriptedReply, request: ModelRequest) -> ModelReply:
    replies = (message for message in request.messages if isinstance(message, Assistant))
    taken = frozenset(call.id for reply in replies for call in reply.calls)
    calls = tool_calls(said.calls, taken=taken, cut=said.finish_reason == "length")
    usual: FinishReason = "tool_calls" if calls else "stop"
    usage = said.usage
    return ModelReply(
        text=said.text,
        calls=calls,
        reasoning=(ReasoningBlock(text=said.reasoning),) if said.reasoning else (),
        finish_reason=said.finish_reason or usual,
        usage=_estimated(said, request) if usage == "estimate" else usage,
    )


def _estimated(said: ScriptedReply, request: ModelRequest) -> Usage:
    called = "".join(call.name + call.arguments for call in said.calls)
    return Usage(
        input_tokens=_request_tokens(request),
        output_tokens=_tokens(said.text + said.reasoning + called),
    )


def _request_tokens(request: ModelRequest) -> int:
    wired = [wire_messages(request), wire_tools(request.tools)]
    return _tokens(json.dumps(wired, ensure_ascii=False, default=str))


def _tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)


def _pieces(text: str) -> Iterator[str]:
    size = max(1, math.ceil(len(text) / _PIECES))
    return (text[start : start + size] for start in range(0, len(text), size))


def _error(failure: ScriptedFailure) -> ModelError:
    return ModelError(
        failure.kind,
        failure.message or f"scripted failure: {failure.kind}",
        retryable=failure.kind in _PASSING,
        status_code=failure.status,
        retry_after_s=failure.retry_after_s,
        may_bill=failure.may_bill,
    )
