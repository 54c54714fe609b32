"""What one run is made of, wired: the parts every step of the loop works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.core.events import VerifyCheck
from runner.core.messages import ToolSpec
from runner.engine.recorder import Recorder
from runner.ports import Clock, Guard, Hooks, Model, Retry, Sandbox, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where the checks of the spec run: in the workspace, with the environment of tools."""

    sandbox: Sandbox
    workspace: Path
    env: Mapping[str, str]


Gates = Callable[[float], Awaitable[tuple[VerifyCheck, ...]]]
"""How the gates on what changed stand, found out within so many seconds. Never raises."""


OutputErrors = Callable[[Mapping[str, Any], Mapping[str, Any]], Awaitable[tuple[str, ...]]]
"""What of an object (the second) does not fit a schema; nothing when it does. Bounded in time,
never raises."""


@dataclass(slots=True, kw_only=True)
class Engine:
    """The parts of a run. `offered` is what the model sees, control tools included;
    `tools` is every built-in tool by name; `phase` says what the run waits for."""

    recorder: Recorder
    model: Model
    retry: Retry
    tools: Mapping[str, Tool]
    offered: tuple[ToolSpec, ...]
    clock: Clock
    new_id: Callable[[], str]
    files_dir: Path
    bench: Bench | None = None
    guard: Guard | None = None
    gates: Gates | None = None
    output_errors: OutputErrors | None = None
    hooks: Hooks | None = None
    phase: str = "start"
