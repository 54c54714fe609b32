"""Every call of a conversation has its one result before anything is sent."""

from __future__ import annotations

import pytest

from runner.adapters.litellm_wire import Wiring
from runner.adapters.pairing import PairingError, check_pairing
from runner.core.messages import Assistant, Message, ModelRequest, ToolCall, ToolResult, User


def calls(*ids: str) -> Assistant:
    """A reply with these calls."""
    return Assistant(
        text="", calls=tuple(ToolCall(id=call, name="Read", arguments={}) for call in ids)
    )


def result(call_id: str) -> ToolResult:
    """The answer to a call."""
    return ToolResult(call_id=call_id, name="Read", content="")


ASK = User(text="go")
WHOLE: list[Message] = [ASK, calls("a", "b"), result("b"), result("a"), Assistant(text="x"), ASK]


@pytest.mark.parametrize("known", range(len(WHOLE) + 2))
def test_a_whole_conversation_passes(known: int) -> None:
    """From wherever it is checked, results in any order."""
    check_pairing(WHOLE, known)
    check_pairing([], known)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([ASK, calls("a", "b"), result("a")], "call b has no result"),
        ([ASK, calls("a"), ASK, result("a")], "call a has no result"),
        ([ASK, calls("a"), result("a"), result("a")], "call a answers no open call"),
        ([ASK, result("a")], "call a answers no open call"),
        ([result("a")], "call a answers no open call"),
        ([ASK, calls("a", "a"), result("a")], "call a is made twice"),
    ],
)
def test_a_broken_conversation_names_the_call(messages: list[Message], problem: str) -> None:
    """A call without a result, a result without a call, two results, two calls with one id."""
    with pytest.raises(PairingError, match=problem):
        check_pairing(messages)


@pytest.mark.parametrize("known", [1, 2, 3])
def test_what_is_known_is_looked_at_as_far_as_it_is_open(known: int) -> None:
    """A result that is new may belong to a reply that is known."""
    check_pairing(WHOLE[:4], known)
    with pytest.raises(PairingError, match="call a has no result"):
        check_pairing(WHOLE[:3], known)


def test_a_request_that_is_broken_is_never_built() -> None:
    """The messages of a request are checked as they are converted, the second time too."""
    wiring = Wiring("other")
    assert len(wiring.messages(asked(*WHOLE))) == len(WHOLE)
    with pytest.raises(PairingError, match="call c has no result"):
        wiring.messages(asked(*WHOLE, calls("c"), ASK))


def asked(*messages: Message) -> ModelRequest:
    """A request with these messages."""
    return ModelRequest(model="m", system="", messages=messages, tools=(), max_output_tokens=1)
