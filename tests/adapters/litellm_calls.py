"""What the tests of the litellm adapter share: one import, and calls to a scripted server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import pytest

from runner.adapters.litellm_model import LitellmModel, start_import
from runner.core.messages import Message, ModelReply, ModelRequest, ToolSpec, User
from runner.ports import Delta, ModelError
from tests.servers import ModelServer, Step, T

WireName = Literal["openai", "responses", "anthropic", "gemini"]

MODELS: Mapping[WireName, str] = {
    "openai": "openai/gpt-4o-mini",
    "responses": "openai/responses/gpt-5-mini",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
}
KEY = "sk-test-0123456789"
LONG_TEXT = " ".join(f"word{number}" for number in range(60))
READ = ToolSpec(
    name="Read",
    description="Read a file",
    input_schema={"type": "object", "properties": {"path": {"type": "string"}}},
)

on_text_wires = pytest.mark.parametrize("wire", ["openai", "responses", "anthropic"])
"""Where arguments are text, and calls have ids; on Gemini's they are an object."""

on_all_wires = pytest.mark.parametrize("wire", list(MODELS))
with_litellm = [
    pytest.mark.xdist_group("litellm"),  # one import for all of them
    # litellm warns about itself, and leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:litellm"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A reply, and the pieces in which it came."""

    reply: ModelReply
    deltas: tuple[Delta, ...]


def request(
    wire: WireName,
    *messages: Message,
    system: str = "Be brief",
    tools: tuple[ToolSpec, ...] = (READ,),
    max_output_tokens: int = 100,
) -> ModelRequest:
    """A request with some prompt, if no messages are given."""
    return ModelRequest(
        model=MODELS[wire],
        system=system,
        messages=messages or (User(text="Hello"),),
        tools=tools,
        max_output_tokens=max_output_tokens,
    )


def model_at(
    wire: WireName,
    api_base: str,
    *,
    model: str | None = None,
    api_key: str = KEY,
    idle_s: float = 10,
    call_s: float = 20,
) -> LitellmModel:
    """The adapter, pointed at a server."""
    return LitellmModel(
        model=model or MODELS[wire],
        api_base=api_base or None,
        api_key=api_key or None,
        idle_s=idle_s,
        call_s=call_s,
    )


def ask(wire: WireName, step: Step, asked: ModelRequest | None = None, **more: Any) -> Asked:
    """One call that is answered with `step`; exactly one request was made."""
    with ModelServer(wire=wire, steps=[step], repeat_last=True) as server:
        return ask_server(server, wire, asked, **more)


def ask_server(
    server: ModelServer, wire: WireName, asked: ModelRequest | None = None, **more: Any
) -> Asked:
    """One call to a server that is there already; one `ask` is at most one request."""

    async def call() -> Asked:
        model = model_at(wire, server.base_url, **more)
        deltas: list[Delta] = []
        try:
            reply = await model.ask(asked or request(wire), deltas.append)
        finally:
            await model.aclose()
        return Asked(reply=reply, deltas=tuple(deltas))

    warm_up(wire)
    before = len(server.requests)
    try:
        return asyncio.run(call())
    finally:
        assert len(server.requests) == before + 1


def failure(wire: WireName, step: Step, **more: Any) -> ModelError:
    """The error of a call that is answered with `step`."""
    with pytest.raises(ModelError) as caught:
        ask(wire, step, **more)
    return caught.value


@cache
def warm_up(wire: WireName) -> None:
    """One call on this wire: litellm's first takes a second more, which limits must not count."""
    asyncio.run(imported())

    async def call(api_base: str) -> None:
        model = model_at(wire, api_base)
        await model.ask(request(wire), lambda delta: None)
        await model.aclose()

    with ModelServer(wire=wire, steps=[T("warm")]) as server:
        asyncio.run(call(server.base_url))


async def imported() -> None:
    """Wait for the import of litellm, which a process does once."""
    await asyncio.wrap_future(start_import())


def raw(*events: Mapping[str, Any] | str) -> Step:
    """A stream of exactly these events."""
    frames = (
        f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events
    )
    return Step(error_after_chunks=0, error="".join(frames).encode())
