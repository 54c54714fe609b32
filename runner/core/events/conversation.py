"""Facts of the conversation: what was told to the model and what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal

from runner.core.messages import FinishReason


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
    """A call inside `assistant.message`; what was written for arguments is kept as it was when
    there is a `problem`."""

    tool_call_id: str
    name: str
    arguments: Mapping[str, Any]
    type: str = "function"
    problem: str | None = None
    raw_arguments: str | None = None


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
