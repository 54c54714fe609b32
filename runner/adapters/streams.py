"""The four formats of stdout, as sinks.

Rules of this file: a format is whole lines; `json` is one object and `text` one answer, written
when the run is over; nobody reading any more is not an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, assert_never

from runner.adapters.ci_text import inert_json
from runner.adapters.outlet import Outlet
from runner.core import events
from runner.core.events import (
    AssistantMessageDelta,
    AssistantReasoningDelta,
    Record,
    ToolExecutionPartialResult,
)
from runner.core.state import State
from runner.core.views import ClaudeView
from runner.ports import Sink

OutputFormat = Literal["text", "json", "stream-json", "events"]

DELTAS = (AssistantMessageDelta, AssistantReasoningDelta, ToolExecutionPartialResult)
"""Events that only repeat, in pieces, what a later event says whole."""

SETTLE_S = 1.0
"""How long the last word on stderr waits for the answer on stdout."""


class Text:
    """The final answer, and nothing on any other ending."""

    def __init__(self, outlet: Outlet, clean: Callable[[str], str]) -> None:
        self._outlet = outlet
        self._clean = clean

    def catch_up(self, state: State) -> None:
        """Nothing: what was before was shown before."""

    def show(self, record: Record) -> None:
        """Nothing: the answer is known at the end."""

    def close(self, result: Mapping[str, Any]) -> None:
        """Write the answer of a success."""
        answer = result.get("result")
        if "structured_output" in result:  # it is the answer; a text beside it is none
            answer = json_line(result["structured_output"])
        if result["subtype"] == "success" and answer:
            self._outlet.write(self._clean(answer.rstrip("\n")) + "\n")
            self._outlet.settle(SETTLE_S)  # where both are one screen, the last word comes after


class Json:
    """One object: the result."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def catch_up(self, state: State) -> None:
        """Nothing: what was before was shown before."""

    def show(self, record: Record) -> None:
        """Nothing: there is one result, at the end."""

    def close(self, result: Mapping[str, Any]) -> None:
        """Write it."""
        self._outlet.write(json_line(result))


class StreamJson:
    """Claude's messages, one a line, the result last."""

    def __init__(self, outlet: Outlet, *, partial: bool, hooks: bool) -> None:
        self._outlet = outlet
        self._view = ClaudeView(partial=partial, hooks=hooks)

    def catch_up(self, state: State) -> None:
        """Nothing: what was before was shown before."""

    def show(self, record: Record) -> None:
        """Write the messages this record stands for."""
        for message in self._view.feed(record):
            self._outlet.write(json_line(message))

    def close(self, result: Mapping[str, Any]) -> None:
        """Write the result."""
        self._outlet.write(json_line(result))


class Events:
    """Every record, persisted or not, one a line; `session.idle` is the last."""

    def __init__(self, outlet: Outlet, *, partial: bool) -> None:
        self._outlet = outlet
        self._partial = partial

    def catch_up(self, state: State) -> None:
        """Nothing: what was before was shown before."""

    def show(self, record: Record) -> None:
        """Write the record; a piece of something only when pieces were asked for."""
        if self._partial or not isinstance(record.event, DELTAS):
            self._outlet.write(json_line(events.to_json(record)))

    def close(self, result: Mapping[str, Any]) -> None:
        """Nothing: the result was an event."""


def format_sink(
    name: OutputFormat,
    outlet: Outlet,
    *,
    partial: bool,
    clean: Callable[[str], str],
    hooks: bool = False,
) -> Sink:
    """The sink that writes this format; `clean` makes the answer fit for where it is read."""
    match name:
        case "text":
            return Text(outlet, clean)
        case "json":
            return Json(outlet)
        case "stream-json":
            return StreamJson(outlet, partial=partial, hooks=hooks)
        case "events":
            return Events(outlet, partial=partial)
        case _:
            assert_never(name)


def json_line(value: Mapping[str, Any]) -> str:
    """A value as one line of ASCII that no CI system takes for a command."""
    return inert_json(json.dumps(value, separators=(",", ":"))) + "\n"
