"""Facts about hooks: one was started, and what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from runner.core.spec import HookEvent

HookOutcome = Literal["success", "error", "timeout", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOutput:
    """What a hook answered. `stop_reason` is set, maybe empty, when the run must not go on."""

    decision: Literal["allow", "deny", "ask", "block"] | None = None
    reason: str | None = None
    updated_input: Mapping[str, Any] | None = None
    updated_tool_output: str | None = None
    additional_context: str | None = None
    system_message: str | None = None
    stop_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookError:
    """Why a hook gave no sound answer."""

    message: str
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStart:
    """A hook is about to run. `handler` identifies it in the spec, `subject` is what it is asked
    about: a tool call, an agent, a prompt; `input` is what it is told, long texts cut."""

    type: ClassVar = "hook.start"
    hook_invocation_id: str
    hook_type: str
    hook_event_name: HookEvent
    handler: str
    command: str
    subject: str = ""
    input: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEnd:
    """How a hook ended; `position` is its place among the hooks of its event. A cancelled one
    has answered nothing. `exit_code` is absent when it was killed or could not be started."""

    type: ClassVar = "hook.end"
    hook_invocation_id: str
    hook_type: str
    hook_event_name: HookEvent
    handler: str
    position: int
    success: bool
    outcome: HookOutcome
    subject: str = ""
    output: HookOutput | None = None
    error: HookError | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    stdout: str = ""
    stderr: str = ""
