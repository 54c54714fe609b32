"""What one run is made of, wired: the parts every step of the loop works with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.core.events import SkillInvoked, VerifyCheck
from runner.core.messages import ToolCall, ToolSpec
from runner.engine.recorder import Recording
from runner.ports import Clock, Guard, Hooks, Model, Retry, Sandbox, Tool, ToolOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where the checks of the spec run: in the workspace, with the environment of tools."""

    sandbox: Sandbox
    workspace: Path
    env: Mapping[str, str]


LEAST_S = 0.1
"""What is still to be done when the grace is used up gets this much time."""

Gates = Callable[[float], Awaitable[tuple[VerifyCheck, ...]]]
"""How the gates on what changed stand, found out within so many seconds. Never raises."""


OutputErrors = Callable[[Mapping[str, Any], Mapping[str, Any]], Awaitable[tuple[str, ...]]]
"""What of an object (the second) does not fit a schema; nothing when it does. Bounded in time,
never raises."""


Ask = Callable[[ToolCall], Awaitable[str | None]]
"""Asks the program that has it run about a call that rules leave open: None allows it, a text says
why not. Waits as long as it takes, never raises. Cancelled: the question is taken back."""


Spawn = Callable[["Engine", ToolCall], Awaitable[ToolOutput]]
"""Runs the sub-agent that a call asks for, to its end. Raises `ToolFailure` when there is none to
be had, and `JournalError`. Cancelled: the sub-agent is left open, for the table to close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What sub-agents need: how they are run, their descriptions, system prompts and skills by
    name, and tools of their own, which remember nothing yet."""

    spawn: Spawn
    description: Callable[[str], str]
    prompt: Callable[[str], str]
    skills: Callable[[str], tuple[SkillInvoked, ...]]
    tools: Callable[[], Mapping[str, Tool]]


@dataclass(slots=True, kw_only=True)
class Engine:
    """The parts of a run, or of one of its sub-agents. `offered` is what the model sees, control
    tools included; `tools` is every tool by name; `phase` says what the run waits for. Once
    the run was stopped, `ends_at` on `clock` is when everything is to be over.

    All agents share `effects`, held by whoever changes something, and `judging`, held by whoever
    asks the model of mode auto.
    """

    recorder: Recording
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
    crew: Crew | None = None
    ask: Ask | None = None
    effects: asyncio.Lock = field(default_factory=asyncio.Lock)
    judging: asyncio.Lock = field(default_factory=asyncio.Lock)
    phase: str = "start"
    ends_at: float | None = None

    def begin_grace(self, late_s: float = 0.0) -> None:
        """The run was stopped, `late_s` ago: what is still done shares `limits.shutdown_grace`."""
        grace_s = self.recorder.state.need.limits.shutdown_grace
        self.ends_at = self.clock.monotonic() + grace_s - late_s

    def left_s(self, limit_s: float) -> float:
        """How long what has this limit may take: after a stop, what is left of the grace."""
        if self.ends_at is None:
            return limit_s
        return min(limit_s, max(self.ends_at - self.clock.monotonic(), LEAST_S))
