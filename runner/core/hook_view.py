"""Hooks as Claude's messages: `hook_started` and `hook_response`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.core.events import Event, HookEnd, HookStart

_OUTCOMES = {"success": "success", "error": "error", "timeout": "cancelled"}


def leads(event: Event) -> bool:
    """It is about a hook of the start: told without being asked for, and before anything else."""
    return isinstance(event, HookStart | HookEnd) and event.hook_event_name == "SessionStart"


def subtype(event: HookStart | HookEnd) -> str:
    """The name of its message."""
    return "hook_started" if isinstance(event, HookStart) else "hook_response"


def fields(event: HookStart | HookEnd) -> Mapping[str, Any]:
    """What stands in its message, after the ids."""
    about = {
        "hook_id": event.hook_invocation_id,
        "hook_name": event.hook_event_name,
        "hook_event": event.hook_event_name,
    }
    if isinstance(event, HookStart):
        return about
    return {
        **about,
        "output": event.stdout + event.stderr,
        "stdout": event.stdout,
        "stderr": event.stderr,
        "exit_code": event.exit_code,
        "outcome": _OUTCOMES.get(event.outcome, "cancelled"),
    }
