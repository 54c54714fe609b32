"""The state of a run, and the only way it changes: `apply` one record, `fold` them all.

Rules of this file: it decides nothing and knows no limits; it remembers. Everything a decision
needs must be here, and everything here must come from a persisted event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, assert_never

from runner.core import wire
from runner.core.events import (
    Abort,
    AssistantMessage,
    AssistantReasoning,
    AssistantTurnEnd,
    AssistantTurnStart,
    FileEffect,
    PermissionCompleted,
    PermissionRequested,
    Persisted,
    PriceListing,
    Record,
    RunnerLogRecovered,
    RunnerPreflight,
    RunnerResult,
    RunnerSpec,
    RunnerVerifyComplete,
    RunnerVerifyStart,
    SessionError,
    SessionInfo,
    SessionModelChange,
    SessionResume,
    SessionShutdown,
    SessionStart,
    SessionTaskComplete,
    SessionUsageCheckpoint,
    SessionWarning,
    SystemMessage,
    ToolExecutionComplete,
    ToolExecutionStart,
    UserMessage,
)
from runner.core.ledger import Ledger
from runner.core.messages import (
    CONTROL_TOOLS,
    Assistant,
    Message,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from runner.core.spec import TaskSpec

MAIN = ""
"""The agent id of the main loop; sub-agents have their own."""

CAPS = frozenset({"error_max_turns", "error_max_budget_usd"})
"""Subtypes that a `session.warning` of the same type trips."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that is known about a run.

    `instructions` are the project's, sent before the messages and kept in none of them.
    `known_files` are the hashes of files as the model knows them. `resumes` counts how often in a
    row the session was resumed after a kill; `note` is what the model has to be told before it is
    asked again; `elapsed_ms` is what earlier parts took; `attempts_over` counts model calls of
    known outcome over the whole session, by model. `model` is the one that is asked next: the
    spec's, or the fallback that took over; every start of a run begins with the spec's.
    `head_commit` is where the workspace's repository was when the session last began or went on.
    `verified` is the last verification, `judged` the same as long as nothing was done since.
    """

    spec: TaskSpec | None = None
    model: str = ""
    sentences: Mapping[str, str] = field(default_factory=dict)
    session: SessionStart | None = None
    head_commit: str | None = None
    preflight: RunnerPreflight | None = None
    system: str = ""
    instructions: str = ""
    threads: Mapping[str, Thread] = field(default_factory=lambda: {MAIN: Thread()})
    ledger: Ledger = Ledger()
    usage: Usage = Usage()
    denials: tuple[Mapping[str, Any], ...] = ()
    survivors: tuple[str, ...] = ()
    known_files: dict[str, str] = field(default_factory=dict)
    completion: SessionTaskComplete | None = None
    verified: RunnerVerifyComplete | None = None
    judged: RunnerVerifyComplete | None = None
    verify_attempts: int = 0
    tripped: SessionWarning | None = None
    abort: Abort | None = None
    failure: SessionError | None = None
    result: Mapping[str, Any] | None = None
    closed: bool = False
    resumes: int = 0
    note: str | None = None
    elapsed_ms: int = 0
    attempts_over: Mapping[str, int] = field(default_factory=dict)
    first_timestamp: str | None = None
    last_timestamp: str | None = None

    @property
    def main(self) -> Thread:
        """The main loop's thread."""
        return self.threads[MAIN]

    @property
    def ended(self) -> bool:
        """The last part of the session ended by itself; one that could not even start did not."""
        return self.closed and (self.result or {}).get("error_type") != "preflight"

    @property
    def read_only_tools(self) -> frozenset[str]:
        """Names of the offered tools whose calls may run together."""
        listed = self.preflight.tools if self.preflight else ()
        return frozenset(tool.name for tool in listed if tool.read_only)

    @property
    def duration_ms(self) -> int:
        """How long the run took so far, times in between two parts of it left out."""
        if self.first_timestamp is None or self.last_timestamp is None:
            return self.elapsed_ms
        first, last = map(datetime.fromisoformat, (self.first_timestamp, self.last_timestamp))
        return self.elapsed_ms + round((last - first).total_seconds() * 1000)

    def price(self, model: str) -> PriceListing | None:
        """The price `model` is charged at; None when it has none (only legal without a cap)."""
        listed = self.preflight.prices if self.preflight else ()
        return next((price for price in listed if price.model == model), None)

    @property
    def need(self) -> TaskSpec:
        """The spec, once it was recorded."""
        if self.spec is None:
            raise LookupError("the log has no runner.spec yet")
        return self.spec


def fold(records: Iterable[Record], start: State | None = None) -> State:
    """The state after `records`; ephemeral ones change nothing."""
    state = State() if start is None else start
    for record in records:
        if record.seq is not None:
            state = apply(state, record)
    return state


def apply(state: State, record: Record) -> State:
    """The state after one more persisted record."""
    agent_id = record.agent_id or MAIN
    after = _apply_event(state, agent_id, record.event)  # type: ignore[arg-type]  # seq is set
    first = after.first_timestamp or record.timestamp
    return replace(after, first_timestamp=first, last_timestamp=record.timestamp)


def _apply_event(  # noqa: C901  # one arm an event, exhaustive
    state: State, agent_id: str, event: Persisted
) -> State:
    thread = state.threads.get(agent_id, Thread())
    match event:
        case SessionStart():
            head = (event.context or {}).get("headCommit")
            return replace(state, session=event, head_commit=head)
        case SessionResume():
            return _resume(state, event)
        case RunnerSpec():
            spec = wire.decode(TaskSpec, event.spec)
            asked = _use_model(state, spec.model)
            return replace(asked, spec=spec, sentences=event.sentences)
        case RunnerPreflight():
            return replace(state, preflight=event)
        case SystemMessage(role="developer"):
            return replace(_unmeasured(state), instructions=event.content)
        case SystemMessage():
            return replace(state, system=event.content)
        case UserMessage():
            heard = _with(state, agent_id, _hear_user(thread, event))
            return replace(heard, note=None, judged=None)
        case AssistantTurnStart():
            ledger = state.ledger.hold(agent_id, event.reserved_cost_usd)
            return replace(_with(state, agent_id, _start_turn(thread, event)), ledger=ledger)
        case SessionUsageCheckpoint():
            return _charge(state, agent_id, thread, event)
        case AssistantMessage():
            heard = _with(state, agent_id, _hear_reply(thread, event))
            return _attempt_over(heard)
        case ToolExecutionComplete(file=file):
            taken = _with(state, agent_id, _take_result(thread, event))
            taken = replace(taken, judged=None)
            if file is None:
                return taken
            return replace(taken, known_files=state.known_files | {file.path: file.sha256})
        case AssistantTurnEnd():
            ledger = state.ledger.release(agent_id)
            return replace(_with(state, agent_id, _end_turn(thread)), ledger=ledger)
        case PermissionCompleted():
            return _note_decision(state, thread, event)
        case SessionTaskComplete():
            return state if event.outcome == "continue" else replace(state, completion=event)
        case RunnerVerifyComplete():
            made = event.attempt if event.checks else state.verify_attempts
            return replace(state, verified=event, judged=event, verify_attempts=made)
        case SessionWarning():
            return _note_warning(state, agent_id, event)
        case SessionError():
            asking = thread.open_turn is not None and thread.reply is None
            failed = replace(state, failure=state.failure or event)
            return _attempt_over(failed) if asking else failed
        case SessionModelChange():
            held = state.ledger.hold(agent_id, event.reserved_cost_usd)
            return _use_model(_attempt_over(replace(state, ledger=held)), event.new_model)
        case Abort():
            return replace(state, abort=state.abort or event)
        case RunnerResult():
            return replace(state, result=event.result)
        case SessionShutdown():
            return replace(state, closed=True)
        case SessionInfo() | RunnerLogRecovered():
            return state
        case AssistantReasoning() | PermissionRequested() | RunnerVerifyStart():
            return state
        case ToolExecutionStart():
            started = {**thread.started, event.tool_call_id: event.effect}
            return _with(state, agent_id, replace(thread, started=started))
        case _:
            assert_never(event)


def _with(state: State, agent_id: str, thread: Thread) -> State:
    return replace(state, threads={**state.threads, agent_id: thread})


def _attempt_over(state: State) -> State:
    """The model that is asked has answered, or failed to."""
    over = state.attempts_over.get(state.model, 0) + 1
    return replace(state, attempts_over={**state.attempts_over, state.model: over})


def _use_model(state: State, model: str) -> State:
    """Ask this model next. Another one counts tokens differently, so no measurement stands."""
    if model == state.model:
        return state
    return replace(_unmeasured(state), model=model)


def _unmeasured(state: State) -> State:
    threads = {
        name: replace(thread, measured_tokens=None, measured_messages=0)
        for name, thread in state.threads.items()
    }
    return replace(state, threads=threads)


def _resume(state: State, event: SessionResume) -> State:
    """Go on: the last ending no longer stands, unless it was a completion nobody recorded."""
    ended = state.ended
    threads = state.threads
    if ended:
        threads = {name: _past_its_ending(thread) for name, thread in threads.items()}
    going = replace(
        state,
        threads=threads,
        abort=None,
        tripped=None,
        failure=None,
        result=None,
        closed=False,
        completion=None if ended else state.completion,
        verified=None if ended else state.verified,
        judged=None,  # the files may have been changed in between
        verify_attempts=0 if ended else state.verify_attempts,
        resumes=0 if ended else state.resumes + (0 if state.closed else 1),
        note=event.note,
        head_commit=(event.context or {}).get("headCommit", state.head_commit),
        elapsed_ms=state.duration_ms if event.carries else 0,
        first_timestamp=None,
    )
    if event.carries:
        return going
    fresh = {name: _fresh_counters(thread) for name, thread in threads.items()}
    return replace(going, threads=fresh, ledger=Ledger(), usage=Usage(), denials=(), survivors=())


def _past_its_ending(thread: Thread) -> Thread:
    """What made the last part end must not end the next one before anything was asked."""
    return replace(
        thread,
        reply=None,
        finish_reason=None,
        malformed_in_a_row=0,
        same_text_in_a_row=0,
        last_text=None,
    )


def _fresh_counters(thread: Thread) -> Thread:
    return Thread(
        messages=thread.messages,
        turns_started=thread.turns_started,  # turns are numbered over the whole session
        measured_tokens=thread.measured_tokens,
        measured_messages=thread.measured_messages,
    )


def _hear_user(thread: Thread, event: UserMessage) -> Thread:
    nudge = 1 if event.is_autopilot_continuation else 0
    return replace(
        thread,
        messages=(*thread.messages, User(text=event.content)),
        reply=None,
        nudges=thread.nudges + nudge,
        continues=thread.continues + nudge,
    )


def _start_turn(thread: Thread, event: AssistantTurnStart) -> Thread:
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


def _charge(state: State, agent_id: str, thread: Thread, event: SessionUsageCheckpoint) -> State:
    usage = Usage(
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cache_read_tokens=event.cache_read_tokens,
        cache_write_tokens=event.cache_write_tokens,
        reasoning_tokens=event.reasoning_tokens,
    )
    if usage.prompt_tokens:  # a call without usage weighed nothing
        thread = replace(
            thread,
            measured_tokens=usage.prompt_tokens,
            measured_messages=len(thread.messages),
        )
    return replace(
        _with(state, agent_id, thread),
        ledger=state.ledger.settle(agent_id, event),
        usage=state.usage + usage if agent_id == MAIN else state.usage,
    )


def _hear_reply(thread: Thread, event: AssistantMessage) -> Thread:
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


def _take_result(thread: Thread, event: ToolExecutionComplete) -> Thread:
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


def _end_turn(thread: Thread) -> Thread:
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


def _note_decision(state: State, thread: Thread, event: PermissionCompleted) -> State:
    if event.result.get("kind") == "approved":
        return state
    calls = thread.reply.calls if thread.reply else ()
    denied = tuple(
        {"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.arguments}
        for call in calls
        if call.id == event.tool_call_id
    )
    return replace(state, denials=(*state.denials, *denied))


def _note_warning(state: State, agent_id: str, event: SessionWarning) -> State:
    if event.reserved_cost_usd is not None:  # another attempt of the open call
        held = state.ledger.hold(agent_id, event.reserved_cost_usd)
        return _attempt_over(replace(state, ledger=held))
    if event.survivors:
        return replace(state, survivors=(*state.survivors, *event.survivors))
    if event.warning_type in CAPS and state.tripped is None:
        return replace(state, tripped=event)
    return state
