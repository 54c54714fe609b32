"""The values of one conversation: messages, tool calls, usage, and what is asked of a model.

Token counts are disjoint: `input_tokens` are the uncached ones, cache reads and writes stand
beside them. Adapters convert from each provider's own convention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]

OUTPUT_TOOL = "StructuredOutput"
"""Takes the object that `output_schema` asks for; offered when there is one."""

MCP_PREFIX = "mcp__"
"""What the names of tools of MCP servers begin with: `mcp__SERVER__TOOL`."""

AGENT_TOOL = "Agent"
"""Starts a sub-agent; its calls are carried out by the engine."""

SKILL_TOOL = "Skill"
"""Gives the model the text of a skill."""

CONTROL_TOOLS = frozenset({"task_complete", "task_blocked", OUTPUT_TOOL})
"""Tools that steer the run and touch nothing; they are answered by the decision table itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call a model asked for. `problem` says why `arguments` could not be read, and
    `raw_arguments` is what the model wrote instead of some that can be."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    problem: str | None = None
    raw_arguments: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningBlock:
    """Reasoning text with the provider's signature, sent back unchanged where it is needed."""

    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user-role message: the prompt, a nudge, a correction."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assistant:
    """One reply of the model."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[ReasoningBlock, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What the model is told about one call; every call has exactly one."""

    call_id: str
    name: str
    content: str
    is_error: bool = False


Message = User | Assistant | ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one model call, disjoint; `reasoning_tokens` are a part of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Everything that was read: the size of the request in the context window."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model sees it. `read_only` calls of one reply may run together. One that
    `checks_itself` compares arguments with its schema, which strangers may have written."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    read_only: bool = False
    checks_itself: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One complete model call. The prefix (tools, system) is byte-stable over a run."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_output_tokens: int
    effort: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What came back. `usage` is None when the provider reported none (never invented).

    Call ids are not empty and unique within the reply; the adapter sees to it. `left_out` says,
    in sentences, what of the request the model does not take, so that it was not sent as asked.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[ReasoningBlock, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage | None = None
    left_out: tuple[str, ...] = ()
