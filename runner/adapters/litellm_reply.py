"""Puts a streamed reply together from litellm's chunks, and reads what the provider reported.

Rules of this file:
* Usage is what the provider sent in this stream, or None, and a reply is complete when the provider
  said why it ends. litellm makes up both where the server sends none; only the chunks it kept tell.
* Counts that cannot be true are no counts.
* litellm hands on what a server sent, whatever it is: what has not the type it should have is not
  there, so that a nonsensical reply is charged and answered like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from runner.adapters.litellm_wire import REDACTED, SEALED
from runner.adapters.tool_calls import RawCall, tool_calls
from runner.core.messages import FinishReason, ModelReply, ReasoningBlock, Usage
from runner.ports import Delta

_MAX_TOKENS = 10**9
_CUT = frozenset({"length", "max_tokens"})
_REFUSED = frozenset({"content_filter", "refusal"})


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Thought:
    text: list[str] = field(default_factory=list)
    signature: str | None = None


@dataclass(slots=True)
class ReplyParts:
    """What has arrived of one reply. Of several choices only the first is read."""

    text: list[str] = field(default_factory=list)
    unsigned: list[str] = field(default_factory=list)
    thoughts: dict[int, _Thought] = field(default_factory=dict)
    sealed: list[ReasoningBlock] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    by_index: dict[int, _Call] = field(default_factory=dict)
    finish: str | None = None

    def add(self, chunk: Any) -> Iterator[Delta]:
        """Take one chunk; what it adds to the text and the reasoning is given out."""
        for choice in _list(chunk, "choices"):
            if not getattr(choice, "index", 0):
                self.finish = _text(choice, "finish_reason") or self.finish
                yield from self._take(getattr(choice, "delta", None))

    def refuse(self, text: str) -> Iterator[Delta]:
        """The model would not answer, and said so beside the text."""
        if text:
            self.text.append(text)
            self.finish = "refusal"
            yield Delta(kind="text", text=text)

    def reply(self, *, taken: Collection[str], usage: Usage | None) -> ModelReply:
        """The reply as far as it has come; `taken` are the call ids of earlier replies."""
        if usage and not usage.output_tokens and (self.text or self.calls):
            usage = None  # nothing comes from nothing
        cut = self.finish in _CUT
        raw = (
            RawCall(id=call.id, name=call.name, arguments="".join(call.arguments))
            for call in self.calls
        )
        calls = tool_calls(raw, taken=taken, cut=cut)
        finish: FinishReason = "tool_calls" if calls else "stop"
        if cut or self.finish in _REFUSED:
            finish = "length" if cut else "content_filter"
        return ModelReply(
            text="".join(self.text),
            calls=calls,
            reasoning=tuple(self._reasoning()),
            finish_reason=finish,
            usage=usage,
        )

    def _take(self, delta: Any) -> Iterator[Delta]:
        if content := _text(delta, "content"):
            self.text.append(content)
            yield Delta(kind="text", text=content)
        if reasoning := _text(delta, "reasoning_content"):
            self.unsigned.append(reasoning)
            yield Delta(kind="reasoning", text=reasoning)
        for block in _list(delta, "thinking_blocks"):
            if isinstance(block, dict):
                self._take_thought(SimpleNamespace(**block))
        for item in _list(delta, "reasoning_items"):
            if isinstance(item, dict):
                self._take_item(SimpleNamespace(**item))
        for call in _list(delta, "tool_calls"):
            self._take_call(call)

    def _take_thought(self, block: Any) -> None:
        """A piece of a signed block; its text is in `reasoning_content` too."""
        thought = self.thoughts.setdefault(_index(block, -1), _Thought())
        thought.text.append(_text(block, "thinking"))
        if _text(block, "type") == "redacted_thinking":
            thought.signature = REDACTED + _text(block, "data")
        else:
            thought.signature = _text(block, "signature") or thought.signature

    def _take_item(self, item: Any) -> None:
        """A whole item of OpenAI's responses; its text is in `reasoning_content` too. Without
        what is encrypted the provider would look for an item that it did not keep."""
        if (encrypted := _text(item, "encrypted_content")) and (item_id := _text(item, "id")):
            parts = [part for part in _list(item, "summary") if isinstance(part, dict)]
            text = "\n\n".join(str(part.get("text", "")) for part in parts)
            signature = f"{SEALED}{item_id}:{encrypted}"
            self.sealed.append(ReasoningBlock(text=text, signature=signature))

    def _take_call(self, piece: Any) -> None:
        """A piece of a call. Some servers give every call the index 0, but always a new id."""
        index, call_id = _index(piece, 0), _text(piece, "id")
        function = getattr(piece, "function", None)
        call = self.by_index.get(index)
        if call is None or (call_id and call.id and call_id != call.id):
            call = _Call()
            self.calls.append(call)
            self.by_index[index] = call
        call.id = call.id or call_id
        call.name = call.name or _text(function, "name")
        call.arguments.append(_text(function, "arguments"))

    def _reasoning(self) -> Iterator[ReasoningBlock]:
        signed = [thought for thought in self.thoughts.values() if thought.signature]
        for thought in signed:
            yield ReasoningBlock(text="".join(thought.text), signature=thought.signature)
        yield from self.sealed
        if self.unsigned and not signed and not self.sealed:
            yield ReasoningBlock(text="".join(self.unsigned))


def _text(holder: Any, name: str) -> str:
    value = getattr(holder, name, None)
    return value if isinstance(value, str) else ""


def _list(holder: Any, name: str) -> list[Any]:
    value = getattr(holder, name, None)
    return value if isinstance(value, list) else []


def _index(holder: Any, default: int) -> int:
    value = getattr(holder, "index", None)
    return value if isinstance(value, int) else default


# -- usage ---------------------------------------------------------------------------------------


def is_finished(chunks: Iterable[Any]) -> bool:
    """Whether the provider said why the reply ends, going by the chunks that litellm kept.

    Without it a stream was cut, or the server answered with something that is no reply at all.
    """
    choices = (choice for chunk in chunks for choice in _list(chunk, "choices"))
    return any(_text(choice, "finish_reason") for choice in choices)


def reported_usage(chunks: Iterable[Any]) -> Usage | None:
    """The final usage among the chunks that litellm kept as the provider sent them.

    What is reported before the last part of the reply is a first guess (Anthropic opens with an
    output of 1) and not enough alone; counts are running totals, so the highest are the last.
    """
    final = False
    seen: list[Any] = []
    for chunk in chunks:
        if any(_has_content(getattr(said, "delta", None)) for said in _list(chunk, "choices")):
            final = False
        if (usage := getattr(chunk, "usage", None)) is not None:
            seen.append(usage)
            final = True
    try:
        return _usage(seen) if final else None
    except _Untrue:
        return None


def _has_content(delta: Any) -> bool:
    parts = ("content", "reasoning_content", "thinking_blocks", "tool_calls")
    return any(getattr(delta, part, None) for part in parts)


class _Untrue(Exception):
    """A provider reported a number of tokens that cannot be."""


def _usage(reports: list[Any]) -> Usage:
    """Our disjoint counts. litellm gives both conventions as a prompt with its cached parts; the
    reasoning tokens are its estimate where the provider reports none of them (Anthropic)."""
    inputs = [getattr(report, "prompt_tokens_details", None) for report in reports]
    outputs = [getattr(report, "completion_tokens_details", None) for report in reports]
    prompt = _count(reports, "prompt_tokens")
    read = _count(inputs, "cached_tokens")
    written = _count(inputs, "cache_creation_tokens")
    # Some providers count reasoning beside the output, and show it only in the total.
    output = max(_count(reports, "completion_tokens"), _count(reports, "total_tokens") - prompt)
    # A total that falls back to nothing is a count that litellm could not read.
    taken_back = 0 == _count(reports[-1:], "completion_tokens") < output
    if prompt == 0 or read + written > prompt or taken_back:
        raise _Untrue
    return Usage(
        input_tokens=prompt - read - written,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(_count(outputs, "reasoning_tokens"), output),
    )


def _count(reports: list[Any], name: str) -> int:
    """The highest report of one count; 0 if there is none."""
    given = [value for report in reports if (value := getattr(report, name, None)) is not None]
    if not all(type(value) is int and 0 <= value <= _MAX_TOKENS for value in given):
        raise _Untrue
    return max(given, default=0)
