"""Effort as each provider is sent it, with the real litellm in between, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.core.messages import Assistant, Message, ReasoningBlock, ToolCall, ToolResult, User
from tests.adapters.litellm_calls import WireName, ask_server, request, with_litellm
from tests.servers import ModelServer, T

pytestmark = with_litellm

SONNET, OPUS, GPT, PLAIN = (
    "anthropic/claude-sonnet-4-5",
    "anthropic/claude-opus-4-6",
    "openai/gpt-5",
    "openai/gpt-4o-mini",
)
CALL = ToolCall(id="c1", name="Read", arguments={"file_path": "a"})
RESULT = ToolResult(call_id="c1", name="Read", content="b", is_error=False)
THOUGHT = ReasoningBlock(text="hm", signature="EuYB")


def sent(
    wire: WireName,
    model: str,
    effort: str | None,
    *messages: Message,
    max_output_tokens: int = 8192,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body of the request for one call, and what is said to be left out of it."""
    asked = request(wire, *messages, max_output_tokens=max_output_tokens)
    asked = replace(asked, model=model, effort=effort)
    with ModelServer(wire=wire, steps=[T("ok")]) as server:
        answer = ask_server(server, wire, asked, model=model)
        return server.requests[0].body, answer.reply.left_out


@pytest.mark.parametrize(
    ("wire", "model", "effort", "keys"),
    [
        ("openai", GPT, "high", {"reasoning_effort": "high"}),
        ("openai", "openai/my-own", "max", {"reasoning_effort": "max"}),
        ("anthropic", OPUS, "max", {"output_config": {"effort": "max"}}),
        ("anthropic", SONNET, "high", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
    ],
)
def test_effort_reaches_the_request_in_the_words_of_the_provider(
    wire: WireName, model: str, effort: str, keys: dict[str, Any]
) -> None:
    """Row 119: each level as the provider has it; nothing is said, for nothing was left out."""
    body, said = sent(wire, model, effort)
    assert {key: body.get(key) for key in keys} == keys
    assert said == ()


def test_gemini_thinks_within_a_budget() -> None:
    """Its parameter stands among those of the generation."""
    body, said = sent("gemini", "gemini/gemini-2.5-flash", "low")
    thinks = body["generationConfig"]["thinkingConfig"]
    assert thinks == {"thinkingBudget": 1024, "includeThoughts": True}
    assert said == ()


@pytest.mark.parametrize(("wire", "model"), [("openai", GPT), ("anthropic", SONNET)])
def test_without_effort_nothing_of_it_is_sent(wire: WireName, model: str) -> None:
    """Row 119: the provider's own default applies."""
    body, said = sent(wire, model, None)
    assert not {"reasoning_effort", "thinking", "output_config", "reasoning"} & body.keys()
    assert said == ()


@pytest.mark.parametrize(
    ("model", "effort", "level"),
    [(GPT, "xhigh", "high"), (GPT, "max", "high"), ("openai/gpt-5.2", "max", "xhigh")],
)
def test_a_level_the_model_lacks_becomes_the_next_lower_one(
    model: str, effort: str, level: str
) -> None:
    """And that is said."""
    body, said = sent("openai", model, effort)
    assert body["reasoning_effort"] == level
    assert said == (f"{model} has no effort `{effort}`: `{level}` was sent",)


@pytest.mark.parametrize(
    ("wire", "model"), [("openai", PLAIN), ("anthropic", "anthropic/claude-3-5-haiku-20241022")]
)
def test_a_model_that_takes_no_effort_is_asked_without(wire: WireName, model: str) -> None:
    """The call is made all the same, and what was dropped is said."""
    body, said = sent(wire, model, "high")
    assert not {"reasoning_effort", "thinking", "output_config"} & body.keys()
    assert said == (f"{model} takes no `effort`: it was not sent",)


def test_thinking_leaves_room_for_a_reply() -> None:
    """Anthropic refuses a budget that is not below the output limit: half of it is left."""
    body, said = sent("anthropic", SONNET, "max", max_output_tokens=4000)
    assert (body["thinking"], body["max_tokens"]) == (
        {"type": "enabled", "budget_tokens": 2000},
        4000,
    )
    assert "less than `effort: max`" in said[0]


def test_a_reply_too_short_to_think_in_is_asked_for_without() -> None:
    """Below the least budget nothing is sent, and no thought of earlier replies goes with it."""
    earlier = Assistant(text="", calls=(CALL,), reasoning=(THOUGHT,))
    history = (User(text="go"), earlier, RESULT)
    body, said = sent("anthropic", SONNET, "low", *history, max_output_tokens=1000)
    assert "thinking" not in body
    assert "EuYB" not in str(body["messages"])
    assert "less than `effort: low`" in said[0]
    whole, said = sent("anthropic", SONNET, "low", *history)
    assert "EuYB" in str(whole["messages"])
    assert said == ()


def test_calls_made_without_thinking_are_answered_without() -> None:
    """Another model's turn cannot be taken up by a thinking one; the next turn can."""
    earlier = Assistant(text="", calls=(CALL,))
    body, said = sent("anthropic", SONNET, "low", User(text="go"), earlier, RESULT)
    assert "thinking" not in body
    assert "cannot begin to think" in said[0]
    body, said = sent("anthropic", SONNET, "low", User(text="a"), earlier, RESULT, User(text="b"))
    assert (body["thinking"]["budget_tokens"], said) == (1024, ())
