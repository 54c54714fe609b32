"""Looks on while litellm reads a stream: what the provider sent that litellm does not hand on.

Rules of this file:
* litellm's streams are told what to do with each piece by one method; it is wrapped, on that one
  object. Where it is not found, nothing is known, and what litellm hands on has to do.
* Gemini: litellm gives every piece of a reply a reason to end, so that a stream that was cut looks
  whole. Only the last piece has one, or a piece that says why the prompt was blocked.
* OpenAI has a field of its own for refusals, which litellm drops with its content.
* Anthropic and Gemini: litellm stumbles over a report of usage that is null or has text for a
  count, and the reply with it. It is not shown such a report.
* OpenAI's responses: litellm passes over what is no JSON, makes up the usage that is missing, and
  does not close the connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_LAST_OF_A_RESPONSE = frozenset({"response.completed", "response.incomplete"})
_REPORTS = ("usage", "usageMetadata")
_COUNTS = ("_tokens", "TokenCount")


@dataclass(slots=True)
class Onlooker:
    """One stream. `cut` says that a reply has no end, or a hole; `unpaid` that its usage is made
    up or false; `refusal` is what the model said in the place of a reply."""

    cut: bool = False
    unpaid: bool = False
    refusal: str = ""
    _finished: bool = False
    _response: Any = None

    def follow(self, stream: Any) -> None:
        """Look on at a stream that nothing was read from yet."""
        if hasattr(stream, "chunk_creator"):
            _wrap(stream, "chunk_creator", self._note_chat)
        opening = getattr(stream, "make_call", None)
        if opening is None:
            self._look_on(getattr(stream, "completion_stream", None))
            return

        async def opened(**options: Any) -> Any:
            pieces = await opening(**options)
            self._look_on(pieces)
            return pieces

        stream.make_call = opened  # litellm opens it with the first read

    async def aclose(self) -> None:
        """Close what litellm leaves open when it closes the stream."""
        if self._response is not None:
            await self._response.aclose()

    def _look_on(self, pieces: Any) -> None:
        if hasattr(pieces, "_output_cap"):
            # Told to by the server, litellm goes on with a second request, unseen and unpaid.
            pieces._output_cap = None
            _wrap(pieces, "chunk_parser", self._note_gemini, self._take_out)
        elif hasattr(pieces, "_handle_usage"):
            _wrap(pieces, "chunk_parser", self._take_out)
        elif hasattr(response := getattr(pieces, "streaming_response", None), "_process_chunk"):
            _wrap(response, "_process_chunk", self._note_response)
            self._response = response

    def _note_chat(self, piece: Any) -> None:
        for choice in getattr(piece, "choices", None) or ():
            refusal = getattr(getattr(choice, "delta", None), "refusal", None)
            self.refusal += refusal if isinstance(refusal, str) else ""

    def _note_gemini(self, piece: Any) -> None:
        candidates = _value(piece, "candidates")
        parts = candidates if isinstance(candidates, list) else []
        blocked = _value(_value(piece, "promptFeedback"), "blockReason")
        self._finished |= bool(blocked) or any(_value(part, "finishReason") for part in parts)
        self.cut = not self._finished

    def _take_out(self, piece: Any) -> None:
        for holder in (piece, _value(piece, "message")):
            for name in _REPORTS:
                report = _value(holder, name)
                if isinstance(holder, dict) and name in holder and not _is_readable(report):
                    del holder[name]
                    self.unpaid |= report is not None

    def _note_response(self, data: Any) -> None:
        try:
            event = json.loads(data)
        except (ValueError, TypeError, RecursionError):
            self.cut |= bool(data) and data != "[DONE]"
            return
        if _value(event, "type") == "response.refusal.delta":
            refusal = _value(event, "delta")
            self.refusal += refusal if isinstance(refusal, str) else ""
        if _value(event, "type") in _LAST_OF_A_RESPONSE:
            self.unpaid = _value(_value(event, "response"), "usage") is None


def _is_readable(report: Any) -> bool:
    if not isinstance(report, dict):
        return False
    counts = [value for name, value in report.items() if name.endswith(_COUNTS)]
    return all(value is None or type(value) is int for value in counts)


def _wrap(holder: Any, name: str, *notes: Callable[[Any], None]) -> None:
    """Show each piece to the `notes` before the method gets it."""
    method = getattr(holder, name)

    def wrapped(*pieces: Any, **named: Any) -> Any:
        for piece in (*pieces, *named.values()):
            for note in notes:
                note(piece)
        return method(*pieces, **named)

    setattr(holder, name, wrapped)


def _value(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else None
