"""What the shell may be told to do next, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.core.endings import Ending
from runner.core.events import CompactionTrigger, Persisted, RunnerVerifyStart
from runner.core.messages import ToolCall
from runner.core.spec import HookEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class AskModel:
    """Make the next model call, if the budget pays for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTools:
    """Carry out these calls, together when there are several."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Record these facts; nothing else has to happen. `agent_id`: they are this sub-agent's."""

    events: tuple[Persisted, ...]
    agent_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Run the checks of the spec; `start` is what is recorded before."""

    start: RunnerVerifyStart


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutput:
    """Compare this object, which a call gave or the answer is, with the output schema."""

    value: Mapping[str, Any]
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Compare what is protected with what it was at the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Ask for a summary of the conversation, if the budget pays for it."""

    trigger: CompactionTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class HookPoint:
    """What hooks are asked about: an event, and the call or agent it is about, if any."""

    event: HookEvent
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHooks:
    """Run the hooks of these points that have not answered yet."""

    points: tuple[HookPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run is over and ended like this."""

    ending: Ending


Step = AskModel | RunTools | Verify | Compare | CheckOutput | Say | Compact | RunHooks | Finish
