"""Ephemeral events: shown on the live stream, never on disk."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Literal

from runner.core.messages import FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdle:
    """Mechanical end: the loop stopped. Always last on the stream, never on disk."""

    type: ClassVar = "session.idle"
    aborted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUsageInfo:
    """How full the context window is, before and after each request: estimates, in tokens."""

    type: ClassVar = "session.usage_info"
    token_limit: int
    current_tokens: int
    messages_length: int
    system_tokens: int
    conversation_tokens: int
    tool_definitions_tokens: int
    is_initial: bool | None = None


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
class ToolExecutionProgress:
    """How far a running tool says it is, in a line."""

    type: ClassVar = "tool.execution_progress"
    tool_call_id: str
    progress_message: str


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
