"""Asking a real litellm against loopback servers: replies, usage, limits, cancelling, silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.core.messages import (
    Assistant,
    FinishReason,
    ModelReply,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from tests import servers
from tests.adapters.litellm_calls import (
    WireName,
    ask,
    on_all_wires,
    on_text_wires,
    raw,
    request,
    with_litellm,
)
from tests.servers import DEFAULT_USAGE, Step, T, Tool, X, openai_responses

pytestmark = with_litellm

ROOT = Path(__file__).parents[2]
REPORTED = Usage(input_tokens=100, output_tokens=20)


# -- replies -------------------------------------------------------------------------------------


@on_all_wires
def test_text_is_streamed_and_put_together(wire: WireName) -> None:
    """The pieces add up to the text; the counts are those of the provider."""
    text = "naïve \N{ROCKET} line\nline"
    asked = ask(wire, T(text))
    assert asked.reply == ModelReply(text=text, usage=REPORTED)
    assert len(asked.deltas) > 2
    assert "".join(delta.text for delta in asked.deltas) == text


@on_text_wires
def test_calls_are_read(wire: WireName) -> None:
    """Arguments split over many pieces are whole again; broken ones are a problem."""
    good = Tool(name="Read", arguments={"path": "a long/path to.py", "n": [1, None]}, id="one")
    bad = Tool(name="Bash", arguments='{"command": ', id="two")
    reply = ask(wire, X(good, bad, text="Let me see")).reply
    assert (reply.text, reply.finish_reason) == ("Let me see", "tool_calls")
    assert reply.calls[0] == ToolCall(
        id="one", name="Read", arguments={"path": "a long/path to.py", "n": [1, None]}
    )
    assert (reply.calls[1].id, reply.calls[1].arguments) == ("two", {})
    assert str(reply.calls[1].problem).startswith("arguments are not valid JSON: ")


@on_text_wires
def test_a_call_that_was_cut_off_is_a_problem(wire: WireName) -> None:
    """Arguments that end at the output limit are not run."""
    step = replace(X(("Read", '{"path": "a')), finish_reason="length")
    reply = ask(wire, step).reply
    assert reply.finish_reason == "length"
    assert reply.calls[0].problem == "the arguments are cut off: the reply reached its output limit"


@on_all_wires
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_the_reason_to_stop_is_ours(wire: WireName, reason: FinishReason) -> None:
    """Each wire's word for it is translated, a refusal by Anthropic included."""
    reply = ask(wire, Step(text="x", finish_reason=reason)).reply
    assert reply == ModelReply(text="x", finish_reason=reason, usage=REPORTED)


@pytest.mark.parametrize(
    ("wire", "signature"),
    [("openai", None), ("anthropic", "c2lnbmVk"), ("gemini", None), ("responses", "c2lnbmVk")],
    ids=["openai", "anthropic", "gemini", "responses"],
)
def test_reasoning_is_kept_with_its_signature(wire: WireName, signature: str | None) -> None:
    """Reasoning is apart from the text, signed where the wire has signatures."""
    asked = ask(wire, Step(text="done", thinking="let me think", signature="c2lnbmVk"))
    (block,) = asked.reply.reasoning
    told, _, sealed = (block.signature or "").rpartition(":")
    assert (block.text, sealed or None) == ("let me think", signature)
    assert told.startswith("openai:rs_") if wire == "responses" else not told
    assert asked.reply.text == "done"
    reasoning = [delta.text for delta in asked.deltas if delta.kind == "reasoning"]
    assert "".join(reasoning) == "let me think"


def choice(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> dict[str, Any]:
    """A chunk of the OpenAI wire."""
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}],
    }


def call(
    index: int, name: str | None, arguments: str, call_id: str | None = None
) -> dict[str, Any]:
    """A piece of a tool call."""
    function = {"name": name, "arguments": arguments}
    return choice({"tool_calls": [{"index": index, "id": call_id, "function": function}]})


def counted(**counts: Any) -> dict[str, Any]:
    """The chunk with the usage."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, **counts}
    return {**choice({}), "choices": [], "usage": usage}


REFUSED = ModelReply(text="I cannot do that.", finish_reason="content_filter", usage=REPORTED)


def test_a_refusal_in_its_own_field_is_a_refusal() -> None:
    """OpenAI's models say no beside the content; litellm keeps neither the words nor the fact."""
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    step = raw(
        choice({"role": "assistant", "content": None, "refusal": ""}),
        *(choice({"refusal": piece}) for piece in ("I cannot", " do that.")),
        choice({}, "stop"),
        counted(**usage),
        "[DONE]",
    )
    asked = ask("openai", step)
    assert asked.reply == REFUSED
    assert "".join(delta.text for delta in asked.deltas) == REFUSED.text


def test_a_refusal_of_responses_is_a_refusal() -> None:
    """There it is a part of the message, with events of its own."""
    said = T(REFUSED.text)
    frames = "".join(openai_responses.frames(said, {"model": "m"}))
    frames = frames.replace("output_text.d", "refusal.d").replace("output_text", "refusal")
    step = Step(error_after_chunks=0, error=frames.replace('"text":', '"refusal":').encode())
    assert ask("responses", step).reply == REFUSED


def test_calls_without_an_id_get_one() -> None:
    """The id is new in the conversation when the provider sends none."""
    earlier = Assistant(text="", calls=(ToolCall(id="call_2", name="A", arguments={}),))
    asked = request(
        "openai", User(text="x"), earlier, ToolResult(call_id="call_2", name="A", content="")
    )
    step = raw(call(0, "A", "{}"), call(1, "B", ""), choice({}, "tool_calls"), counted(), "[DONE]")
    assert ask("openai", step, asked).reply.calls == (
        ToolCall(id="call_2_2", name="A", arguments={}),
        ToolCall(id="call_3", name="B", arguments={}),
    )


def test_an_id_that_is_used_twice_is_a_problem() -> None:
    """Both calls have a result to come, so the second gets an id of its own."""
    step = raw(
        call(0, "A", "{}", "a"), call(1, "B", "{}", "a"), choice({}, "tool_calls"), counted()
    )
    assert ask("openai", step).reply.calls == (
        ToolCall(id="a", name="A", arguments={}),
        ToolCall(
            id="a_2",
            name="B",
            arguments={},
            problem="the call id a is used twice in one reply",
            raw_arguments="{}",
        ),
    )


def test_calls_that_share_an_index_are_told_apart() -> None:
    """A new id starts a new call, as servers send it that number every call 0."""
    step = raw(
        call(0, "A", '{"x": ', "a"),
        call(0, None, "1}"),
        call(0, "B", "{}", "b"),
        choice({}, "tool_calls"),
        counted(),
    )
    assert ask("openai", step).reply.calls == (
        ToolCall(id="a", name="A", arguments={"x": 1}),
        ToolCall(id="b", name="B", arguments={}),
    )


def test_only_the_first_choice_is_read() -> None:
    """A second choice of the same reply is not mixed in."""
    step = raw(
        choice({"content": "one"}),
        choice({"content": "TWO"}, index=1),
        choice({"content": "!"}),
        choice({}, "stop"),
        choice({}, "stop", index=1),
        counted(),
    )
    assert ask("openai", step).reply.text == "one!"


def test_a_hundred_equal_pieces_are_a_reply() -> None:
    """A text that repeats itself is a text: litellm takes it for a loop and fails."""
    step = raw(*[choice({"content": "0, 0, "})] * 150, choice({}, "stop"), counted())
    assert ask("openai", step).reply.text == "0, 0, " * 150


@pytest.mark.parametrize(
    "delta",
    [
        {"content": 5},
        {"content": [{"type": "text", "text": "hi"}]},
        {"reasoning_content": {"a": 1}},
        {"tool_calls": [{"index": 0, "id": 7, "function": {"name": "A", "arguments": "{}"}}]},
        {"tool_calls": [{"index": "a", "id": "b", "function": {"name": "A"}}]},
        {"tool_calls": [{"index": 0, "id": "b", "function": None}]},
        {"tool_calls": {"a": 1}},
        None,
    ],
    ids=["number", "list", "object", "id", "index", "function", "no list", "nothing"],
)
def test_a_piece_of_nonsense_is_left_out_and_the_reply_charged(delta: Any) -> None:
    """What has a type that no reply has is not there: the usage is known, nothing is raised."""
    reply = ask("openai", raw(choice(delta), choice({}, "stop"), counted())).reply
    assert reply.text == ""
    assert reply.usage == Usage(input_tokens=10, output_tokens=5)


# -- usage ---------------------------------------------------------------------------------------


@on_text_wires
def test_cached_tokens_are_apart(wire: WireName) -> None:
    """The counts are disjoint, though one wire counts the cache inside and one beside."""
    usage = servers.Usage(
        input_tokens=10, output_tokens=5, cache_read_tokens=700, cache_write_tokens=200
    )
    assert ask(wire, T("x", usage=usage)).reply.usage == Usage(
        input_tokens=10, output_tokens=5, cache_read_tokens=700, cache_write_tokens=200
    )


@on_all_wires
def test_missing_usage_is_none(wire: WireName) -> None:
    """None when the provider reports nothing, although litellm makes an estimate up."""
    assert ask(wire, Step(text="hello", omit_usage=True)).reply == ModelReply(text="hello")


@pytest.mark.parametrize(
    "counts",
    [
        {"prompt_tokens": -3},
        {"completion_tokens": -1},
        {"prompt_tokens": 10**12},
        {"prompt_tokens": 0, "total_tokens": 5},
        {"completion_tokens": 0, "total_tokens": 10},
        {"prompt_tokens_details": {"cached_tokens": 11}},
    ],
    ids=str,
)
def test_impossible_counts_are_no_usage(counts: dict[str, Any]) -> None:
    """None when a count cannot be true for a reply with text."""
    step = raw(choice({"content": "x"}), choice({}, "stop"), counted(**counts), "[DONE]")
    assert ask("openai", step).reply == ModelReply(text="x")


def test_reasoning_beside_the_output_is_output() -> None:
    """The total decides when a provider leaves reasoning out of the output."""
    details = {"reasoning_tokens": 25}
    usage = counted(total_tokens=40, completion_tokens_details=details)
    step = raw(choice({"content": "x"}), choice({}, "stop"), usage, "[DONE]")
    assert ask("openai", step).reply.usage == Usage(
        input_tokens=10, output_tokens=30, reasoning_tokens=25
    )


def test_running_totals_are_not_added_up() -> None:
    """The last report counts when every chunk has one."""
    first = {**choice({"content": "x"}), "usage": counted(total_tokens=11)["usage"]}
    first["usage"]["completion_tokens"] = 1
    last = {**choice({}, "stop"), "usage": counted()["usage"]}
    assert ask("openai", raw(first, last)).reply.usage == Usage(input_tokens=10, output_tokens=5)


def anthropic_events(final_usage: dict[str, int] | None, **false: object) -> Step:
    """A reply whose opening reports the input, and whose end reports `final_usage`."""
    opening = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 700,
        "output_tokens": 1,
        **false,
    }
    message = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return raw(
        {"type": "message_start", "message": {**message, "usage": opening}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_stop", "index": 0},
        delta if final_usage is None else {**delta, "usage": final_usage},
        {"type": "message_stop"},
    )


def test_anthropic_reports_in_two_parts() -> None:
    """The input of the opening and the output of the end are one usage."""
    assert ask("anthropic", anthropic_events({"output_tokens": 9})).reply.usage == Usage(
        input_tokens=10, output_tokens=9, cache_read_tokens=700, cache_write_tokens=200
    )


def test_the_opening_alone_is_no_usage() -> None:
    """None when only the opening reports: its output of 1 is a placeholder."""
    assert ask("anthropic", anthropic_events(None)).reply == ModelReply(text="x")


def test_a_false_count_of_the_opening_is_not_forgotten() -> None:
    """The end alone would be a bill without the tokens of the cache."""
    step = anthropic_events({"input_tokens": 10, "output_tokens": 9}, cache_read_input_tokens="7")
    assert ask("anthropic", step).reply == ModelReply(text="x")


def test_the_default_counts_are_the_servers() -> None:
    """What `REPORTED` stands for."""
    assert (REPORTED.input_tokens, REPORTED.output_tokens) == (
        DEFAULT_USAGE.input_tokens,
        DEFAULT_USAGE.output_tokens,
    )
