"""How a prompt ended, as a program reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from runner.app import Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one prompt ended.

    `ok` holds when the task is done: the model said so, and every check of the spec passed.
    `subtype`, `error_type` and `exit_code` say what else happened, as `autopilot exit-codes`
    tells. `text` is the answer, `structured_output` the object of an `output_schema`; both only
    when `ok`, and `errors` only when not. `cost_usd` is what this prompt cost, in US dollars,
    `duration_ms` how long it took. `folder` is the session's, None when none could be had.
    `problems` are what went wrong beside the run: a listener that failed, a report that could not
    be written. `fields` is the whole object of `result.json`.
    """

    ok: bool
    subtype: str
    error_type: str | None
    exit_code: int
    text: str | None
    structured_output: Mapping[str, Any] | None
    errors: tuple[str, ...]
    session_id: str
    num_turns: int
    num_tool_turns: int
    cost_usd: Decimal
    duration_ms: int
    folder: Path | None
    problems: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(repr=False)


def result_of(finished: Finished, problems: tuple[str, ...]) -> Result:
    """The result of a run that is over, and what its listeners did wrong."""
    told = finished.result
    return Result(
        ok=not told["is_error"],
        subtype=told["subtype"],
        error_type=told.get("error_type"),
        exit_code=finished.exit_code,
        text=told.get("result"),
        structured_output=told.get("structured_output"),
        errors=tuple(told.get("errors") or ()),
        session_id=told["session_id"],
        num_turns=told["num_turns"],
        num_tool_turns=told["num_tool_turns"],
        cost_usd=Decimal(str(told["total_cost_usd"])),
        duration_ms=told["duration_ms"],
        folder=finished.folder,
        problems=(*finished.problems, *problems),
        fields=told,
    )
