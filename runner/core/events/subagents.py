"""Facts about sub-agents: one was started, and how it ended.

They stand under the sub-agent's own `agentId`, like everything else it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentStarted:
    """The call `tool_call_id` of turn `turn_id` starts a sub-agent with a conversation of its own.

    `parent_agent_id` is whose call it is, absent for the main loop's. `tool_definitions_bytes` is
    the size of the tools it is shown.
    """

    type: ClassVar = "subagent.started"
    tool_call_id: str
    turn_id: str
    agent_name: str
    agent_display_name: str
    agent_description: str
    model: str | None = None
    parent_agent_id: str | None = None
    tool_definitions_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentCompleted:
    """It did what it was asked; its last text is the result of the call."""

    type: ClassVar = "subagent.completed"
    tool_call_id: str
    agent_name: str
    agent_display_name: str
    model: str | None = None
    duration_ms: int | None = None
    total_tokens: int = 0
    total_tool_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentFailed:
    """It ended in another way: `error` in words, `reason` in one, as the ending of a run has it."""

    type: ClassVar = "subagent.failed"
    tool_call_id: str
    agent_name: str
    agent_display_name: str
    error: str
    reason: str
    model: str | None = None
    duration_ms: int | None = None
    total_tokens: int = 0
    total_tool_calls: int = 0
    cancelled: bool | None = None
