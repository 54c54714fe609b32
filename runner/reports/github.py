"""What a GitHub job is told of a run: the outputs of its step, and an annotation.

Formats: the files behind `GITHUB_OUTPUT` and the commands of a log, as GitHub documents them under
"Workflow commands".

Rules of this file: a value of others can neither end an output nor begin a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runner.core.words import count, one_line
from runner.reports import facts
from runner.reports.digest import Digest

MESSAGE_CHARS = 2000


def step_outputs(result: Mapping[str, Any], *, patch: str) -> dict[str, str]:
    """The outputs of the step, from a result. `patch` is a path, or empty."""
    return {
        "ending": str(result.get("error_type") or result["subtype"]),
        "exit-code": str(result["exit_code"]),
        "session-id": str(result["session_id"]),
        "cost": str(result["total_cost_usd"]),
        "patch": patch,
    }


def output_file(values: Mapping[str, str], new_id: Callable[[], str]) -> str:
    """Lines for the file behind `GITHUB_OUTPUT`; `new_id` gives delimiters nobody can foresee."""
    lines = []
    for name, value in values.items():
        delimiter = f"autopilot-{new_id()}"
        while delimiter in value:
            delimiter = f"autopilot-{new_id()}"
        lines += [f"{name}<<{delimiter}", value, delimiter]
    return "\n".join(lines) + "\n"


def annotation(run: Digest, *, visible: Callable[[str], str]) -> str | None:
    """The command that puts a failure, or a success with denials, on the page of the job."""
    if run.is_good:
        if not run.state.denials:
            return None
        level, text = "warning", f"{count(len(run.state.denials), 'call')} denied"
        text += ": " + "; ".join(one_line(one.reason, 200) for one in facts.denials(run)[:3])
    else:
        level, text = "error", f"{facts.ending(run)}: {facts.cause(run)}"
        text += f"\nWhat to do: {facts.advice(run)}"
    message = _data(visible(text)[:MESSAGE_CHARS])
    return f"::{level} title={_property(visible(f'autopilot: {run.name}'))}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
