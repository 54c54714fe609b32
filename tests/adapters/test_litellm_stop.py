"""Why a reply ended: each provider's own word for it becomes one of ours, on every wire."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from runner.core.messages import FinishReason
from tests.adapters.litellm_calls import WireName, ask, with_litellm
from tests.servers import Step, T, X
from tests.servers.http import WIRES

pytestmark = with_litellm

TEXT, CALL = T("hello"), X(("Read", {"path": "a"}))
SAID = {
    "openai": r'("finish_reason": )"\w+"',
    "anthropic": r'("stop_reason": )"\w+"',
    "gemini": r'("finishReason": )"\w+"',
    "responses": r'("incomplete_details": {"reason": )"\w+"',
}
WHOLE = "completed"
OURS: list[tuple[WireName, Step, str, FinishReason]] = [
    ("openai", TEXT, "stop", "stop"),
    ("openai", TEXT, "length", "length"),
    ("openai", TEXT, "content_filter", "content_filter"),
    ("openai", CALL, "tool_calls", "tool_calls"),
    ("openai", CALL, "function_call", "tool_calls"),
    ("openai", CALL, "stop", "tool_calls"),
    ("openai", CALL, "length", "length"),
    ("openai", TEXT, "something_new", "stop"),
    ("anthropic", TEXT, "end_turn", "stop"),
    ("anthropic", TEXT, "stop_sequence", "stop"),
    ("anthropic", TEXT, "max_tokens", "length"),
    ("anthropic", TEXT, "model_context_window_exceeded", "length"),
    ("anthropic", TEXT, "refusal", "content_filter"),
    ("anthropic", CALL, "tool_use", "tool_calls"),
    ("anthropic", CALL, "max_tokens", "length"),
    ("gemini", TEXT, "STOP", "stop"),
    ("gemini", TEXT, "MAX_TOKENS", "length"),
    ("gemini", TEXT, "SAFETY", "content_filter"),
    ("gemini", TEXT, "PROHIBITED_CONTENT", "content_filter"),
    ("gemini", TEXT, "RECITATION", "content_filter"),
    ("gemini", CALL, "STOP", "tool_calls"),
    ("responses", TEXT, WHOLE, "stop"),
    ("responses", CALL, WHOLE, "tool_calls"),
    ("responses", TEXT, "max_output_tokens", "length"),
    ("responses", TEXT, "content_filter", "content_filter"),
    ("responses", CALL, "max_output_tokens", "length"),
]


@pytest.mark.parametrize(("wire", "step", "word", "ours"), OURS)
def test_the_providers_word_becomes_ours(
    wire: WireName, step: Step, word: str, ours: FinishReason
) -> None:
    """Of a reply that has text or calls; calls that are whole are calls, whatever the word."""
    if wire == "responses" and word != WHOLE:  # which ends with an event of its own
        step = replace(step, finish_reason="length")
    frames = "".join(WIRES[wire].frames(step, {"stream_options": {"include_usage": True}}))
    told, count = re.subn(SAID[wire], rf'\1"{word}"', frames)
    assert bool(count) == (word != WHOLE)
    reply = ask(wire, Step(error_after_chunks=0, error=told.encode())).reply
    assert reply.finish_reason == ours
