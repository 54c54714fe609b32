"""Compare an object with the output schema, and record the verdict."""

from __future__ import annotations

from runner.core.events import RunnerOutputCheck
from runner.core.steps import CheckOutput
from runner.engine.engine import Engine


async def check_output(engine: Engine, step: CheckOutput) -> None:
    """Record whether the object fits, or what does not. Raises `JournalError`."""
    schema = engine.recorder.state.need.output_schema
    assert schema is not None, "only a run with a schema has objects to compare"
    assert engine.output_errors is not None, "and somebody to compare them"
    engine.phase = "structured output"
    errors = await engine.output_errors(schema, step.value)
    engine.recorder.record(
        RunnerOutputCheck(
            valid=not errors,
            errors=errors,
            output=None if errors else step.value,
            tool_call_id=step.tool_call_id,
        )
    )
