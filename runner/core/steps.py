"""What the shell may be told to do next, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from runner.core.endings import Ending
from runner.core.events import Persisted, RunnerVerifyStart
from runner.core.messages import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class AskModel:
    """Make the next model call, if the budget pays for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTools:
    """Carry out these calls, together when there are several."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Record these facts; nothing else has to happen."""

    events: tuple[Persisted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Run the checks of the spec; `start` is what is recorded before."""

    start: RunnerVerifyStart


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run is over and ended like this."""

    ending: Ending


Step = AskModel | RunTools | Verify | Say | Finish
