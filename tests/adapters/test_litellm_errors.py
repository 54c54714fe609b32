"""Failures of providers, over real wires: what they mean for the run, and what a person reads."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from email.utils import formatdate
from typing import Any, NamedTuple

import pytest

from runner.ports import ModelError, ModelErrorKind
from tests.adapters.litellm_calls import (
    KEY,
    LONG_TEXT,
    MODELS,
    WireName,
    failure,
    imported,
    model_at,
    on_all_wires,
    raw,
    request,
    with_litellm,
)
from tests.servers import F, Step, T

pytestmark = with_litellm

WITH_A_KEY = [MODELS[wire] for wire in MODELS if wire != "responses"]
"""Where litellm wants a key before it asks; for responses it leaves that to the provider."""


class Outcome(NamedTuple):
    """What a failure means."""

    kind: ModelErrorKind
    retryable: bool
    status: int | None
    may_bill: bool = False


def outcome(error: ModelError) -> Outcome:
    """The decisive fields of an error."""
    return Outcome(error.kind, error.retryable, error.status_code, error.may_bill)


@on_all_wires
@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "invalid_request", False),
        (401, "authentication", False),
        (402, "quota", False),
        (403, "authentication", False),
        (404, "model_not_found", False),
        (408, "provider_unavailable", True),
        (409, "provider_unavailable", True),
        (413, "invalid_request", False),
        (422, "invalid_request", False),
        (429, "rate_limit", True),
        (500, "provider_unavailable", True),
        (502, "provider_unavailable", True),
        (503, "provider_unavailable", True),
        (529, "provider_unavailable", True),
    ],
)
def test_a_status_decides(
    wire: WireName, status: int, kind: ModelErrorKind, retryable: bool
) -> None:
    """Kind and retry follow from what the server answered, the same on both wires."""
    error = failure(wire, F(status, "no luck today"))
    assert outcome(error) == Outcome(kind, retryable, status)
    assert error.message == "no luck today"


@on_all_wires
@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "Your credit balance is too low to access the API", "quota"),
        (429, "You exceeded your current quota, please check your plan and billing", "quota"),
        (403, "Insufficient balance", "quota"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "context_limit"),
        (400, "This model's maximum context length is 128000 tokens.", "context_limit"),
        (400, "The model `gpt-9` does not exist", "model_not_found"),
        (429, "You exceeded your current quota. Please retry in 12.5s.", "rate_limit"),
    ],
)
def test_the_wording_decides_where_a_status_does_not(
    wire: WireName, status: int, message: str, kind: ModelErrorKind
) -> None:
    """Quota, context and unknown models come under many statuses."""
    error = failure(wire, F(status, message))
    assert (error.kind, error.status_code, error.message) == (kind, status, message)
    assert error.retryable == (kind == "rate_limit")


@on_all_wires
def test_a_quota_code_is_quota(wire: WireName) -> None:
    """An empty account is not waited for, though its status is 429 and it names a wait."""
    body = {"error": {"message": "sorry", "type": "insufficient_quota"}}
    error = failure(wire, F(429, body, {"retry-after": "7"}))
    assert outcome(error) == Outcome("quota", False, 429)
    assert (error.message, error.retry_after_s) == ("sorry", None)


@on_all_wires
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "Wed, 01 Jan 2020 00:00:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_the_servers_wait_is_read(
    wire: WireName, headers: dict[str, str], seconds: float | None
) -> None:
    """Seconds, milliseconds and dates; nonsense is no wait."""
    assert failure(wire, F(429, "slow down", headers)).retry_after_s == seconds


@on_all_wires
def test_a_date_is_read_by_the_servers_clock(wire: WireName) -> None:
    """The wait is the distance from the date of the answer to the date it names."""
    headers = {"retry-after": formatdate(time.time() + 90, usegmt=True)}
    wait_s = failure(wire, F(503, "back soon", headers)).retry_after_s
    assert wait_s == pytest.approx(90, abs=5)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please retry in 12.5s.", 12.5),
        ("Rate limit reached. Please try again in 250ms.", 0.25),
        ("Please try again in 6m0s.", 360),
        ("Please try again in a while.", None),
    ],
)
def test_a_wait_in_words_is_read(words: str, seconds: float | None) -> None:
    """Google and OpenAI name the wait in the message too, or only there."""
    assert failure("openai", F(429, words)).retry_after_s == seconds


def test_a_wait_in_a_detail_is_read() -> None:
    """Google's own field for it, with a sentence that has no number."""
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    body = {"error": {"code": 429, "message": "slow", "details": [detail]}}
    assert failure("gemini", F(429, body)).retry_after_s == 34.5


@on_all_wires
def test_an_error_without_words_is_its_status(wire: WireName) -> None:
    """A body that says nothing, or a page: the status, or the title of the page."""
    assert failure(wire, F(500, b"")).message == "HTTP status 500"
    assert failure(wire, F(502, b"<html>oops</html>")).message == "HTTP status 502"
    page = b"<html><head><title>504 Gateway Time-out</title></head></html>"
    assert failure(wire, F(504, page)).message == "504 Gateway Time-out"


@pytest.mark.parametrize(
    ("wire", "body", "kind"),
    [
        ("openai", {"message": "no", "type": "x", "code": "insufficient_quota"}, "quota"),
        ("openai", {"message": "no", "type": "x", "code": "rate_limit_exceeded"}, "rate_limit"),
        ("openai", {"message": "no", "code": "context_length_exceeded"}, "context_limit"),
        ("responses", {"message": "no", "code": "insufficient_quota"}, "quota"),
        ("responses", {"message": "no", "code": "rate_limit_exceeded"}, "rate_limit"),
        ("anthropic", {"type": "x", "message": "your credit balance is too low"}, "quota"),
        ("gemini", {"code": 429, "message": "no", "status": "RESOURCE_EXHAUSTED"}, "rate_limit"),
    ],
)
@pytest.mark.parametrize("chunks", [0, 4])
def test_an_error_in_a_stream_has_its_kind(
    wire: WireName, chunks: int, body: dict[str, Any], kind: ModelErrorKind
) -> None:
    """By its code or its words; the request was accepted, so it may be billed."""
    error = failure(wire, Step(text=LONG_TEXT, error_after_chunks=chunks, error={"error": body}))
    assert (error.kind, error.may_bill) == (kind, True)
    assert error.retryable == (kind == "rate_limit")


@on_all_wires
@pytest.mark.parametrize(
    "step",
    [
        Step(text=LONG_TEXT, cut_after_chunks=6),
        Step(text=LONG_TEXT, end_after_chunks=6),
        Step(text=LONG_TEXT, error_after_chunks=6, status=529, error="overloaded"),
        Step(text=LONG_TEXT, error_after_chunks=0, status=529, error="overloaded"),
        replace(T(LONG_TEXT), error_after_chunks=6, error=b"data: {not json\n\n"),
        Step(drop=True),
    ],
    ids=["cut", "end", "error event", "error first", "garbage", "drop"],
)
def test_a_broken_stream_may_be_billed_and_is_repeated(wire: WireName, step: Step) -> None:
    """The request was accepted, so the provider may charge for it."""
    error = failure(wire, step)
    assert outcome(error) == Outcome("provider_unavailable", True, None, may_bill=True)


@on_all_wires
def test_a_lost_connection_has_a_plain_message(wire: WireName) -> None:
    """The same sentence on both wires, without the names of classes."""
    message = "the connection was lost before the reply was complete"
    assert failure(wire, Step(text=LONG_TEXT, cut_after_chunks=6)).message == message
    assert failure(wire, Step(drop=True)).message == message


def test_a_count_that_is_no_number_breaks_the_stream() -> None:
    """litellm cannot read such a reply; the attempt may be billed."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    usage = {"prompt_tokens": 10, "completion_tokens": float("nan"), "total_tokens": 15}
    choices = [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]
    step = raw({**head, "choices": choices}, {**head, "choices": [], "usage": usage}, "[DONE]")
    assert outcome(failure("openai", step)) == Outcome(
        "provider_unavailable", True, None, may_bill=True
    )


def ask_nobody(wire: WireName, api_base: str, **more: Any) -> ModelError:
    """The error of a call that reaches no server."""

    async def call() -> None:
        await imported()
        model = model_at(wire, api_base, **more)
        try:
            await model.ask(request(wire), lambda delta: None)
        finally:
            await model.aclose()

    with pytest.raises(ModelError) as caught:
        asyncio.run(call())
    return caught.value


@on_all_wires
def test_an_unreachable_provider_bills_nothing(wire: WireName) -> None:
    """Nothing was sent, so nothing can be charged, and it is tried again."""
    error = ask_nobody(wire, "http://127.0.0.1:9/v1")
    assert outcome(error) == Outcome("provider_unavailable", True, None)
    assert error.message.startswith("cannot connect: ")
    assert "127.0.0.1" in error.message


def test_an_unknown_provider_is_an_unknown_model() -> None:
    """The id names no provider that litellm knows; the message is one short sentence."""
    error = ask_nobody("openai", "http://127.0.0.1:9", model="no-such-provider/x")
    assert outcome(error) == Outcome("model_not_found", False, 400)
    assert error.message == "LLM Provider NOT provided"


@pytest.mark.parametrize("model", [*WITH_A_KEY, "gemini/gemini-2.5-pro"])
def test_a_missing_key_is_authentication(model: str) -> None:
    """No key at all is no passing failure, though litellm says 500 for some providers."""
    error = ask_nobody("openai", "", model=model, api_key="")
    assert error.kind == "authentication"
    assert (error.retryable, error.may_bill) == (False, False)


@on_all_wires
def test_messages_are_one_short_line_without_the_key(wire: WireName) -> None:
    """The key is blotted out, further lines and all beyond 300 characters are dropped."""
    message = failure(wire, F(401, f"bad key {KEY}, see\nthe manual")).message
    assert message in ("bad key ***, see", "bad key REDACTED, see")  # litellm knows some places
    assert len(failure(wire, F(400, "x" * 5000)).message) == 300


@on_all_wires
@pytest.mark.parametrize("body", [b"<html>bad</html>", b"", b"\xff\xfe", b"[1]", b'{"error": 5}'])
def test_any_body_is_survived(wire: WireName, body: bytes) -> None:
    """A message is there whatever the body is."""
    error = failure(wire, F(502, body))
    assert outcome(error) == Outcome("provider_unavailable", True, 502)
    assert 0 < len(error.message) <= 300
    assert "litellm" not in error.message
