"""One agent's conversation: the messages it remembers, its open turn and its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runner.core.events import (
    AssistantMessage,
    AssistantTurnStart,
    FileEffect,
    ToolExecutionComplete,
    UserMessage,
)
from runner.core.messages import (
    CONTROL_TOOLS,
    Assistant,
    Message,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    User,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One agent's conversation and its counters.

    `reply` is the last reply until the next user message; `started` and `results` are the calls
    of the open turn, results in the order they finished; they join `messages` in the order asked
    when the turn ends. A started call maps to the file effect it announced.
    `measured_tokens` is what the provider said the first `measured_messages` messages weigh.
    """

    messages: tuple[Message, ...] = ()
    open_turn: str | None = None
    reply: Assistant | None = None
    finish_reason: str | None = None
    started: Mapping[str, FileEffect | None] = field(default_factory=dict)
    results: Mapping[str, ToolResult] = field(default_factory=dict)
    refused: bool = False
    sent_back: bool = False
    faults: int = 0
    malformed_in_a_row: int = 0
    same_text_in_a_row: int = 0
    turns_started: int = 0
    replies: int = 0
    replies_acted_on: int = 0
    tool_turns: int = 0
    nudges: int = 0
    continues: int = 0
    last_text: str | None = None
    measured_tokens: int | None = None
    measured_messages: int = 0

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """Calls of the open reply that have no result yet, in the order asked."""
        if self.reply is None:
            return ()
        return tuple(call for call in self.reply.calls if call.id not in self.results)

    @property
    def pending_tools(self) -> tuple[ToolCall, ...]:
        """Pending calls that are not control calls."""
        return tuple(call for call in self.pending if call.name not in CONTROL_TOOLS)


def hear_user(thread: Thread, event: UserMessage) -> Thread:
    """Something was told to the agent: its last reply is answered."""
    nudge = 1 if event.is_autopilot_continuation else 0
    return replace(
        thread,
        messages=(*thread.messages, User(text=event.content)),
        reply=None,
        nudges=thread.nudges + nudge,
        continues=thread.continues + nudge,
    )


def start_turn(thread: Thread, event: AssistantTurnStart) -> Thread:
    """A model call begins."""
    return replace(
        thread,
        open_turn=event.turn_id,
        reply=None,
        started={},
        results={},
        refused=False,
        sent_back=False,
        faults=0,
        turns_started=thread.turns_started + 1,
    )


def hear_reply(thread: Thread, event: AssistantMessage) -> Thread:
    """The model answered; its calls wait for results."""
    reply = Assistant(
        text=event.content,
        calls=tuple(
            ToolCall(id=r.tool_call_id, name=r.name, arguments=r.arguments, problem=r.problem)
            for r in event.tool_requests
        ),
        reasoning=tuple(
            ReasoningBlock(text=block.text, signature=block.signature) for block in event.reasoning
        ),
    )
    text_only = not reply.calls
    same = text_only and thread.last_text == reply.text
    return replace(
        thread,
        reply=reply,
        finish_reason=event.finish_reason,
        replies=thread.replies + 1,
        faults=1 if text_only and not reply.text.strip() else 0,
        same_text_in_a_row=(thread.same_text_in_a_row + 1 if same else 1) if text_only else 0,
        last_text=reply.text if text_only else None,
    )


def take_result(thread: Thread, event: ToolExecutionComplete) -> Thread:
    """One call of the open turn has its result."""
    content = event.result.content if event.result else event.error.message if event.error else ""
    code = event.error.code if event.error else None
    result = ToolResult(
        call_id=event.tool_call_id,
        name=event.tool_name,
        content=content,
        is_error=not event.success,
    )
    return replace(
        thread,
        results={**thread.results, event.tool_call_id: result},
        refused=thread.refused or code == "not_run",
        sent_back=thread.sent_back or code == "check_failed",
        faults=thread.faults + (1 if code in ("unknown_tool", "invalid_arguments") else 0),
    )


def end_turn(thread: Thread) -> Thread:
    """The turn is over: the reply and its results join the history."""
    reply = thread.reply
    if reply is None:  # the call failed: nothing was said, nothing is remembered
        return replace(thread, open_turn=None)
    results = tuple(thread.results[call.id] for call in reply.calls if call.id in thread.results)
    used_tools = any(call.name not in CONTROL_TOOLS for call in reply.calls)
    rejected_control = bool(results) and not used_tools and all(r.is_error for r in results)
    rejected_control = rejected_control and not thread.sent_back  # that has a cap of its own
    acted = not thread.refused
    return replace(
        thread,
        messages=(*thread.messages, reply, *results),
        open_turn=None,
        malformed_in_a_row=thread.malformed_in_a_row + 1 if thread.faults else 0,
        replies_acted_on=thread.replies_acted_on + (1 if acted else 0),
        tool_turns=thread.tool_turns + (1 if acted and used_tools else 0),
        continues=thread.continues + (1 if rejected_control else 0),
    )


def past_its_ending(thread: Thread) -> Thread:
    """What made the last part end must not end the next one before anything was asked."""
    return replace(
        thread,
        reply=None,
        finish_reason=None,
        malformed_in_a_row=0,
        same_text_in_a_row=0,
        last_text=None,
    )


def fresh_counters(thread: Thread) -> Thread:
    return Thread(
        messages=thread.messages,
        turns_started=thread.turns_started,  # turns are numbered over the whole session
        measured_tokens=thread.measured_tokens,
        measured_messages=thread.measured_messages,
    )
