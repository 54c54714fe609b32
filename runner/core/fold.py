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
    HookEnd,
    HookStart,
    PermissionCompleted,
    PermissionRequested,
    Persisted,
    Record,
    RunnerLogRecovered,
    RunnerOutputCheck,
    RunnerPreflight,
    RunnerProtection,
    RunnerProtectionCheck,
    RunnerResult,
    RunnerSpec,
    RunnerVerifyComplete,
    RunnerVerifyStart,
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
    SystemMessage,
    ToolExecutionComplete,
    ToolExecutionStart,
    UserMessage,
)
from runner.core.hooks import stop_reason
from runner.core.messages import (
    CONTROL_TOOLS,
    Usage,
)
from runner.core.resumption import resume
from runner.core.shrink import (
    begin_compaction,
    cut_down,
    end_compaction,
    measure,
    overflow,
    unmeasured,
)
from runner.core.spec import TaskSpec
from runner.core.state import MAIN, State
from runner.core.thread import (
    STOP_HOOK,
    Thread,
    compaction_focus,
    end_turn,
    hear_hook,
    hear_reply,
    hear_user,
    start_turn,
    take_result,
)

CAPS = frozenset({"error_max_turns", "error_max_budget_usd"})
"""Subtypes that a `session.warning` of the same type trips."""

SAID_ONCE = frozenset({"parameter_left_out", "usage_not_reported"})
"""Types of warnings whose message is given once in a session."""

NO_COMPACTION = "compaction_given_up"
"""The type of a warning after which nothing is compacted any more to save room."""


UNCLASSIFIED = "permission_classifier_failed"
"""The type of a warning of an agent whose model call failed for good, without ending the run."""


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
            return resume(state, event)
        case RunnerSpec():
            spec = wire.decode(TaskSpec, event.spec)
            asked = _use_model(state, spec.model)
            task = spec.prompt if compaction_focus(spec.prompt) is None else state.task
            return replace(asked, spec=spec, task=task, sentences=event.sentences)
        case RunnerPreflight():
            return replace(state, preflight=event)
        case SystemMessage(role="developer"):
            return replace(_unmeasured(state), instructions=event.content)
        case SystemMessage():
            return replace(state, system=event.content)
        case UserMessage():
            heard = _with(state, agent_id, hear_user(thread, event))
            heard = replace(heard, note=None, judged=None)
            if event.source == STOP_HOOK and agent_id == MAIN:  # not the end: checks begin anew
                return replace(heard, completion=None, verify_attempts=0)
            return heard
        case AssistantTurnStart():
            ledger = state.ledger.hold(agent_id, event.reserved_cost_usd)
            turned = replace(_with(state, agent_id, start_turn(thread, event)), ledger=ledger)
            decided = {} if agent_id == MAIN else state.decided
            return replace(turned, judged=None, guarded=None, output_check=None, decided=decided)
        case SessionUsageCheckpoint():
            return _charge(state, agent_id, thread, event)
        case SessionCompactionStart():
            ledger = state.ledger.hold(agent_id, event.reserved_cost_usd)
            return replace(_with(state, agent_id, begin_compaction(thread, event)), ledger=ledger)
        case SessionCompactionComplete():
            over = _with(state, agent_id, end_compaction(thread, event))
            over = replace(over, ledger=state.ledger.release(agent_id))
            return over if event.is_interrupted else _attempt_over(over)
        case AssistantMessage():
            heard = _with(state, agent_id, hear_reply(thread, event))
            return _attempt_over(heard, agent_id)
        case ToolExecutionComplete(file=file):
            taken = _with(state, agent_id, take_result(thread, event))
            if event.tool_name not in CONTROL_TOOLS:  # those touch nothing
                taken = replace(taken, judged=None, guarded=None)
            if file is None:
                return taken
            return replace(taken, known_files=state.known_files | {file.path: file.sha256})
        case AssistantTurnEnd():
            ledger = state.ledger.release(agent_id)
            return replace(_with(state, agent_id, end_turn(thread, state.sentences)), ledger=ledger)
        case HookStart():
            opened = {**state.open_hooks, event.hook_invocation_id: event}
            return replace(state, open_hooks=opened)
        case HookEnd():
            return _close_hook(_with(state, agent_id, hear_hook(thread, event)), event)
        case PermissionCompleted():
            decided = {**state.decided, event.tool_call_id: event}
            return _note_decision(replace(state, decided=decided), thread, event)
        case SessionTaskComplete():
            return state if event.outcome == "continue" else replace(state, completion=event)
        case RunnerVerifyComplete():
            made = event.attempt if event.checks else state.verify_attempts
            last = event if event.checks else state.verified
            return replace(state, verified=last, judged=event, verify_attempts=made)
        case RunnerOutputCheck():
            attempts = state.output_attempts + (0 if event.valid else 1)
            output = event.output if event.valid else state.output
            return replace(state, output=output, output_check=event, output_attempts=attempts)
        case RunnerProtection():
            return replace(state, protection=event, guarded=None)
        case RunnerProtectionCheck():
            violation = state.violation or (event if event.changes else None)
            return replace(state, guarded=event, violation=violation)
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


def _attempt_over(state: State, agent_id: str = MAIN) -> State:
    """The model that is asked has answered, or failed to; an agent may have one of its own."""
    model = state.model if agent_id == MAIN else state.threads[agent_id].model
    over = state.attempts_over.get(model, 0) + 1
    return replace(state, attempts_over={**state.attempts_over, model: over})


def _use_model(state: State, model: str) -> State:
    """Ask this model next. Another one counts tokens differently, so no measurement stands."""
    if model == state.model:
        return state
    other = _unmeasured(state)
    threads = {n: replace(thread, refused_tokens=None) for n, thread in other.threads.items()}
    return replace(other, threads=threads, model=model)


def _unmeasured(state: State) -> State:
    threads = {name: unmeasured(thread) for name, thread in state.threads.items()}
    return replace(state, threads=threads)


def _charge(state: State, agent_id: str, thread: Thread, event: SessionUsageCheckpoint) -> State:
    usage = Usage(
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cache_read_tokens=event.cache_read_tokens,
        cache_write_tokens=event.cache_write_tokens,
        reasoning_tokens=event.reasoning_tokens,
    )
    if usage.prompt_tokens:  # a call without usage weighed nothing
        thread = measure(thread, usage.prompt_tokens, state.prefix_bytes)
    return replace(
        _with(state, agent_id, thread),
        ledger=state.ledger.settle(agent_id, event),
        usage=state.usage + usage if agent_id == MAIN else state.usage,
    )


def _close_hook(state: State, end: HookEnd) -> State:
    still = {name: s for name, s in state.open_hooks.items() if name != end.hook_invocation_id}
    stop = state.hook_stop or stop_reason(end)
    return replace(state, open_hooks=still, hook_stop=stop, guarded=None)


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
        return _attempt_over(replace(state, ledger=held), agent_id)
    if event.warning_type == UNCLASSIFIED:
        return _attempt_over(state, agent_id)
    if event.survivors:
        return replace(state, survivors=(*state.survivors, *event.survivors))
    if event.warning_type in SAID_ONCE:
        return replace(state, said=state.said | {event.message})
    if event.current_tokens is not None:  # the open call was refused as too long
        thread = overflow(state.threads.get(agent_id, Thread()), event.current_tokens)
        return _attempt_over(_with(state, agent_id, thread))
    if event.max_message_bytes is not None:
        thread = cut_down(state.threads.get(agent_id, Thread()), max(event.max_message_bytes, 1))
        return _with(state, agent_id, thread)
    if event.warning_type == NO_COMPACTION:
        thread = replace(state.threads.get(agent_id, Thread()), without_compaction=True)
        return _with(state, agent_id, thread)
    if event.warning_type in CAPS and state.tripped is None:
        return replace(state, tripped=event)
    return state
