"""What the modes say of the tools that a task brings itself: they open none of them."""

from __future__ import annotations

from typing import Final

from runner.core.spec import TaskSpec

FREE_KINDS: Final = frozenset({"read", "custom-tool"})
"""Permission kinds of built-in tools that change nothing outside the run, inside the roots."""


def is_free(spec: TaskSpec, tool: str, kind: str) -> bool:
    """Whether a call needs no rule: nothing outside the run is changed by it."""
    return kind in FREE_KINDS and tool not in spec.custom_tools


def is_kept_by_plan(spec: TaskSpec, tool: str, kind: str) -> bool:
    """Whether mode plan leaves a call to the rules, since it changes nothing."""
    if tool in spec.custom_tools:
        return spec.custom_tools[tool].read_only
    return kind in FREE_KINDS or kind == "url"
