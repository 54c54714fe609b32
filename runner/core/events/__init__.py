"""The event vocabulary: every fact a run can write, and the envelope it travels in.

An event class is its wire name in CamelCase (`ToolExecutionStart` is `tool.execution_start`),
its fields are the wire fields in snake_case. Names and fields follow the session events of
GitHub Copilot CLI (generated types of github-copilot-sdk); keys the SDK lacks are ours and are
skipped by its readers. `runner.*` events are ours alone. Persisted events are on disk and drive
the fold; ephemeral ones are only shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from runner.core import wire
from runner.core.events.calls import (
    ErrorCode,
    Fee,
    FileEffect,
    FileState,
    PermissionCompleted,
    PermissionRequested,
    ToolContent,
    ToolError,
    ToolExecutionComplete,
    ToolExecutionStart,
)
from runner.core.events.conversation import (
    AssistantMessage,
    AssistantReasoning,
    AssistantTurnEnd,
    AssistantTurnStart,
    Reasoning,
    SystemMessage,
    ToolRequest,
    UserMessage,
)
from runner.core.events.hooks import (
    HookEnd,
    HookError,
    HookOutcome,
    HookOutput,
    HookStart,
)
from runner.core.events.live import (
    AssistantMessageDelta,
    AssistantReasoningDelta,
    AssistantUsage,
    ModelCallFailure,
    RunnerHeartbeat,
    SessionIdle,
    SessionUsageInfo,
    ToolExecutionPartialResult,
    ToolExecutionProgress,
)
from runner.core.events.own import (
    Canary,
    Check,
    McpListing,
    McpPin,
    McpStatus,
    PriceListing,
    ProtectedChange,
    RunnerLogRecovered,
    RunnerOutputCheck,
    RunnerPreflight,
    RunnerProtection,
    RunnerProtectionCheck,
    RunnerResult,
    RunnerSpec,
    RunnerVerifyComplete,
    RunnerVerifyStart,
    SandboxReport,
    ToolListing,
    VerifyCheck,
    WindowListing,
)
from runner.core.events.search import ToolSearchActivated
from runner.core.events.session import (
    Abort,
    AbortCause,
    AbortReason,
    CompactionTokens,
    CompactionTrigger,
    CostBasis,
    SessionCompactionComplete,
    SessionCompactionStart,
    SessionError,
    SessionInfo,
    SessionModelChange,
    SessionResume,
    SessionShutdown,
    SessionStart,
    SessionTaskComplete,
    SessionUsageCheckpoint,
    SessionWarning,
)
from runner.core.events.skills import SkillInvoked, SkillListing
from runner.core.events.subagents import (
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
)

__all__ = [
    "EPHEMERAL_TYPES",
    "PERSISTED_TYPES",
    "Abort",
    "AbortCause",
    "AbortReason",
    "AssistantMessage",
    "AssistantMessageDelta",
    "AssistantReasoning",
    "AssistantReasoningDelta",
    "AssistantTurnEnd",
    "AssistantTurnStart",
    "AssistantUsage",
    "Canary",
    "Check",
    "CompactionTokens",
    "CompactionTrigger",
    "CostBasis",
    "Ephemeral",
    "ErrorCode",
    "Event",
    "Fee",
    "FileEffect",
    "FileState",
    "HookEnd",
    "HookError",
    "HookOutcome",
    "HookOutput",
    "HookStart",
    "McpListing",
    "McpPin",
    "McpStatus",
    "ModelCallFailure",
    "PermissionCompleted",
    "PermissionRequested",
    "Persisted",
    "PriceListing",
    "ProtectedChange",
    "Reasoning",
    "Record",
    "RunnerHeartbeat",
    "RunnerLogRecovered",
    "RunnerOutputCheck",
    "RunnerPreflight",
    "RunnerProtection",
    "RunnerProtectionCheck",
    "RunnerResult",
    "RunnerSpec",
    "RunnerVerifyComplete",
    "RunnerVerifyStart",
    "SandboxReport",
    "SessionCompactionComplete",
    "SessionCompactionStart",
    "SessionError",
    "SessionIdle",
    "SessionInfo",
    "SessionModelChange",
    "SessionResume",
    "SessionShutdown",
    "SessionStart",
    "SessionTaskComplete",
    "SessionUsageCheckpoint",
    "SessionUsageInfo",
    "SessionWarning",
    "SkillInvoked",
    "SkillListing",
    "SubagentCompleted",
    "SubagentFailed",
    "SubagentStarted",
    "SystemMessage",
    "ToolContent",
    "ToolError",
    "ToolExecutionComplete",
    "ToolExecutionPartialResult",
    "ToolExecutionProgress",
    "ToolExecutionStart",
    "ToolListing",
    "ToolRequest",
    "ToolSearchActivated",
    "UserMessage",
    "VerifyCheck",
    "WindowListing",
    "from_json",
    "to_json",
]

Persisted = (
    SessionStart
    | SessionResume
    | SessionInfo
    | SessionWarning
    | SessionError
    | SessionModelChange
    | SessionTaskComplete
    | SessionUsageCheckpoint
    | SessionCompactionStart
    | SessionCompactionComplete
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
    | HookStart
    | HookEnd
    | SkillInvoked
    | ToolSearchActivated
    | SubagentStarted
    | SubagentCompleted
    | SubagentFailed
    | Abort
    | RunnerSpec
    | RunnerOutputCheck
    | RunnerPreflight
    | RunnerProtection
    | RunnerProtectionCheck
    | RunnerVerifyStart
    | RunnerVerifyComplete
    | RunnerLogRecovered
    | RunnerResult
)
Ephemeral = (
    SessionIdle
    | SessionUsageInfo
    | AssistantUsage
    | AssistantMessageDelta
    | AssistantReasoningDelta
    | ToolExecutionPartialResult
    | ToolExecutionProgress
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
