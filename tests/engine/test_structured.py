"""Structured output over a fake validator: what is compared, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.core.events import RunnerOutputCheck
from tests.fakes import call, done, reply
from tests.logs import task
from tests.stage import play_out, set_stage

SCHEMA = {"type": "object", "required": ["a"]}


async def errors(schema: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[str, ...]:
    """`a` must be there."""
    assert schema == SCHEMA
    return () if "a" in value else ("the object: 'a' is missing",)


def test_each_object_is_compared_once_and_the_verdict_recorded() -> None:
    """A mismatch with its errors, a match with the object; the result has it."""
    answers = [
        reply("", call("StructuredOutput", b=1)),
        reply("", call("StructuredOutput", a=[1, {"x": None}])),
        done(),
    ]
    stage = set_stage(answers, spec=task(output_schema=SCHEMA))
    stage.engine.output_errors = errors
    play_out(stage)
    first, second = stage.events(RunnerOutputCheck)
    assert (first.valid, first.errors, first.output) == (
        False,
        ("the object: 'a' is missing",),
        None,
    )
    assert (second.valid, second.errors, second.output) == (True, (), {"a": [1, {"x": None}]})
    assert stage.result is not None
    assert stage.result["structured_output"] == {"a": [1, {"x": None}]}
