"""autopilot-runner: a headless autopilot CI runner.

`from runner import run, load_spec, Session` is the Python API; it is loaded when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runner.api import (
        LogDamaged,
        Result,
        Session,
        SessionError,
        SpecError,
        Tool,
        load_spec,
        run,
        run_async,
    )
    from runner.core import events

__all__ = [
    "LogDamaged",
    "Result",
    "Session",
    "SessionError",
    "SpecError",
    "Tool",
    "events",
    "load_spec",
    "run",
    "run_async",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """A name of the API. Its import takes a while, which `autopilot --help` must not."""
    from importlib import import_module  # noqa: PLC0415  # as above

    if name == "events":
        return import_module("runner.core.events")
    if name in __all__:
        return getattr(import_module("runner.api"), name)
    raise AttributeError(f"module `runner` has no attribute `{name}`")
