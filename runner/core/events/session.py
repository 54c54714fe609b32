"""Facts about the session as a whole: begin, notices, spending, completion, end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal

CostBasis = Literal["table", "spec", "reserved", "unpriced"]
AbortReason = Literal["user_initiated", "remote_command", "user_abort", "autopilot_credit_limit"]
AbortCause = Literal["SIGINT", "SIGTERM", "SIGHUP", "interrupt", "timeout"]
CompactionTrigger = Literal["threshold", "context_limit_retry", "manual", "model_switch"]


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

    `note` is what the model is told once the open turn is closed, `agents_note` what sub-agents are
    that a kill left open.
    """

    type: ClassVar = "session.resume"
    session_id: str
    resume_time: str
    event_count: int
    selected_model: str
    carries: bool
    note: str
    agents_note: str | None = None
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
    one of type `survivors` names processes that had to be killed, as `pid (command)`.

    `context_limit`: a request of about `current_tokens` was refused as too long. `message_cut`: no
    message may be longer than `max_message_bytes` from here on, and none that is shown is.
    `mcp_status` is how things stand with `mcp_server` from here on."""

    type: ClassVar = "session.warning"
    warning_type: str
    message: str
    reserved_cost_usd: Decimal | None = None
    survivors: tuple[str, ...] = ()
    current_tokens: int | None = None
    max_message_bytes: int | None = None
    mcp_server: str | None = None
    mcp_status: Literal["connected", "failed", "needs-auth"] | None = None


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
class SessionCompactionStart:
    """A summary of the conversation is about to be asked for, so that less of it has to be sent.

    Token counts are estimates of the next request and of its parts. `reserved_cost_usd` is the
    most the call may cost; `token_limit` is left out when nobody knows the window.
    """

    type: ClassVar = "session.compaction_start"
    trigger: CompactionTrigger
    model: str
    current_tokens: int
    max_output_tokens: int
    reserved_cost_usd: Decimal
    token_limit: int | None = None
    system_tokens: int | None = None
    conversation_tokens: int | None = None
    tool_definitions_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTokens:
    """What the call for a summary came to; `duration` is in milliseconds."""

    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    duration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCompactionComplete:
    """The summary stands for the oldest messages from here on, or why it does not.

    Only what a model is shown changes: `messages_removed` are the oldest of those it was shown,
    an earlier summary apart, and `summary_content` is told in their place, word for word.
    `failure_reason` is the kind of failure of a model that was asked.
    """

    type: ClassVar = "session.compaction_complete"
    success: bool
    trigger: CompactionTrigger
    error: str | None = None
    failure_reason: str | None = None
    pre_compaction_tokens: int | None = None
    post_compaction_tokens: int | None = None
    pre_compaction_messages_length: int | None = None
    messages_removed: int | None = None
    tokens_removed: int | None = None
    summary_content: str | None = None
    custom_instructions: str | None = None
    compaction_tokens_used: CompactionTokens | None = None

    @property
    def is_interrupted(self) -> bool:
        """Nobody knows whether the model answered: the run was stopped or killed meanwhile."""
        known = self.failure_reason, self.compaction_tokens_used
        return not self.success and known == (None, None)


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
    """Somebody or something stopped the run; `cause` is ours and exact: `interrupt` is the program
    that has it run."""

    type: ClassVar = "abort"
    reason: AbortReason
    cause: AbortCause
