"""The event vocabulary: every fact a run can write, and the envelope it travels in.

An event class is its wire name in CamelCase (`ToolExecutionStart` is `tool.execution_start`),
its fields are the wire fields in snake_case. Names and fields follow the session events of
GitHub Copilot CLI (generated types of github-copilot-sdk); keys the SDK lacks are ours and are
skipped by its readers. `runner.*` events are ours alone. Persisted events are on disk and drive
the fold; ephemeral ones are only shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Literal, get_args

from runner.core import wire
from runner.core.messages import FinishReason

CostBasis = Literal["table", "spec", "reserved", "unpriced"]
AbortReason = Literal["user_initiated", "remote_command", "user_abort", "autopilot_credit_limit"]
AbortCause = Literal["SIGINT", "SIGTERM", "SIGHUP", "timeout"]
ErrorCode = Literal[
    "unknown_tool",
    "invalid_arguments",
    "denied",
    "failed",
    "timeout",
    "cancelled",
    "not_run",
    "interrupted",
    "check_failed",
]


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
class SystemMessage:
    """The system prompt of the run; as `developer`, the project's instruction files."""

    type: ClassVar = "system.message"
    content: str
    role: Literal["system", "developer"] = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """The prompt, or a nudge (`is_autopilot_continuation`)."""

    type: ClassVar = "user.message"
    content: str
    source: str | None = None
    agent_mode: Literal["interactive", "autopilot"] | None = None
    is_autopilot_continuation: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantTurnStart:
    """A model call is about to be made; `reserved_cost_usd` is the most it may cost."""

    type: ClassVar = "assistant.turn_start"
    turn_id: str
    model: str
    max_output_tokens: int
    reserved_cost_usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A call inside `assistant.message`."""

    tool_call_id: str
    name: str
    arguments: Mapping[str, Any]
    type: str = "function"
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """A reasoning block inside `assistant.message`, kept for the provider."""

    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """The reply; `tool_requests` lists every call it asked for."""

    type: ClassVar = "assistant.message"
    message_id: str
    content: str
    model: str
    turn_id: str
    finish_reason: FinishReason
    tool_requests: tuple[ToolRequest, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantReasoning:
    """The readable reasoning of a reply, for people."""

    type: ClassVar = "assistant.reasoning"
    reasoning_id: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantTurnEnd:
    """The consequences of the turn's reply are complete."""

    type: ClassVar = "assistant.turn_end"
    turn_id: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEffect:
    """What a call will do to one file: SHA-256 before (None: no file) and after."""

    path: str
    after: str
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """The content of a file that the model knows of: it was read, or written by a call."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionStart:
    """A call is about to have its effect; `effect` is how to tell later whether it had it."""

    type: ClassVar = "tool.execution_start"
    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    turn_id: str
    effect: FileEffect | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContent:
    """What the model is shown of a successful call; `detailed_content` is for people."""

    content: str
    detailed_content: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """Why a call has no result; `message` is what the model is shown."""

    message: str
    code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionComplete:
    """The one outcome of a call. `output_file` names the whole output when it was cut; `file` is
    the file the model knows after it."""

    type: ClassVar = "tool.execution_complete"
    tool_call_id: str
    tool_name: str
    success: bool
    turn_id: str
    result: ToolContent | None = None
    error: ToolError | None = None
    output_file: str | None = None
    file: FileState | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequested:
    """A call needs a decision; the request's shape depends on its `kind`."""

    type: ClassVar = "permission.requested"
    request_id: str
    permission_request: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionCompleted:
    """The decision: `result.kind` is `approved` or one of the `denied-*` kinds."""

    type: ClassVar = "permission.completed"
    request_id: str
    tool_call_id: str
    result: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Somebody or something stopped the run; `cause` is ours and exact."""

    type: ClassVar = "abort"
    reason: AbortReason
    cause: AbortCause


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSpec:
    """The resolved spec and its hash, and the fixed sentences the model may be told."""

    type: ClassVar = "runner.spec"
    spec: Mapping[str, Any]
    spec_hash: str
    sentences: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One preflight check and what to do when it failed."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListing:
    """A tool that is offered to the model."""

    name: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceListing:
    """The price a model is charged at, USD per million tokens, and where it comes from."""

    model: str
    basis: Literal["table", "spec"]
    input_per_mtok: Decimal
    output_per_mtok: Decimal
    cache_read_per_mtok: Decimal
    cache_write_per_mtok: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerPreflight:
    """Everything that was checked and found before the first paid call."""

    type: ClassVar = "runner.preflight"
    checks: tuple[Check, ...]
    tools: tuple[ToolListing, ...]
    sandbox: str
    workspace: str
    prices: tuple[PriceListing, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerVerifyStart:
    """The commands of `verify` are about to run for the `attempt`th time, from 1."""

    type: ClassVar = "runner.verify_start"
    attempt: int
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCheck:
    """How one check ended. `exit_code` is None when it was killed at its time limit; `output`
    is what it said, shortened."""

    name: str
    passed: bool
    duration_ms: int
    output: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerVerifyComplete:
    """How the checks ended; none are listed when a stop left no time to run them."""

    type: ClassVar = "runner.verify_complete"
    attempt: int
    passed: bool
    checks: tuple[VerifyCheck, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerLogRecovered:
    """A write was cut short by a kill; its piece was set aside before the log went on."""

    type: ClassVar = "runner.log_recovered"
    offset: int
    torn_bytes: int
    torn_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerResult:
    """The result of the run, the same object as `result.json`."""

    type: ClassVar = "runner.result"
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdle:
    """Mechanical end: the loop stopped. Always last on the stream, never on disk."""

    type: ClassVar = "session.idle"
    aborted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantUsage:
    """Tokens and timing of one call, for live displays."""

    type: ClassVar = "assistant.usage"
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    duration: int
    finish_reason: FinishReason
    cost_usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessageDelta:
    """A piece of the text of the reply that is being streamed."""

    type: ClassVar = "assistant.message_delta"
    message_id: str
    delta_content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantReasoningDelta:
    """A piece of its reasoning."""

    type: ClassVar = "assistant.reasoning_delta"
    reasoning_id: str
    delta_content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionPartialResult:
    """Output of a running tool, as it comes."""

    type: ClassVar = "tool.execution_partial_result"
    tool_call_id: str
    partial_output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallFailure:
    """One attempt of a model call failed; a retry may follow inside the same turn."""

    type: ClassVar = "model.call_failure"
    model: str
    error_message: str
    failure_kind: Literal["api", "transport"]
    duration_ms: int
    source: Literal["top_level", "subagent", "mcp_sampling"] = "top_level"
    status_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerHeartbeat:
    """The run is alive, and this is what it waits for."""

    type: ClassVar = "runner.heartbeat"
    phase: str
    elapsed_s: float


Persisted = (
    SessionStart
    | SessionResume
    | SessionInfo
    | SessionWarning
    | SessionError
    | SessionModelChange
    | SessionTaskComplete
    | SessionUsageCheckpoint
    | SessionShutdown
    | SystemMessage
    | UserMessage
    | AssistantTurnStart
    | AssistantMessage
    | AssistantReasoning
    | AssistantTurnEnd
    | ToolExecutionStart
    | ToolExecutionComplete
    | PermissionRequested
    | PermissionCompleted
    | Abort
    | RunnerSpec
    | RunnerPreflight
    | RunnerVerifyStart
    | RunnerVerifyComplete
    | RunnerLogRecovered
    | RunnerResult
)
Ephemeral = (
    SessionIdle
    | AssistantUsage
    | AssistantMessageDelta
    | AssistantReasoningDelta
    | ToolExecutionPartialResult
    | ModelCallFailure
    | RunnerHeartbeat
)
Event = Persisted | Ephemeral

PERSISTED_TYPES: Mapping[str, type[Persisted]] = {cls.type: cls for cls in get_args(Persisted)}
EPHEMERAL_TYPES: Mapping[str, type[Ephemeral]] = {cls.type: cls for cls in get_args(Ephemeral)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An event in its envelope. `seq` and `prev` are None on ephemeral records.

    `parent_id` is the id of the previous persisted record; `agent_id` is set for sub-agents.
    """

    id: str
    timestamp: str
    parent_id: str | None
    event: Event
    agent_id: str | None = None
    seq: int | None = None
    prev: str | None = None


def to_json(record: Record) -> dict[str, Any]:
    """The record as the JSON object that stands on its line."""
    ephemeral = type(record.event).type in EPHEMERAL_TYPES
    envelope: dict[str, Any] = {"id": record.id, "timestamp": record.timestamp}
    envelope["parentId"] = record.parent_id
    if record.agent_id is not None:
        envelope["agentId"] = record.agent_id
    if ephemeral:
        envelope["ephemeral"] = True
    else:
        envelope |= {"seq": record.seq, "prev": record.prev}
    return envelope | {"type": record.event.type, "data": _data(record.event)}


def from_json(line: Mapping[str, Any]) -> Record | None:
    """A record from its JSON object; None when the type is unknown (newer version, skipped).

    Raises `wire.WireError` when a known type has a wrong shape.
    """
    cls = PERSISTED_TYPES.get(line["type"]) or EPHEMERAL_TYPES.get(line["type"])
    if cls is None:
        return None
    event: Event
    if cls is RunnerResult:
        event = RunnerResult(result=line["data"])
    else:
        event = wire.decode(cls, line["data"])
    return Record(
        id=line["id"],
        timestamp=line["timestamp"],
        parent_id=line["parentId"],
        agent_id=line.get("agentId"),
        seq=line.get("seq"),
        prev=line.get("prev"),
        event=event,
    )


def _data(event: Event) -> Any:
    # The result travels as itself, so that the event and `result.json` are one object.
    return wire.encode(event.result if isinstance(event, RunnerResult) else event)
