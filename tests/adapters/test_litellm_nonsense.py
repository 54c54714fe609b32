"""Nonsense from a server, on every wire: each answer ends as a reply or as an error of ours.

The nonsense is drawn from numbered seeds: the same in every run, and a failure names its seed.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from typing import Any

import pytest

from runner.core.messages import ModelReply
from runner.ports import ModelError
from tests.adapters.litellm_calls import (
    MODELS,
    WireName,
    ask,
    failure,
    model_at,
    on_all_wires,
    request,
    warm_up,
    with_litellm,
)
from tests.servers import F, ModelServer, Step, T, X
from tests.servers.http import WIRES

pytestmark = with_litellm

SEEDS = 60
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**30, 1e308, float("nan"), float("inf")),
    *("", "x", "null", "\ud800", [], {}, [None], [[]], {"a": 1}, [{}]),
)
GOOD = (
    X(("Read", {"path": "a"}), ("Read", {"path": "b"}), text="hi there you"),
    Step(text="so", thinking="hm, hm"),
    T("hello there"),
    Step(text="x", finish_reason="length"),
)


@on_all_wires
def test_nonsense_has_an_ending(wire: WireName) -> None:
    """Fields missing, of a wrong type or twisted, lines in disorder, bytes lost or changed."""
    warm_up(wire)
    answers = [nonsense(wire, random.Random(seed)) for seed in range(SEEDS)]
    with ModelServer(wire=wire, steps=answers) as server:
        endings = asyncio.run(ask_all(wire, server.base_url))
    bad = [(seed, end) for seed, end in enumerate(endings) if not is_ours(end)]
    assert bad == []
    assert len(server.requests) == SEEDS  # one request each, whatever came back
    assert any(isinstance(end, ModelReply) for end in endings)


def is_ours(ending: object) -> bool:
    """A reply, or an error with a short sentence about what happened."""
    if isinstance(ending, ModelError):
        text = ending.message
        return 0 < len(text) <= 300 and "litellm" not in text.lower() and text.isprintable()
    return isinstance(ending, ModelReply)


async def ask_all(wire: WireName, api_base: str, times: int = SEEDS) -> list[object]:
    """What each of the calls ends with, an exception included."""
    model = model_at(wire, api_base)
    endings: list[object] = []
    for _ in range(times):
        try:
            endings.append(await model.ask(request(wire), lambda delta: None))
        except Exception as error:
            endings.append(error)
    await model.aclose()
    return endings


def nonsense(wire: WireName, chance: random.Random) -> Step:
    """An answer that is almost right."""
    if chance.random() < 0.2:
        status = chance.choice((400, 429, 500))
        body = twisted(WIRES[wire].error(status, "no luck"), chance)
        text = json.dumps(body)
        return F(status, text[: chance.randint(0, len(text))].encode())
    step = chance.choice(GOOD)
    asked = {"model": "m", "stream_options": {"include_usage": True}}
    frames = [twisted_frame(frame, chance) for frame in WIRES[wire].frames(step, asked)]
    if chance.random() < 0.2:
        chance.shuffle(frames)
    body = bytearray("".join(frames).encode())
    for _ in range(chance.randint(1, 5) if chance.random() < 0.3 else 0):
        place = chance.randrange(len(body))
        body[place : place + chance.randint(0, 20)] = chance.randbytes(chance.randint(0, 4))
    return Step(error_after_chunks=0, error=bytes(body))


def twisted_frame(frame: str, chance: random.Random) -> str:
    """One event, now and then with something in it changed."""
    head, mark, data = frame.partition("data: ")
    if chance.random() < 0.7 or not data.startswith("{"):
        return frame
    return f"{head}{mark}{json.dumps(twisted(json.loads(data), chance))}\n\n"


def twisted(value: Any, chance: random.Random) -> Any:
    """The value with one part of it replaced or left out."""
    value = copy.deepcopy(value)
    holders = [place for place in parts(value) if place]
    holder = chance.choice(holders)
    key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    if chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(chance.choice(VALUES))
    return value


def parts(value: Any) -> list[Any]:
    """Every object and list in it, itself first."""
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(part for child in inner for part in parts(child))]


# -- what may stand in the place of a reply --------------------------------------------------------


def answer(body: bytes) -> Step:
    """An answer with status 200 that is these bytes."""
    return Step(error_after_chunks=0, error=body)


@on_all_wires
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\n\n", b"{}", b"data: [DONE]\n\n", b"data: null\n\n", b"data: {}\n\n"),
        *(b"data: [1]\n\n", b"data: 5\n\n", b"data: {nope\n\n", b"\xff\xfe\x00"),
        *(b"<html>Sign in</html>", b": a comment, and nothing else\n\n"),
    ],
)
def test_what_is_no_reply_is_a_lost_one(wire: WireName, body: bytes) -> None:
    """The same on every wire: tried again, and charged, as the request was accepted."""
    error = failure(wire, answer(body))
    assert (error.kind, error.retryable, error.may_bill) == ("provider_unavailable", True, True)
    assert error.status_code is None
    assert error.message.startswith(("the reply ended before", "the reply cannot be read"))


@on_all_wires
def test_a_line_that_is_no_json_is_no_hole_in_a_reply(wire: WireName) -> None:
    """What comes before and behind it is not taken for the whole."""
    frames = list(WIRES[wire].frames(T("hello there, you"), {"model": "m"}))
    whole = "".join((*frames[:-4], "data: {nope\n\n", *frames[-4:]))
    assert failure(wire, answer(whole.encode())).retryable


@pytest.mark.parametrize(
    ("last", "finished"),
    [
        ({"finishReason": "STOP"}, True),
        ({"finishReason": "MAX_TOKENS"}, True),
        ({"finishReason": "SOMETHING_NEW"}, True),
        ({}, False),
    ],
)
def test_gemini_ends_with_a_reason(last: dict[str, str], finished: bool) -> None:
    """In the same piece as the last text, as the real one does it, or it has not ended."""
    pieces: list[dict[str, str]] = [{}, last]
    hi = {"content": {"parts": [{"text": "hi"}]}}
    said = [{"candidates": [{**hi, **piece}]} for piece in pieces]
    frames = "".join(f"data: {json.dumps(piece)}\n\n" for piece in said)
    if finished:
        assert ask("gemini", answer(frames.encode())).reply.text == "hihi"
    else:
        assert failure("gemini", answer(frames.encode())).may_bill


def test_a_prompt_that_gemini_blocks_is_refused() -> None:
    """There is no candidate at all, but a reason."""
    said = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}
    reply = ask("gemini", answer(f"data: {json.dumps(said)}\n\n".encode())).reply
    assert (reply.text, reply.finish_reason) == ("", "content_filter")


def test_gemini_starts_no_second_request() -> None:
    """A server may offer to go on in another call, which nobody reserved money for."""
    piece = {
        "content": {"parts": [{"text": "hi"}]},
        "finishReason": "CONTINUATION",
        "continuationToken": "more",
    }
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 10}
    said = {"candidates": [piece], "usageMetadata": usage}
    reply = ask("gemini", answer(f"data: {json.dumps(said)}\n\n".encode())).reply
    assert (reply.text, reply.finish_reason) == ("hi", "length")


# -- false usage -----------------------------------------------------------------------------------

COUNTS = {
    "openai": ("prompt_tokens", "completion_tokens"),
    "responses": ("input_tokens", "output_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount"),
}


@pytest.mark.parametrize("false", [-5, float("nan"), 1e30, 10**30, "many", [1], None], ids=str)
@pytest.mark.parametrize("place", [0, 1], ids=["input", "output"])
@pytest.mark.parametrize("wire", list(MODELS))
def test_a_false_count_is_no_usage(wire: WireName, place: int, false: Any) -> None:
    """No usage, or no reply: the reservation is charged either way, never a made-up number."""
    step = Step(text="hello", usage_fields={COUNTS[wire][place]: false})
    with ModelServer(wire=wire, steps=[step]) as server:
        (end,) = asyncio.run(ask_all(wire, server.base_url, times=1))
    if isinstance(end, ModelReply):
        assert end.usage is None
    else:
        assert isinstance(end, ModelError)
        assert (end.kind, end.may_bill) == ("provider_unavailable", True)
