"""Whether every tool call of a conversation has exactly one result: providers refuse any other."""

from __future__ import annotations

from collections.abc import Sequence

from runner.core.messages import Assistant, Message, ToolResult


class PairingError(RuntimeError):
    """A conversation that no provider takes. It is ours to build, so this is a bug, never sent."""


def check_pairing(messages: Sequence[Message], known: int = 0) -> None:
    """Raise `PairingError` naming the call unless the results of each assistant message follow it
    at once, one for each of its calls. The first `known` messages were checked before; what they
    end with is looked at again, as its results may be among the new ones."""
    start = min(known, len(messages))
    while start and isinstance(messages[start - 1], ToolResult):
        start -= 1
    open_calls: set[str] = set()
    for message in messages[max(start - 1, 0) :]:
        if isinstance(message, ToolResult):
            if message.call_id not in open_calls:
                raise PairingError(f"the result for call {message.call_id} answers no open call")
            open_calls.remove(message.call_id)
            continue
        _none_open(open_calls)
        open_calls = _called(message)
    _none_open(open_calls)


def _called(message: Message) -> set[str]:
    calls = [call.id for call in message.calls] if isinstance(message, Assistant) else []
    twice = next((call_id for call_id in calls if calls.count(call_id) > 1), None)
    if twice is not None:
        raise PairingError(f"call {twice} is made twice in one reply")
    return set(calls)


def _none_open(calls: set[str]) -> None:
    if calls:
        raise PairingError(f"call {min(calls)} has no result")
