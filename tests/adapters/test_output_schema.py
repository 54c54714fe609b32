"""Comparing an object with a schema in a process of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runner.adapters import output_schema
from runner.adapters.output_worker import errors

A = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def compared(schema: dict[str, Any], value: dict[str, Any]) -> tuple[str, ...]:
    return asyncio.run(output_schema.output_errors(schema, value))


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (A, {"a": 1}, ()),
        (A, {}, ("the object: 'a' is a required property",)),
        (A, {"a": "x"}, ("/a: 'x' is not of type 'integer'",)),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}},
            {"a": 1},
            ("the object: 'b' is a dependency of 'a'",),
        ),
        ({"properties": {"d": {"format": "date"}}}, {"d": "no date"}, ()),
        ({"$ref": "#"}, {}, ("the schema or the object is nested too deeply to be compared",)),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(
    schema: dict[str, Any], value: dict[str, Any], told: tuple[str, ...]
) -> None:
    """Both drafts; `format` is a remark; a schema without end is no hang."""
    assert compared(schema, value) == told


def test_many_and_long_errors_are_cut() -> None:
    """Ten, and how many more; each at most a few lines long."""
    schema = {"additionalProperties": {"type": "integer"}}
    told = list(errors(schema, {str(n): "x" * 1_000 for n in range(15)}))
    assert len(told) == 11
    assert told[-1] == "and 5 more"
    assert max(map(len, told)) < 450


def test_a_pattern_that_takes_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The object does not fit; nothing is left running."""
    monkeypatch.setattr(output_schema, "LIMIT_S", 0.7)
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    (told,) = compared(schema, {"a": "a" * 50 + "!"})
    assert told.startswith("the object could not be compared")
