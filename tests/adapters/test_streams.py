"""The formats of stdout: each exactly what it promises, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from runner.adapters.ci_text import inert
from runner.adapters.outlet import Outlet
from runner.adapters.streams import OutputFormat, format_sink
from runner.core.endings import Ending
from runner.core.events import Event, to_json
from tests.pipes import pipe
from tests.sample_run import IDLE, result_of, stamped, tidy_run


def written(
    name: OutputFormat,
    events: list[Event] | None = None,
    *,
    partial: bool = False,
    ending: Ending | None = None,
    clean: Callable[[str], str] = str,
) -> str:
    """What a format writes about a run."""
    records = stamped(tidy_run() if events is None else events)
    with pipe() as (reader, writer):
        outlet = Outlet(writer)
        sink = format_sink(name, outlet, partial=partial, clean=clean)
        for record in records:
            sink.show(record)
        sink.close(result_of(records, ending))
        assert outlet.close() is None
        os.close(writer)
        with os.fdopen(os.dup(reader)) as file:
            return file.read()


def parsed(text: str) -> list[Any]:
    """The lines as JSON."""
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_text_is_the_answer_and_nothing_else() -> None:
    """stdout is the final text on success."""
    assert written("text") == "All tidy.\n"


def test_text_is_empty_on_any_other_ending() -> None:
    """Nothing is written when the run ended otherwise."""
    ending = Ending(subtype="error_max_turns", message="Reached maximum number of turns (5)")
    assert written("text", ending=ending) == ""


def test_text_passes_through_the_cleaner() -> None:
    """An answer that is a workflow command is inert when the caller says how to clean."""
    assert written("text", tidy_run(answer="::error::x"), clean=inert) == "\\::error::x\n"


def test_json_is_one_object_the_result() -> None:
    """stdout is exactly the result, on one line."""
    assert parsed(written("json")) == [result_of(stamped(tidy_run()))]


def test_stream_json_begins_with_init_and_ends_with_the_result() -> None:
    """One Claude message a line, `system/init` first, one `result`, last."""
    messages = parsed(written("stream-json"))
    kinds = [message.get("subtype") or message["type"] for message in messages]
    assert kinds == [
        "init",
        "assistant",
        "user",
        "assistant",
        "permission_denied",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "success",
    ]
    assert messages[-1] == result_of(stamped(tidy_run()))


def test_stream_json_has_pieces_only_on_request() -> None:
    """`stream_event` messages appear with partial messages and never without."""
    without = [message["type"] for message in parsed(written("stream-json"))]
    with_pieces = [message["type"] for message in parsed(written("stream-json", partial=True))]
    assert "stream_event" not in without
    assert "stream_event" in with_pieces
    assert [kind for kind in with_pieces if kind != "stream_event"] == without


def test_events_are_every_record_and_idle_is_last() -> None:
    """Persisted and ephemeral records alike, pieces only on request, `session.idle` last."""
    events = [*tidy_run(), IDLE]
    everything = [to_json(record) for record in stamped(events)]
    whole = [line for line in everything if line["type"] != "assistant.message_delta"]
    assert parsed(written("events", events, partial=True)) == everything
    assert parsed(written("events", events)) == whole
    assert whole[-1]["type"] == "session.idle"


@pytest.mark.parametrize("name", ["json", "stream-json", "events"])
def test_no_line_of_a_machine_format_is_a_ci_command(name: OutputFormat) -> None:
    """An answer that is a command stands in the JSON unchanged, and is no command there."""
    answer = "##vso[task.setvariable]\n::error::x"
    text = written(name, tidy_run(answer=answer))
    assert "##" not in text
    assert answer in json.dumps(parsed(text)).encode().decode("unicode_escape")
