"""Limits of a model call against loopback servers: silence, drips, cancels; and token counts."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from runner.core.messages import User
from runner.ports import Delta
from tests.adapters.litellm_calls import (
    LONG_TEXT,
    MODELS,
    READ,
    WireName,
    ask_server,
    failure,
    imported,
    model_at,
    on_all_wires,
    request,
    with_litellm,
)
from tests.servers import F, ModelServer, Step, T

pytestmark = with_litellm


@on_all_wires
@pytest.mark.parametrize(
    "step",
    [Step(hang=True), Step(delay_s=30), replace(T(LONG_TEXT), chunk_delay_s=30)],
    ids=["no first chunk", "no answer", "silent after a chunk"],
)
def test_silence_is_cut_off(wire: WireName, step: Step) -> None:
    """A call fails, may be billed and can be repeated when nothing comes for the idle limit."""
    error = failure(wire, step, idle_s=0.3)
    assert error.message == "no part of a reply came for 0.3 s"
    assert (error.kind, error.retryable, error.may_bill) == ("provider_unavailable", True, True)


@on_all_wires
def test_a_drip_is_cut_off(wire: WireName) -> None:
    """A call fails when it takes too long in all, though something comes all the time."""
    error = failure(wire, replace(T(LONG_TEXT), chunk_delay_s=0.05), idle_s=5, call_s=0.5)
    assert error.message == "the call took longer than 0.5 s"
    assert (error.kind, error.retryable, error.may_bill) == ("provider_unavailable", True, True)


@on_all_wires
@pytest.mark.parametrize(
    ("step", "chunks"),
    [
        (replace(T(LONG_TEXT), chunk_delay_s=0.05), 6),
        (Step(hang=True), 0),
        (Step(delay_s=30), 0),
        (replace(T(LONG_TEXT), chunk_delay_s=30), 1),
    ],
    ids=["while streaming", "before the first chunk", "before the answer", "in a silence"],
)
def test_a_cancel_closes_the_connection(wire: WireName, step: Step, chunks: int) -> None:
    """The server sees the client leave at once, so that it stops working, and billing."""

    def under_way(server: ModelServer) -> bool:
        return bool(server.requests) and server.requests[0].chunks_sent >= chunks

    async def cancel(server: ModelServer) -> float:
        await imported()
        model = model_at(wire, server.base_url)
        task = asyncio.create_task(model.ask(request(wire), lambda delta: None))
        await asyncio.to_thread(server.wait_until, lambda: under_way(server))
        cancelled_at = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.to_thread(
            server.wait_until, lambda: server.requests[0].closed_by_client_at is not None, 5
        )
        await model.aclose()
        return cancelled_at

    with ModelServer(wire=wire, steps=[step]) as server:
        cancelled_at = asyncio.run(cancel(server))
    closed_at = server.requests[0].closed_by_client_at
    assert closed_at is not None
    assert closed_at - cancelled_at < 1


@on_all_wires
def test_a_failing_listener_closes_the_connection(wire: WireName) -> None:
    """An exception in `on_delta` comes out as it is, and the stream is closed."""

    def refuse(delta: Delta) -> None:
        raise LookupError(delta.kind)

    async def call(server: ModelServer) -> None:
        model = model_at(wire, server.base_url)
        with pytest.raises(LookupError, match="text"):
            await model.ask(request(wire), refuse)
        await asyncio.to_thread(
            server.wait_until, lambda: server.requests[0].closed_by_client_at is not None, 5
        )
        await model.aclose()

    with ModelServer(wire=wire, steps=[replace(T(LONG_TEXT), chunk_delay_s=0.05)]) as server:
        asyncio.run(call(server))


def test_many_calls_use_one_model() -> None:
    """A model can be asked again and again, also after its connections were closed."""
    with ModelServer(wire="openai", steps=[T("a"), F(500, "no"), T("b")]) as server:
        assert ask_server(server, "openai").reply.text == "a"
        with pytest.raises(Exception, match="no"):
            ask_server(server, "openai")
        assert ask_server(server, "openai").reply.text == "b"


# -- counting ------------------------------------------------------------------------------------


def count(text: str, *, model: str = MODELS["openai"], tools: int = 0) -> int:
    """The tokens of a request with this prompt."""
    asked = request("openai", User(text=text), system="", tools=(READ,) * tools)
    return asyncio.run(model_at("openai", "", model=model).count_tokens(asked))


@pytest.mark.parametrize(
    "model", [*MODELS.values(), "cohere/command-r", "meta-llama/llama-2-7b", "no/such-model", "x"]
)
def test_tokens_are_counted_for_any_model(model: str) -> None:
    """About one token a word, offline, also for models whose tokenizer is not here."""
    assert 100 <= count("word " * 100, model=model) <= 200


def test_tools_are_counted() -> None:
    """The schemas of the tools are a part of the request."""
    assert count("x", tools=3) > count("x", tools=1) > count("x") + 10


def test_odd_text_is_counted() -> None:
    """Counting never fails: lone surrogates, special tokens, nothing at all."""
    assert count("\ud800" * 10) > 0
    assert count("<|endoftext|>" * 10) > 0
    assert count("") > 0
