"""The control tools as the model sees them; the decision table answers them, nothing runs."""

from __future__ import annotations

from collections.abc import Mapping

from runner.core.messages import ToolSpec
from runner.tools.answers import tool_spec

TEXT = {"type": "string", "minLength": 1}


def control_specs(descriptions: Mapping[str, str]) -> tuple[ToolSpec, ...]:
    """`task_complete` and `task_blocked`. Raises `KeyError` for a text that is missing."""
    return (
        tool_spec("task_complete", descriptions, {"summary": TEXT}, required=("summary",)),
        tool_spec("task_blocked", descriptions, {"reason": TEXT}, required=("reason",)),
    )
