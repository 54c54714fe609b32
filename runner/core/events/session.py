"""Facts about the session as a whole: begin, notices, spending, completion, end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal

CostBasis = Literal["table", "spec", "reserved", "unpriced"]
AbortReason = Literal["user_initiated", "remote_command", "user_abort", "autopilot_credit_limit"]
AbortCause = Literal["SIGINT", "SIGTERM", "SIGHUP", "timeout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """First line of a log: which session, which model, where."""

    type: ClassVar = "session.start"
    session_id: str
    copilot_version: str
    start_time: str
    selected_model: str
    context: Mapping[str, Any] | None = None
    producer: str = "autopilot-runner"
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResume:
    """The session goes on. `carries` says whether what was spent and counted so far still counts.

    `note` is what the model is told once the open turn is closed.
    """

    type: ClassVar = "session.resume"
    session_id: str
    resume_time: str
    event_count: int
    selected_model: str
    carries: bool
    note: str
    events_file_size_bytes: int | None = None
    forked_from: str | None = None
    context: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """Something worth knowing that changes nothing."""

    type: ClassVar = "session.info"
    info_type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWarning:
    """Something a person should see. A warning whose type is a cap's subtype trips that cap;
    one of type `survivors` names processes that had to be killed, as `pid (command)`."""

    type: ClassVar = "session.warning"
    warning_type: str
    message: str
    reserved_cost_usd: Decimal | None = None
    survivors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionError:
    """The failure that ends the run; `error_type` is the one of the ending."""

    type: ClassVar = "session.error"
    error_type: str
    message: str
    status_code: int | None = None
    stack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionModelChange:
    """The run goes on with another model; `reserved_cost_usd` is the most its next call may cost,
    instead of what the open call held so far."""

    type: ClassVar = "session.model_change"
    previous_model: str
    new_model: str
    cause: str
    reserved_cost_usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTaskComplete:
    """The agent's own word: done (`success`), or blocked (`outcome`, with the reason); `continue`
    is our answer when the checks did not pass, and the run goes on."""

    type: ClassVar = "session.task_complete"
    summary: str = ""
    success: bool = True
    outcome: Literal["completed", "continue", "blocked"] = "completed"
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUsageCheckpoint:
    """What one model call cost, written before its reply is interpreted.

    `total_nano_aiu` is required by the SDK and always 0; money is `cost_usd` (this call) and
    `total_cost_usd` (the run so far), US dollars to the nano-dollar.
    """

    type: ClassVar = "session.usage_checkpoint"
    model: str
    cost_usd: Decimal
    total_cost_usd: Decimal
    basis: CostBasis
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    duration_ms: int = 0
    total_nano_aiu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShutdown:
    """Last line of a log: totals for the SDK's readers, and how the run ended."""

    type: ClassVar = "session.shutdown"
    shutdown_type: Literal["routine", "error"]
    session_start_time: int
    total_api_duration_ms: int
    code_changes: Mapping[str, Any]
    model_metrics: Mapping[str, Any]
    result_subtype: str
    exit_code: int
    total_cost_usd: Decimal
    current_model: str
    error_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Somebody or something stopped the run; `cause` is ours and exact."""

    type: ClassVar = "abort"
    reason: AbortReason
    cause: AbortCause
