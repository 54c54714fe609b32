"""The JSON Schemas of events and results describe what is really written."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from runner.core.endings import EXIT_ROWS, Ending
from runner.core.events import (
    EPHEMERAL_TYPES,
    PERSISTED_TYPES,
    RunnerResult,
    to_json,
)
from runner.reports.schemas import event_schema, result_schema
from tests.sample_run import IDLE, result_of, stamped, tidy_run


def problems(schema: Any, value: Any) -> list[str]:
    """What the schema has against a value."""
    return [error.message for error in Draft202012Validator(schema).iter_errors(value)]


def test_the_schemas_are_schemas() -> None:
    """Both are valid JSON Schema 2020-12."""
    Draft202012Validator.check_schema(event_schema())
    Draft202012Validator.check_schema(result_schema())


def test_every_event_of_a_run_fits() -> None:
    """Persisted and ephemeral records, the result among them, are valid."""
    records = stamped(tidy_run())
    everything = [*tidy_run(), RunnerResult(result=result_of(records)), IDLE]
    schema = event_schema()
    assert [problems(schema, to_json(record)) for record in stamped(everything)] == [
        [] for _ in everything
    ]


@pytest.mark.parametrize("row", [row for row in EXIT_ROWS if row.subtype], ids=lambda r: r.code)
def test_the_result_of_every_ending_fits(row: Any) -> None:
    """Each ending's result is valid."""
    ending = Ending(subtype=row.subtype, error_type=row.error_types[0] if row.error_types else None)
    assert problems(result_schema(), result_of(stamped(tidy_run()), ending)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"seq": -1},
        {"seq": None},
        {"prev": "x"},
        {"id": None},
        {"data": {"sessionId": 1}},
    ],
)
def test_an_event_that_is_not_as_promised_does_not_fit(change: dict[str, Any]) -> None:
    """A wrong envelope and a wrong payload are both found."""
    line = copy.deepcopy(to_json(stamped(tidy_run())[0]))
    assert problems(event_schema(), line) == []
    assert problems(event_schema(), line | change) != []


def test_a_type_that_is_not_known_fits() -> None:
    """A newer runner's event is valid, as a reader is to skip it."""
    line = to_json(stamped(tidy_run())[0]) | {"type": "session.new_thing", "data": {"x": 1}}
    assert problems(event_schema(), line) == []


def test_every_event_type_is_described() -> None:
    """No type is missing from the schema."""
    named = [part["if"]["properties"]["type"]["const"] for part in event_schema()["allOf"]]
    assert sorted(named) == sorted([*PERSISTED_TYPES, *EPHEMERAL_TYPES])
