"""What one run is made of, wired: the parts every step of the loop works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.core.messages import ToolSpec
from runner.engine.recorder import Recorder
from runner.ports import Clock, Model, Retry, Sandbox, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where the checks of the spec run: in the workspace, with the environment of tools."""

    sandbox: Sandbox
    workspace: Path
    env: Mapping[str, str]


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
    phase: str = "start"
