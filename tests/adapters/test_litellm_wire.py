"""What a provider receives: the conversation on both wires, as its API wants it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from runner.adapters.litellm_wire import Dialect, Wiring, speaks_anthropic, wire_messages
from runner.core.messages import (
    Assistant,
    Message,
    ModelRequest,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    User,
)
from tests.adapters.litellm_calls import (
    READ,
    WireName,
    ask,
    ask_server,
    on_all_wires,
    request,
    with_litellm,
)
from tests.servers import ModelServer, Step, T

pytestmark = with_litellm

MARK = {"type": "ephemeral"}
DIALECTS: tuple[Dialect, ...] = ("anthropic", "responses", "other")


def received(wire: WireName, asked: ModelRequest, **more: Any) -> dict[str, Any]:
    """The body of the one request."""
    with ModelServer(wire=wire, steps=[T("ok")]) as server:
        ask_server(server, wire, asked, **more)
    return server.requests[0].body


def messages(wire: WireName, *sent: Message) -> list[dict[str, Any]]:
    """The messages of the body, for a request without a system prompt."""
    body = received(wire, request(wire, *sent, system=""))
    found: list[dict[str, Any]] = body[
        {"responses": "input", "gemini": "contents"}.get(wire, "messages")
    ]
    return found


CALLS = (
    ToolCall(id="t1", name="Read", arguments={"path": "é"}),
    ToolCall(id="t2", name="Read", arguments={}, problem="arguments are not valid JSON"),
)
HISTORY: tuple[Message, ...] = (
    User(text="Hello"),
    Assistant(
        text="I look",
        calls=CALLS,
        reasoning=(
            ReasoningBlock(text="hm", signature="c2ln"),
            ReasoningBlock(text="so", signature="openai:rs_1:U0VBTA=="),
        ),
    ),
    ToolResult(call_id="t1", name="Read", content="one"),
    ToolResult(call_id="t2", name="Read", content="", is_error=True),
    User(text="Go on"),
)


def test_a_whole_conversation_on_the_openai_wire() -> None:
    """Roles, calls and results; no signed reasoning, no cache marks, nothing of ours."""
    body = received("openai", request("openai", *HISTORY))
    calls = [
        {
            "id": "t1",
            "type": "function",
            "function": {"name": "Read", "arguments": '{"path": "é"}'},
        },
        {"id": "t2", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
    ]
    assert body["messages"] == [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "I look", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "t1", "content": "one"},
        {"role": "tool", "tool_call_id": "t2", "content": ""},
        {"role": "user", "content": "Go on"},
    ]
    function = {"name": "Read", "description": "Read a file", "parameters": READ.input_schema}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert set(body) == {"model", "messages", "tools", "max_tokens", "stream", "stream_options"}
    assert body["stream_options"] == {"include_usage": True}


def test_a_whole_conversation_on_the_anthropic_wire() -> None:
    """Signed reasoning goes back before the calls; cache marks end the two stable prefixes."""
    body = received("anthropic", request("anthropic", *HISTORY))
    assert body["system"] == [{"type": "text", "text": "Be brief", "cache_control": MARK}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": MARK}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "é"}},
                {"type": "tool_use", "id": "t2", "name": "Read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "t2", "content": ""},
                {"type": "text", "text": "Go on", "cache_control": MARK},
            ],
        },
    ]
    assert [tool["name"] for tool in body["tools"]] == ["Read"]
    assert "tool_choice" not in body


def test_four_marks_are_the_most() -> None:
    """System prompt, first message, the end of the last request, the newest message."""
    calls = [Assistant(text="x", calls=(replace(CALLS[0], id=f"t{n}"),)) for n in range(3)]
    results = [ToolResult(call_id=f"t{n}", name="Read", content="one") for n in range(3)]
    pairs = [message for pair in zip(calls, results, strict=True) for message in pair]
    body = received("anthropic", request("anthropic", User(text="a"), *pairs))
    marks = ["cache_control" in json.dumps(message) for message in body["messages"]]
    assert marks == [True, False, False, False, True, False, True]
    assert json.dumps(body).count("cache_control") == 4


@pytest.mark.parametrize(
    ("model", "speaks"),
    [
        ("anthropic/claude-sonnet-4-5", True),
        ("claude-sonnet-4-5", True),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("bedrock/converse/anthropic.claude-3-5-haiku-20241022-v1:0", True),
        ("bedrock/amazon.nova-pro-v1:0", False),
        ("vertex_ai/claude-sonnet-4-5", True),
        ("vertex_ai/gemini-2.5-flash", False),
        ("openrouter/anthropic/claude-sonnet-4.5", False),
        ("openai/gpt-4o", False),
    ],
)
def test_marks_go_to_claude_wherever_it_is_hosted(model: str, speaks: bool) -> None:
    """Others would refuse them, or are known to cache by themselves."""
    assert speaks_anthropic(model) == speaks


def test_a_result_at_the_end_is_marked() -> None:
    """The mark stands on the newest result when the conversation ends with one."""
    newest = ToolResult(call_id="t2", name="Read", content="two")
    sent = messages("anthropic", *HISTORY[:3], newest)[-1]["content"]
    assert [block.get("cache_control") for block in sent] == [None, MARK]


@on_all_wires
@pytest.mark.parametrize("limit", [16, 256, 99_999])
def test_the_output_limit_is_exact(wire: WireName, limit: int) -> None:
    """What was reserved is what is asked for, neither more nor less."""
    body = received(wire, request(wire, max_output_tokens=limit))
    place = body["generationConfig"] if wire == "gemini" else body
    name = "max_output_tokens" if wire in ("gemini", "responses") else "max_tokens"
    assert place[name] == limit


@pytest.mark.parametrize("model", ["openai/gpt-5", "openai/o3"])
def test_newer_models_take_the_limit_under_its_new_name(model: str) -> None:
    """`max_completion_tokens` holds the limit when the model refuses `max_tokens`."""
    body = received("openai", request("openai", max_output_tokens=77), model=model)
    assert body["max_completion_tokens"] == 77
    assert "max_tokens" not in body


@on_all_wires
def test_without_tools_none_are_sent(wire: WireName) -> None:
    """No empty list, which servers refuse."""
    assert "tools" not in received(wire, request(wire, tools=()))


@on_all_wires
def test_an_empty_reply_is_left_out(wire: WireName) -> None:
    """Neither an empty text nor a sentence of litellm's own stands in the history."""
    sent = messages(wire, User(text="a"), Assistant(text=" \n"), User(text="b"))
    text = json.dumps(sent)
    assert {message["role"] for message in sent} == {"user"}
    assert ('"a"' in text, '"b"' in text, "sanitised" in text) == (True, True, False)


@on_all_wires
def test_a_call_without_text_has_no_text(wire: WireName) -> None:
    """The assistant message holds the calls alone."""
    sent = messages(
        wire,
        User(text="a"),
        Assistant(text="", calls=CALLS[:1]),
        ToolResult(call_id="t1", name="Read", content="x"),
    )
    match wire:
        case "openai":
            assert not sent[1].get("content")
        case "anthropic":
            assert [block["type"] for block in sent[1]["content"]] == ["tool_use"]
        case "responses":
            types = [item["type"] for item in sent]
            assert types == ["message", "function_call", "function_call_output"]
        case "gemini":
            assert [list(part) for part in sent[1]["parts"]] == [["function_call"]]


@on_all_wires
def test_an_invented_tool_name_is_made_sendable(wire: WireName) -> None:
    """Providers refuse a history with names that no tool could have."""
    call = ToolCall(id="t1", name="rm -rf /é" + "x" * 99, arguments={})
    sent = messages(
        wire,
        User(text="a"),
        Assistant(text="", calls=(call,)),
        ToolResult(call_id="t1", name=call.name, content="no such tool"),
    )
    name = ("rm_-rf___" + "x" * 99)[:64]
    assert name in json.dumps(sent)


def test_reasoning_of_responses_goes_back_to_them_only() -> None:
    """Encrypted as it came, before what it led to; to Anthropic only what Anthropic signed."""
    sent = messages("responses", *HISTORY)
    assert [item["type"] for item in sent] == [
        "message",
        "reasoning",
        "message",
        *["function_call"] * 2,
        *["function_call_output"] * 2,
        "message",
    ]
    assert sent[1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "so"}],
        "encrypted_content": "U0VBTA==",
    }
    assert "U0VBTA==" not in json.dumps(messages("anthropic", *HISTORY))
    assert "U0VBTA==" not in json.dumps(messages("openai", *HISTORY))


def test_nothing_is_kept_at_the_provider_of_responses() -> None:
    """And what is thought comes along encrypted, from models that think."""
    thinks = received("responses", request("responses"))
    assert (thinks["store"], thinks["include"]) == (False, ["reasoning.encrypted_content"])
    quick = received("responses", request("responses"), model="openai/responses/gpt-4o-mini")
    assert (quick["store"], "include" in quick) == (False, False)


@on_all_wires
def test_lone_surrogates_do_not_stop_a_request(wire: WireName) -> None:
    """Text that UTF-8 cannot hold arrives with question marks."""
    call = ToolCall(id="t1\ud800", name="Read\ud800", arguments={"path": "p\ud800"})
    sent = messages(
        wire,
        User(text="u\ud800"),
        Assistant(text="a\udfff", calls=(call,)),
        ToolResult(call_id="t1\ud800", name="Read\ud800", content="r\udc80é"),
    )
    text = json.dumps(sent, ensure_ascii=False)
    assert all(part in text for part in ("u?", "a?", "p?", "r?é"))


def test_unsigned_reasoning_goes_back_where_there_are_no_signatures() -> None:
    """Some servers need it within a chain of calls; Anthropic's would refuse it."""
    thinking = Assistant(text="x", reasoning=(ReasoningBlock(text="because"),))
    history = (User(text="a"), thinking, User(text="b"))
    assert messages("openai", *history)[1]["reasoning_content"] == "because"
    assert "because" not in json.dumps(messages("anthropic", *history))


def test_encrypted_reasoning_goes_back_as_it_came() -> None:
    """Anthropic's redacted blocks survive the way through a reply into the next request."""
    start = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    usage = {"input_tokens": 5, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "usage": usage}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "redacted_thinking", "data": "RU5D"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]
    frames = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    reply = ask("anthropic", Step(error_after_chunks=0, error=frames.encode())).reply
    again = Assistant(text=reply.text, reasoning=reply.reasoning)
    sent = messages("anthropic", User(text="a"), again, User(text="b"))
    assert sent[1]["content"] == [
        {"type": "redacted_thinking", "data": "RU5D"},
        {"type": "text", "text": "x"},
    ]


@on_all_wires
def test_the_prefix_is_stable(wire: WireName) -> None:
    """A longer conversation starts with the very messages of the shorter one, marks apart."""

    def plain(sent: list[dict[str, Any]]) -> list[str]:
        return [
            json.dumps(message).replace(', "cache_control": ' + json.dumps(MARK), "")
            for message in sent
        ]

    short = plain(messages(wire, *HISTORY[:1]))
    long = plain(messages(wire, *HISTORY))
    assert long[: len(short)] == short


def test_what_is_kept_of_a_conversation_changes_no_request() -> None:
    """A longer, a shortened and a rewritten history are sent as if each were the first."""
    rewritten = (*HISTORY[:2], ToolResult(call_id="t1", name="Read", content="cut"), *HISTORY[3:])
    for dialect in DIALECTS:
        wiring = Wiring(dialect)
        for history in (HISTORY[:4], HISTORY, rewritten, HISTORY[:1], HISTORY, (), HISTORY):
            asked = request("openai", *history)
            assert wiring.messages(asked) == wire_messages(asked, dialect)


def test_edits_of_a_sent_request_do_not_reach_the_next() -> None:
    """litellm edits messages in place, at any depth; what is kept stays as it was."""
    for dialect in DIALECTS:
        wiring, asked = Wiring(dialect), request("openai", *HISTORY)
        for message in wiring.messages(asked):
            spoil(message)
        assert wiring.messages(asked) == wire_messages(asked, dialect)


def spoil(value: Any) -> None:
    """Empty everything that can be edited, from the inside out."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            spoil(inner)
        value.clear()


def test_a_message_is_converted_once() -> None:
    """The text of a kept message is the same object in the next request."""
    wiring = Wiring("other")
    first = wiring.messages(request("openai", *HISTORY[:4]))[2]
    again = wiring.messages(request("openai", *HISTORY))[2]
    arguments = [sent["tool_calls"][0]["function"]["arguments"] for sent in (first, again)]
    assert arguments[0] == '{"path": "é"}'
    assert arguments[0] is arguments[1]
