"""Laws of the codec: nothing is lost on the way to disk and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core import wire
from runner.core.events import (
    EPHEMERAL_TYPES,
    PERSISTED_TYPES,
    Event,
    Record,
    RunnerResult,
    from_json,
    to_json,
)
from runner.core.spec import TaskSpec
from tests.laws.strategies import envelopes, events_of, json_values, of, records, texts

TYPES = {**PERSISTED_TYPES, **EPHEMERAL_TYPES}


def through_json(record: Record) -> Any:
    return json.loads(json.dumps(to_json(record), allow_nan=False))


@pytest.mark.parametrize("name", list(TYPES))
@given(data=st.data())
def test_a_record_of_every_type_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    """What is read is what was written, whatever the event."""
    numbers: dict[str, Any] = {"seq": 7, "prev": "ab"} if name in PERSISTED_TYPES else {}
    event: Event = data.draw(events_of(TYPES[name]))
    envelope: dict[str, Any] = data.draw(envelopes)
    record = Record(event=event, **envelope, **numbers)
    assert from_json(through_json(record)) == record


@given(record=records, extra=json_values)
def test_keys_of_a_newer_version_are_skipped(record: Record, extra: Any) -> None:
    """A line reads the same with keys nobody knows, in the envelope and in the data."""
    line = through_json(record) | {"unknown_key": extra}
    if not isinstance(record.event, RunnerResult):  # a result is kept as it is
        line["data"] = line["data"] | {"unknown_key": extra}
    assert from_json(line) == record


@given(record=records, name=texts.filter(lambda name: name not in TYPES))
def test_types_of_a_newer_version_are_skipped(record: Record, name: str) -> None:
    """A line of a type nobody knows reads as nothing."""
    assert from_json(through_json(record) | {"type": name}) is None


@given(spec=of(TaskSpec))
def test_a_spec_comes_back_as_it_was(spec: TaskSpec) -> None:
    """The spec that is read from a log is the one that was recorded."""
    assert wire.decode(TaskSpec, json.loads(json.dumps(wire.encode(spec)))) == spec
