"""How the state of a run changes: `apply` one record, `fold` them all.

Rules of this file: it decides nothing and knows no limits; it remembers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from runner.core import wire
from runner.core.events import (
    Abort,
    AssistantMessage,
    AssistantReasoning,
    AssistantTurnEnd,
    AssistantTurnStart,
    PermissionCompleted,
    PermissionRequested,
    Persisted,
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
    Usage,
)
from runner.core.spec import TaskSpec
from runner.core.state import MAIN, State
from runner.core.thread import (
    Thread,
    end_turn,
    fresh_counters,
    hear_reply,
    hear_user,
    past_its_ending,
    start_turn,
    take_result,
)

CAPS = frozenset({"error_max_turns", "error_max_budget_usd"})
"""Subtypes that a `session.warning` of the same type trips."""


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
            heard = _with(state, agent_id, hear_user(thread, event))
            return replace(heard, note=None, judged=None)
        case AssistantTurnStart():
            ledger = state.ledger.hold(agent_id, event.reserved_cost_usd)
            return replace(_with(state, agent_id, start_turn(thread, event)), ledger=ledger)
        case SessionUsageCheckpoint():
            return _charge(state, agent_id, thread, event)
        case AssistantMessage():
            heard = _with(state, agent_id, hear_reply(thread, event))
            return _attempt_over(heard)
        case ToolExecutionComplete(file=file):
            taken = _with(state, agent_id, take_result(thread, event))
            taken = replace(taken, judged=None)
            if file is None:
                return taken
            return replace(taken, known_files=state.known_files | {file.path: file.sha256})
        case AssistantTurnEnd():
            ledger = state.ledger.release(agent_id)
            return replace(_with(state, agent_id, end_turn(thread)), ledger=ledger)
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
        threads = {name: past_its_ending(thread) for name, thread in threads.items()}
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
    fresh = {name: fresh_counters(thread) for name, thread in threads.items()}
    return replace(going, threads=fresh, ledger=Ledger(), usage=Usage(), denials=(), survivors=())


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
