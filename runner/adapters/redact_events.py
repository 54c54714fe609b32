"""Masks events before their line is built, and pieces of text that come one after the other."""

from __future__ import annotations

from dataclasses import replace

from runner.adapters.redact import Mask, Stream
from runner.core.events import (
    AssistantMessage,
    AssistantMessageDelta,
    AssistantReasoning,
    AssistantReasoningDelta,
    Ephemeral,
    Persisted,
    ToolExecutionComplete,
    ToolExecutionPartialResult,
)

StreamKey = tuple[str, str]


class EventMask:
    """The `Redaction` of a run."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._streams: dict[StreamKey, Stream] = {}

    def text(self, text: str) -> str:
        """See the port."""
        return self._mask.text(text)

    def fact(self, event: Persisted) -> Persisted:
        """See the port."""
        masked = self._mask.value(event)
        if isinstance(event, AssistantMessage) and isinstance(masked, AssistantMessage):
            return _unsigned(masked, event)
        return masked

    def live(self, event: Ephemeral) -> tuple[Ephemeral, ...]:
        """See the port."""
        match event:
            case AssistantMessageDelta(message_id=id_, delta_content=text):
                shown = self._feed(("text", id_), text)
                return (replace(event, delta_content=shown),) if shown else ()
            case AssistantReasoningDelta(reasoning_id=id_, delta_content=text):
                shown = self._feed(("reasoning", id_), text)
                return (replace(event, delta_content=shown),) if shown else ()
            case ToolExecutionPartialResult(tool_call_id=id_, partial_output=text):
                shown = self._feed(("tool", id_), text)
                return (replace(event, partial_output=shown),) if shown else ()
            case _:
                return (self._mask.value(event),)

    def before(self, event: Persisted) -> tuple[Ephemeral, ...]:
        """See the port."""
        match event:
            case AssistantReasoning(reasoning_id=id_):
                return self._rest_of_reasoning(id_)
            case AssistantMessage(message_id=id_):
                rest = self._close(("text", id_))
                told = (AssistantMessageDelta(message_id=id_, delta_content=rest),) if rest else ()
                return (*self._rest_of_reasoning(id_), *told)
            case ToolExecutionComplete(tool_call_id=id_):
                rest = self._close(("tool", id_))
                partial = ToolExecutionPartialResult(tool_call_id=id_, partial_output=rest)
                return (partial,) if rest else ()
            case _:
                return ()

    def _rest_of_reasoning(self, id_: str) -> tuple[Ephemeral, ...]:
        rest = self._close(("reasoning", id_))
        return (AssistantReasoningDelta(reasoning_id=id_, delta_content=rest),) if rest else ()

    def _feed(self, key: StreamKey, text: str) -> str:
        if not self._mask:
            return text
        return self._streams.setdefault(key, self._mask.stream()).feed(text)

    def _close(self, key: StreamKey) -> str:
        stream = self._streams.pop(key, None)
        return stream.close() if stream else ""


def _unsigned(masked: AssistantMessage, before: AssistantMessage) -> AssistantMessage:
    """A signature vouches for a text as it was: one that was changed loses it."""
    pairs = zip(masked.reasoning, before.reasoning, strict=True)
    blocks = tuple(
        new if new.text == old.text else replace(new, signature=None) for new, old in pairs
    )
    return replace(masked, reasoning=blocks) if blocks != masked.reasoning else masked
