"""One agent's conversation: the messages it remembers, its open turn and its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runner.core.events import (
    AssistantMessage,
    AssistantTurnStart,
    FileEffect,
    HookEnd,
    SessionCompactionComplete,
    SessionCompactionStart,
    SkillInvoked,
    ToolExecutionComplete,
    UserMessage,
)
from runner.core.history import History
from runner.core.hooks import adds, key, noted
from runner.core.messages import (
    CONTROL_TOOLS,
    Assistant,
    Message,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    User,
)
from runner.core.weight import cut, message_bound

DENSITY = 0.25
"""Tokens a byte, until a provider has measured any: four bytes of English or code are a token."""

COMMAND = "/compact"
"""A prompt that begins with this word asks for a compaction, about what follows it."""

HOOK_CONTEXT = "hook"
"""The source of a message that says what hooks add."""

RESUMED = "resume"
"""The source of a message that says that the session goes on."""

STOP_HOOK = "stop_hook"
"""The source of a message with which a hook keeps the agent from stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One agent's conversation and its counters; `model` is what the last turn began with.

    `reply` is the last reply until the next user message; `started` and `results` are the calls
    of the open turn, results in the order they finished; they join `messages` in the order asked
    when the turn ends. A started call maps to the file effect it announced.
    `measured_tokens` is what the provider said the first `measured_messages` messages weigh.

    What a model is shown is the `view`: the `summary` of what was compacted, and the messages from
    `kept_from` on. `weight` are its bytes, `density` the tokens a byte as measured last. Messages
    are cut to `max_message_bytes` as they are remembered. `refused_tokens` is the size of a request
    that was too long; `overflowed`: the last one was, `recovering`: so was the one before the reply
    that is waited for. `compacting` is an open compaction, `compacted` the last one that was
    asked for by hand (its `command`), `summaries` count the answered ones, `vain_compactions` those
    in a row that did not help.

    `heard` are the answers of hooks since the last turn began, by event and subject; `hooks_due`
    the handlers a finished call is still to be told to; `told` what hooks add to the conversation,
    until it is said; `stop_blocks` how often in a row hooks kept the agent from stopping. `skills`
    were invoked, and their rules are in force.
    """

    messages: History = History()
    open_turn: str | None = None
    model: str = ""
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
    measured_weight: int = 0
    weight: int = 0
    density: float = DENSITY
    summary: User | None = None
    kept_from: int = 0
    max_message_bytes: int | None = None
    refused_tokens: int | None = None
    overflowed: bool = False
    recovering: bool = False
    command: str | None = None
    compacting: SessionCompactionStart | None = None
    compacted: SessionCompactionComplete | None = None
    summaries: int = 0
    replies_at_compaction: int | None = None
    vain_compactions: int = 0
    without_compaction: bool = False
    heard: Mapping[str, tuple[HookEnd, ...]] = field(default_factory=dict)
    hooks_due: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    stop_blocks: int = 0
    skills: tuple[SkillInvoked, ...] = ()
    loaded: tuple[str, ...] = ()

    @property
    def view(self) -> tuple[Message, ...]:
        """What of the conversation a model is shown."""
        summary = () if self.summary is None else (self.summary,)
        return (*summary, *self.messages[self.kept_from :])

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
    sent_on = event.source == STOP_HOOK
    focus = compaction_focus(event.content) if event.source in (None, RESUMED) else None
    if focus is not None:
        return replace(thread, command=focus, reply=None)
    return replace(
        remember(thread, User(text=event.content)),
        reply=None,
        told=() if event.source == HOOK_CONTEXT else thread.told,
        skills=_still_in_force(thread, event.source),
        stop_blocks=thread.stop_blocks + (1 if sent_on else 0),
        same_text_in_a_row=0 if sent_on else thread.same_text_in_a_row,  # that has its own cap
        nudges=thread.nudges + nudge,
        continues=thread.continues + nudge,
    )


def _still_in_force(thread: Thread, source: str | None) -> tuple[SkillInvoked, ...]:
    """The skills a message leaves in force. What the runner says (a nudge, what failed) ends those
    that the agent took up by itself, and another prompt every one."""
    if source in (HOOK_CONTEXT, RESUMED):
        return thread.skills
    kept = (skill for skill in thread.skills if skill.trigger != "agent-invoked")
    return () if source is None else tuple(kept)


def compaction_focus(text: str) -> str | None:
    """What a compaction by hand should be about; None when the text does not ask for one."""
    word, *focus = text.split(maxsplit=1) or [""]
    return "".join(focus).strip() if word == COMMAND else None


def remember(thread: Thread, *messages: Message) -> Thread:
    """These messages join the history, cut if they have to be."""
    kept = tuple(cut(message, thread.max_message_bytes) for message in messages)
    return replace(
        thread,
        messages=thread.messages.plus(*kept),
        weight=thread.weight + sum(map(message_bound, kept)),
    )


def start_turn(thread: Thread, event: AssistantTurnStart) -> Thread:
    """A model call begins."""
    return replace(
        thread,
        open_turn=event.turn_id,
        model=event.model,
        reply=None,
        started={},
        results={},
        heard={},
        hooks_due={},
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
            ToolCall(
                id=r.tool_call_id,
                name=r.name,
                arguments=r.arguments,
                problem=r.problem,
                raw_arguments=r.raw_arguments,
            )
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
        recovering=False,
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
        hooks_due={**thread.hooks_due, event.tool_call_id: event.hooks or ()},
        refused=thread.refused or code == "not_run",
        sent_back=thread.sent_back or code in ("check_failed", "output_mismatch"),
        faults=thread.faults + (1 if code in ("unknown_tool", "invalid_arguments") else 0),
    )


def hear_hook(thread: Thread, end: HookEnd) -> Thread:
    """A hook has answered. One that was cancelled has not."""
    if end.outcome == "cancelled":
        return thread
    name = key(end.hook_event_name, end.subject)
    more = adds(end)
    return replace(
        thread,
        heard={**thread.heard, name: (*thread.heard.get(name, ()), end)},
        told=thread.told if more is None or more in thread.told else (*thread.told, more),
    )


def hear_skill(thread: Thread, event: SkillInvoked) -> Thread:
    """A skill was invoked; without a call of the agent its text is told as a message of its own."""
    told = () if event.trigger == "agent-invoked" else (User(text=event.content),)
    return replace(remember(thread, *told), skills=(*thread.skills, event))


def load_tools(thread: Thread, names: tuple[str, ...]) -> Thread:
    """Tools that were kept back are shown from now on; each once."""
    new = tuple(name for name in names if name not in thread.loaded)
    return replace(thread, loaded=(*thread.loaded, *new))


def end_turn(thread: Thread, sentences: Mapping[str, str]) -> Thread:
    """The turn is over: the reply and its results join the history."""
    reply = thread.reply
    if reply is None:  # the call failed: nothing was said, nothing is remembered
        return replace(thread, open_turn=None)
    bare = (thread.results[call.id] for call in reply.calls if call.id in thread.results)
    results = tuple(noted(result, thread.heard, sentences) for result in bare)
    used_tools = any(call.name not in CONTROL_TOOLS for call in reply.calls)
    rejected_control = bool(results) and not used_tools and all(r.is_error for r in results)
    rejected_control = rejected_control and not thread.sent_back  # that has a cap of its own
    acted = not thread.refused
    return replace(
        remember(thread, reply, *results),
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
        heard={},
        hooks_due={},
        stop_blocks=0,
        skills=(),
        overflowed=False,
        recovering=False,
        command=None,
        compacted=None,
        vain_compactions=0,
        without_compaction=False,
    )


def fresh_counters(thread: Thread) -> Thread:
    """What was said stays, and how large it is; nothing is counted yet."""
    return Thread(
        messages=thread.messages,
        turns_started=thread.turns_started,  # turns are numbered over the whole session
        measured_tokens=thread.measured_tokens,
        measured_messages=thread.measured_messages,
        measured_weight=thread.measured_weight,
        weight=thread.weight,
        density=thread.density,
        summary=thread.summary,
        kept_from=thread.kept_from,
        max_message_bytes=thread.max_message_bytes,
        refused_tokens=thread.refused_tokens,
        loaded=thread.loaded,
    )
