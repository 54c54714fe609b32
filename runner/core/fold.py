"""How the state of a run changes: `apply` one record, `fold` them all.

Rules of this file: it decides nothing and knows no limits; it remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from runner.core import subagents, wire
from runner.core.calls import attempt_over, charge, nothing_measured, pay, use_model, with_thread
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
    SkillInvoked,
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
    SystemMessage,
    ToolExecutionComplete,
    ToolExecutionStart,
    ToolSearchActivated,
    UserMessage,
)
from runner.core.events.own import with_status
from runner.core.hooks import stop_reason
from runner.core.messages import CONTROL_TOOLS
from runner.core.resumption import resume
from runner.core.shrink import (
    begin_compaction,
    cut_down,
    end_compaction,
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
    hear_skill,
    hear_user,
    load_tools,
    start_turn,
    take_result,
)

CAPS = frozenset({"error_max_turns", "error_max_budget_usd"})
"""Subtypes that a `session.warning` of the same type trips."""

SAID_ONCE = frozenset({"parameter_left_out", "usage_not_reported"})
"""Types of warnings whose message is given once in a session."""

NO_COMPACTION = "compaction_given_up"
"""The type of a warning after which nothing is compacted any more to save room."""

FAILED_CHECKS = "verify"
"""The source of a message that tells what failed."""

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
    after = _apply_to(state, agent_id, record.event)  # type: ignore[arg-type]  # seq is set
    first = after.first_timestamp or record.timestamp
    return replace(after, first_timestamp=first, last_timestamp=record.timestamp)


def _apply_to(state: State, agent_id: str, event: Persisted) -> State:
    """To a sub-agent happens what happens to the main loop, in the run as it sees it."""
    if agent_id not in state.agents or isinstance(event, _OF_A_SUBAGENT):
        return _apply_event(state, agent_id, event)
    child = _apply_event(subagents.projected(state, agent_id), MAIN, event)
    return subagents.absorb(state, agent_id, event, child)


_OF_A_SUBAGENT = (SubagentStarted, SubagentCompleted, SubagentFailed)


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
            asked = use_model(state, spec.model)
            task = spec.prompt if compaction_focus(spec.prompt) is None else state.task
            agents = subagents.with_models_of_spec(state.agents)
            return replace(asked, spec=spec, task=task, sentences=event.sentences, agents=agents)
        case RunnerPreflight():
            return replace(state, preflight=event)
        case SystemMessage(role="developer"):
            return replace(nothing_measured(state), instructions=event.content)
        case SystemMessage():
            return replace(state, system=event.content)
        case UserMessage():
            heard = with_thread(state, agent_id, hear_user(thread, event))
            heard = replace(heard, note=None, judged=None)
            if agent_id != MAIN or event.source not in (STOP_HOOK, FAILED_CHECKS):
                return heard
            made = 0 if event.source == STOP_HOOK else state.verify_attempts
            return replace(heard, completion=None, verify_attempts=made)  # it was not the end
        case AssistantTurnStart():
            ledger = state.ledger.hold(agent_id, event.reserved_cost_usd)
            turned = replace(with_thread(state, agent_id, start_turn(thread, event)), ledger=ledger)
            decided = {} if agent_id == MAIN else state.decided
            return replace(turned, judged=None, guarded=None, output_check=None, decided=decided)
        case SessionUsageCheckpoint():
            return charge(state, agent_id, thread, event)
        case SessionCompactionStart():
            ledger = state.ledger.hold(agent_id, event.reserved_cost_usd)
            return replace(
                with_thread(state, agent_id, begin_compaction(thread, event)), ledger=ledger
            )
        case SessionCompactionComplete():
            over = with_thread(state, agent_id, end_compaction(thread, event))
            over = replace(over, ledger=state.ledger.release(agent_id))
            return over if event.is_interrupted else attempt_over(over, agent_id)
        case AssistantMessage():
            heard = with_thread(state, agent_id, hear_reply(thread, event))
            return attempt_over(heard, agent_id)
        case ToolExecutionComplete(file=file):
            taken = with_thread(state, agent_id, take_result(thread, event))
            if event.tool_name not in CONTROL_TOOLS:  # those touch nothing
                taken = replace(taken, judged=None, guarded=None)
            if file is None:
                return taken
            return replace(taken, known_files=state.known_files | {file.path: file.sha256})
        case AssistantTurnEnd():
            ledger = state.ledger.release(agent_id)
            return replace(
                with_thread(state, agent_id, end_turn(thread, state.sentences)), ledger=ledger
            )
        case HookStart():
            opened = {**state.open_hooks, event.hook_invocation_id: (state.agent_id, event)}
            return replace(state, open_hooks=opened)
        case HookEnd():
            return _close_hook(with_thread(state, agent_id, hear_hook(thread, event)), event)
        case ToolSearchActivated(tool_names=names):
            # What was measured is not what will be sent: the definitions are part of it.
            return with_thread(state, agent_id, unmeasured(load_tools(thread, names)))
        case SkillInvoked():
            return with_thread(state, agent_id, hear_skill(thread, event))
        case PermissionCompleted():
            return _note_decision(state, thread, event)
        case SessionTaskComplete():
            return state if event.outcome == "continue" else replace(state, completion=event)
        case RunnerVerifyComplete():
            made = event.attempt if event.checks else state.verify_attempts
            last = event if event.checks else state.verified
            return replace(state, verified=last, judged=event, verify_attempts=made)
        case RunnerOutputCheck():
            attempts = 0 if event.valid else state.output_attempts + 1
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
            return attempt_over(failed) if asking else failed
        case SessionModelChange():
            held = state.ledger.hold(agent_id, event.reserved_cost_usd)
            return use_model(attempt_over(replace(state, ledger=held)), event.new_model)
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
        case SubagentStarted():
            return subagents.begin(state, agent_id, event)
        case SubagentCompleted() | SubagentFailed():
            return subagents.end(state, agent_id, event)
        case ToolExecutionStart():
            started = {**thread.started, event.tool_call_id: event.effect}
            begun = with_thread(state, agent_id, replace(thread, started=started))
            return begun if event.fee is None else pay(begun, event.fee)
        case _:
            assert_never(event)


def _close_hook(state: State, end: HookEnd) -> State:
    still = {name: s for name, s in state.open_hooks.items() if name != end.hook_invocation_id}
    stop = state.hook_stop or stop_reason(end)
    judged = state.judged if end.hook_event_name == "SessionEnd" else None  # the run is judged then
    return replace(state, open_hooks=still, hook_stop=stop, guarded=None, judged=judged)


def _note_decision(state: State, thread: Thread, event: PermissionCompleted) -> State:
    before = state.decided.get(event.tool_call_id)
    decided = {**state.decided, event.tool_call_id: event}
    state = replace(state, decided=decided)
    if before is not None and before.result.get("kind") != "approved":
        # Killed before the call was answered, the run decided again: it was denied once.
        state = replace(state, denials=_without(state.denials, event.tool_call_id))
    if event.result.get("kind") == "approved":
        return state
    calls = thread.reply.calls if thread.reply else ()
    denied = tuple(
        {"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.arguments}
        for call in calls
        if call.id == event.tool_call_id
    )
    return replace(state, denials=(*state.denials, *denied))


def _without(denials: tuple[Mapping[str, Any], ...], call_id: str) -> tuple[Mapping[str, Any], ...]:
    """All but the last denial of this call; ids may come again in later turns."""
    numbers = [n for n, denial in enumerate(denials) if denial["tool_use_id"] == call_id]
    return denials if not numbers else (*denials[: numbers[-1]], *denials[numbers[-1] + 1 :])


def _note_warning(state: State, agent_id: str, event: SessionWarning) -> State:
    if event.reserved_cost_usd is not None:  # another attempt of the open call
        held = state.ledger.hold(agent_id, event.reserved_cost_usd)
        return attempt_over(replace(state, ledger=held), agent_id)
    if event.warning_type == UNCLASSIFIED:
        return attempt_over(state, agent_id)
    if event.mcp_status is not None and state.preflight is not None:
        listed = with_status(state.preflight.mcp_servers, event.mcp_server, event.mcp_status)
        return replace(state, preflight=replace(state.preflight, mcp_servers=listed))
    if event.survivors:
        return replace(state, survivors=(*state.survivors, *event.survivors))
    if event.warning_type in SAID_ONCE:
        return replace(state, said=state.said | {event.message})
    if event.current_tokens is not None:  # the open call was refused as too long
        thread = overflow(state.threads.get(agent_id, Thread()), event.current_tokens)
        return attempt_over(with_thread(state, agent_id, thread))
    if event.max_message_bytes is not None:
        thread = cut_down(state.threads.get(agent_id, Thread()), max(event.max_message_bytes, 1))
        return with_thread(state, agent_id, thread)
    if event.warning_type == NO_COMPACTION:
        thread = replace(state.threads.get(agent_id, Thread()), without_compaction=True)
        return with_thread(state, agent_id, thread)
    if event.warning_type in CAPS and state.tripped is None:
        return replace(state, tripped=event)
    return state
