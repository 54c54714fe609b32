"""Replies that are not as they should be, through the command on every wire: the model is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.e2e.desk import Played, Wire
from tests.e2e.warm import WarmDesk
from tests.servers import D, Step, T, Tool, X
from tests.servers.http import WIRE_FORMATS

WarmDesks = Callable[[Wire], WarmDesk]

on_every_wire = pytest.mark.parametrize("wire", WIRE_FORMATS)
TALK = {"responses": "input", "gemini": "contents"}
"""The name of the conversation in a request; `messages` on the other wires."""

READ = Tool(name="Read", arguments={"file_path": "README.md"})
BROKEN = '{"file_path": "README.md"'
CUT = '{"file_path": "REA'


@on_every_wire
def test_the_model_is_told_what_was_wrong_with_its_calls(warm_desk: WarmDesks, wire: Wire) -> None:
    """No JSON, arguments that were cut off, an unknown tool, a wrong type, text beside a call:
    each call has its one result, good ones beside bad ones run, and the run goes on."""
    steps = [
        X(Tool(name="Read", arguments=BROKEN), READ, text="Both."),
        X(READ),
        replace(X(Tool(name="Read", arguments=CUT)), finish_reason="length"),
        X(READ),
        X(("Raed", {"file_path": "README.md"}), ("Read", {"file_path": ["README.md"]})),
        D("done"),
    ]
    played = warm_desk(wire).play(steps)
    assert played.exit_code == 0, played.stderr
    errors = played.tool_errors()
    text = wire != "gemini"  # whose arguments are an object, so that text for one is not cut off
    assert "not valid JSON" in errors[0] if text else "not a JSON object" in errors[0]
    assert "cut off" in errors[1] if text else "not a JSON object" in errors[1]
    assert "Raed" in errors[2]
    assert "file_path" in errors[3]
    assert len(errors) == 4
    for number, error in ((1, errors[0]), (3, errors[1]), (5, errors[2]), (5, errors[3])):
        assert error[:40] in talk(played, number)
    assert talk(played, 1).count("A small project") == 1


@on_every_wire
def test_unreadable_arguments_are_kept_and_not_sent_back(warm_desk: WarmDesks, wire: Wire) -> None:
    """The log has them as they were written; the provider gets a call without arguments, as some
    refuse a history with text that is no JSON."""
    played = warm_desk(wire).play([X(Tool(name="Read", arguments=BROKEN)), D("done")])
    assert played.exit_code == 0, played.stderr
    (asked,) = played.of("assistant.message")[0]["toolRequests"]
    assert asked["arguments"] == {}
    assert asked["rawArguments"] == (BROKEN if wire != "gemini" else json.dumps(BROKEN))
    sent = [json.loads(told) for told in arguments_sent(played.requests[1])]
    assert sent == [{}]


@on_every_wire
def test_three_malformed_replies_end_the_run(warm_desk: WarmDesks, wire: Wire) -> None:
    """An empty reply, no JSON, an unknown tool: the third in a row is the last."""
    steps = [Step(), X(Tool(name="Read", arguments=BROKEN)), X(("Raed", {}))]
    played = warm_desk(wire).play(steps, pricing={"input_per_mtok": 1, "output_per_mtok": 2})
    assert (played.exit_code, played.result["error_type"]) == (1, "malformed_replies")
    assert len(played.requests) == 3
    assert len(played.of("session.usage_checkpoint")) == 3
    assert played.result["total_cost_usd"] > 0


@on_every_wire
def test_a_sound_reply_between_malformed_ones_counts_anew(warm_desk: WarmDesks, wire: Wire) -> None:
    """Two malformed replies, a good one, two more: the run goes on."""
    bad = [X(Tool(name="Read", arguments=BROKEN)), X(("Raed", {}))]
    played = warm_desk(wire).play([*bad, X(READ), *bad, D("done")])
    assert played.exit_code == 0, played.stderr


@pytest.mark.parametrize("wire", ["openai", "responses", "anthropic"])
def test_every_call_has_an_id_of_its_own(warm_desk: WarmDesks, wire: Wire) -> None:
    """An id used twice in a reply is a problem of the second call; one that is used again later
    is changed. In every request each call has exactly one result."""
    twice = [replace(READ, id="one"), replace(READ, id="one")]
    played = warm_desk(wire).play([X(*twice), X(replace(READ, id="one")), D("done")])
    assert played.exit_code == 0, played.stderr
    assert [error for error in played.tool_errors() if "used twice" in error]
    asked = [
        call["toolCallId"] for m in played.of("assistant.message") for call in m["toolRequests"]
    ]
    assert asked[:3] == ["one", "one_2", "one_3"]
    assert len(set(asked)) == len(asked)


@on_every_wire
def test_text_that_no_terminal_can_show_stops_nothing(warm_desk: WarmDesks, wire: Wire) -> None:
    """Half a surrogate pair, a null, an escape: in text, arguments and names."""
    odd = "a\ud800b\0c\x1b[31m"
    steps = [
        X(Tool(name="Re\ud800ad", arguments={}), Tool(name="Read", arguments={"file_path": odd})),
        T(odd),
        D(odd),
    ]
    for form in ("text", "stream-json"):
        played = warm_desk(wire).play(steps, "--output-format", form)
        assert played.exit_code == 0, played.stderr
        assert "\x1b[31m" not in played.stderr


def test_only_the_first_choice_counts(warm_desk: WarmDesks) -> None:
    """What a second choice asks for is not run."""

    def choice(index: int, delta: dict[str, Any], finish: str | None = None) -> str:
        one = {"index": index, "delta": delta, "finish_reason": finish}
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return f"data: {json.dumps({**head, 'choices': [one]})}\n\n"

    call = {
        "index": 0,
        "id": "b",
        "function": {"name": "Bash", "arguments": '{"command": "touch b"}'},
    }
    frames = [
        choice(0, {"content": "Hm."}),
        choice(1, {"tool_calls": [call]}),
        choice(0, {}, "stop"),
        choice(1, {}, "tool_calls"),
    ]
    desk = warm_desk("openai")
    two = Step(error_after_chunks=0, error="".join(frames).encode())
    played = desk.play([two, D("done")])
    assert played.exit_code == 0, played.stderr
    assert played.of("assistant.message")[0]["content"] == "Hm."
    assert desk.read("b") is None


@pytest.mark.parametrize(
    ("wire", "sealed"),
    [
        ("anthropic", {"type": "thinking", "thinking": "I weigh it up", "signature": "c2VhbGVk"}),
        (
            "responses",
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "I weigh it up"}],
                "encrypted_content": "c2VhbGVk",
            },
        ),
        (
            "gemini",
            {
                "function_call": {"name": "Read", "args": {"file_path": "README.md"}},
                "thoughtSignature": "c2VhbGVk",
            },
        ),
    ],
)
def test_signed_reasoning_goes_back_as_it_came(
    warm_desk: WarmDesks, wire: Wire, sealed: dict[str, Any]
) -> None:
    """With the calls it led to, in every later request, also in a run that was resumed."""
    desk = warm_desk(wire)
    thinking = Step(tools=(READ,), thinking="I weigh it up", signature="c2VhbGVk")
    first = desk.play([thinking, X(READ), T("Hm."), T("Well.")], max_autopilot_continues=1)
    with desk.started([D("done")], "--resume", first.result["session_id"]) as running:
        again = running.finish()
    assert (first.exit_code, again.exit_code) == (6, 0), first.stderr + again.stderr
    for request in (*first.requests[1:], *again.requests):
        assert sealed in [
            without_id(block) for block in blocks(request[TALK.get(wire, "messages")])
        ]


def talk(played: Played, number: int) -> str:
    """The newest part of the conversation in a request, as text."""
    request = played.requests[number]
    spoken = next(request[name] for name in ("messages", "input", "contents") if name in request)
    return json.dumps(spoken, ensure_ascii=False).replace('\\"', '"')


def blocks(value: Any) -> list[dict[str, Any]]:
    """Every object in it, at any depth."""
    if isinstance(value, list):
        return [block for inner in value for block in blocks(inner)]
    if isinstance(value, dict):
        return [value, *(block for inner in value.values() for block in blocks(inner))]
    return []


def without_id(block: dict[str, Any]) -> dict[str, Any]:
    """The object without what is new in every run."""
    return {key: value for key, value in block.items() if key not in ("id", "cache_control")}


def arguments_sent(request: dict[str, Any]) -> list[str]:
    """The arguments of every call in a request, as JSON."""
    named = ("arguments", "args")
    request = {key: value for key, value in request.items() if key != "tools"}  # not definitions
    text = [
        block[name]
        for block in blocks(request)
        for name in named
        if isinstance(block.get(name), str)
    ]
    whole = [block["args"] for block in blocks(request) if isinstance(block.get("args"), dict)]
    used = [block["input"] for block in blocks(request) if block.get("type") == "tool_use"]
    return [*text, *(json.dumps(value) for value in (*whole, *used))]
