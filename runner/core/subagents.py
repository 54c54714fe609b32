"""A sub-agent is the same loop over a projected state: a run in which it is the main agent.

Rules of this file: `child_state` is what a sub-agent sees, `absorb` what the run keeps of it. A
sub-agent is never given more than the agent that started it: of its tools, rules and modes only
what is in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from runner.core.events import (
    Persisted,
    SessionUsageCheckpoint,
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
    ToolExecutionComplete,
)
from runner.core.ledger import Ledger
from runner.core.messages import ToolCall
from runner.core.spec import AgentSpec, PermissionMode, TaskSpec
from runner.core.state import MAIN, State, Subagent
from runner.core.thread import Thread

GENERAL_PURPOSE: Final = "general-purpose"
"""The agent that is always there, unless the spec has one of that name; its texts are ours."""

_OURS: Final = AgentSpec(description="", prompt="")

_ROOT: Final = "main"
"""What the main loop's money is held under in the eyes of a sub-agent."""

NARROWER: Final[Mapping[PermissionMode, frozenset[PermissionMode]]] = {
    "bypassPermissions": frozenset({"auto", "acceptEdits", "default", "dontAsk", "plan"}),
    "auto": frozenset({"default", "dontAsk", "plan"}),
    "acceptEdits": frozenset({"default", "dontAsk", "plan"}),
    "default": frozenset({"dontAsk", "plan"}),
    "dontAsk": frozenset(),
    "plan": frozenset(),
}
"""The modes that allow nothing that this one does not."""


def catalog(spec: TaskSpec) -> Mapping[str, AgentSpec]:
    """The agents that may be started, by name."""
    return {GENERAL_PURPOSE: _OURS, **spec.agents}


# -- who is who ---------------------------------------------------------------------------------


def of_call(state: State, call: ToolCall) -> str | None:
    """The sub-agent that this call of the open turn has started."""
    return next(
        (
            id_
            for id_, agent in state.agents.items()
            if agent.parent == state.agent_id
            and agent.started.tool_call_id == call.id
            and agent.started.turn_id == state.main.open_turn
        ),
        None,
    )


def open_children(state: State) -> tuple[str, ...]:
    """The sub-agents of this agent that have begun and not ended."""
    return tuple(
        id_
        for id_, agent in state.agents.items()
        if agent.ended is None and agent.parent == state.agent_id
    )


def depth(state: State, agent_id: str) -> int:
    """How many agents stand above this one; none above the main loop."""
    agent = state.agents.get(agent_id)
    return 0 if agent is None else 1 + depth(state, agent.parent)


def label(state: State, agent_id: str) -> str:
    """What people are told it is: its name, with a number when it is not the first of that name."""
    agent = state.agents.get(agent_id)
    if agent is None:
        return agent_id
    name = agent.started.agent_name
    alike = [id_ for id_, one in state.agents.items() if one.started.agent_name == name]
    number = alike.index(agent_id) + 1
    return name if number == 1 else f"{name} {number}"


# -- what it sees -------------------------------------------------------------------------------


def child_state(state: State, agent_id: str) -> State:
    """The run as this sub-agent of it sees it. Its agent id is known to nothing but `agent_id`."""
    return replace(projected(state, agent_id), spec=child_spec(state, agent_id))


def projected(state: State, agent_id: str) -> State:
    """The same under the spec of the run: all that matters for what a fact changes."""
    agent = state.agents[agent_id]
    return replace(
        state,
        agent_id=agent_id,
        model=_model_of(state, agent_id),
        preflight=state.preflight
        and replace(state.preflight, tool_definitions_bytes=agent.started.tool_definitions_bytes),
        system=agent.system,
        threads={**state.threads, MAIN: state.threads.get(agent_id, Thread())},
        ledger=_renamed(state.ledger, {MAIN: state.agent_id or _ROOT, agent_id: MAIN}),
        known_files=agent.known_files,
        decided=agent.decided,
        tripped=agent.tripped,
        failure=agent.failure,
        completion=None,
        verified=None,
        judged=None,
        verify_attempts=0,
        protection=None,
        guarded=None,
        output=None,
        output_check=None,
        output_attempts=0,
        note=agent.note,
    )


def child_spec(state: State, agent_id: str) -> TaskSpec:
    """The task as it is for this sub-agent: no autopilot, no checks, and never more than above."""
    if agent_id == state.agent_id:
        return state.need
    agent = state.agents[agent_id]
    above = child_spec(state, agent.parent)
    in_force = tuple(
        rule for skill in _thread_of(state, agent.parent).skills for rule in skill.disallowed_tools
    )
    bound = replace(above, disallowed_tools=(*above.disallowed_tools, *in_force))
    return narrowed(bound, _definition(state, agent), _model_of(state, agent.parent))


def _thread_of(state: State, agent_id: str) -> Thread:
    return state.main if agent_id == state.agent_id else state.threads.get(agent_id, Thread())


def narrowed(above: TaskSpec, own: AgentSpec, model: str) -> TaskSpec:
    """The task of an agent, as it is for a sub-agent it starts; `model` is the agent's own."""
    mode = own.permission_mode
    caps = [cap for cap in (above.max_turns, own.max_turns) if cap is not None]
    return replace(
        above,
        model=own.model or model,
        autopilot=False,
        effort=own.effort or above.effort,
        max_turns=min(caps, default=None),
        permission_mode=mode
        if mode is not None and mode in NARROWER[above.permission_mode]
        else above.permission_mode,
        disallowed_tools=(*above.disallowed_tools, *own.disallowed_tools),
        verify=(),
        require_changes=(),
        forbid_changes=(),
        output_schema=None,
        on_denied="report",
        hooks={event: groups for event, groups in above.hooks.items() if event != "Stop"},
    )


def _definition(state: State, agent: Subagent) -> AgentSpec:
    """What the spec says about it now; of one that it no longer knows, what all have."""
    return catalog(state.need).get(agent.started.agent_name, _OURS)


def _model_of(state: State, agent_id: str) -> str:
    """The model it is asked with next: a fallback, its own, or that of the agent above."""
    if agent_id == state.agent_id:
        return state.model
    agent = state.agents[agent_id]
    own = agent.model or _definition(state, agent).model
    return own or _model_of(state, agent.parent)


def _renamed(ledger: Ledger, names: Mapping[str, str]) -> Ledger:
    held = {names.get(id_, id_): amount for id_, amount in ledger.reserved.items()}
    return replace(ledger, reserved=held)


# -- what is kept of it -------------------------------------------------------------------------


def absorb(before: State, agent_id: str, event: Persisted, child: State) -> State:
    """The run after something happened to a sub-agent, who sees `child` now.

    What was found out about the work is out of date. Its caps and failures stay its own.
    """
    agent = before.agents[agent_id]
    used = agent.tokens
    if isinstance(event, SessionUsageCheckpoint):
        read = event.input_tokens + event.cache_read_tokens + event.cache_write_tokens
        used += read + event.output_tokens
    changed = replace(
        agent,
        system=child.system,
        model=agent.model if child.model == _model_of(before, agent_id) else child.model,
        known_files=child.known_files,
        decided=child.decided,
        tripped=child.tripped,
        failure=child.failure,
        note=child.note,
        tokens=used,
        tool_calls=agent.tool_calls + isinstance(event, ToolExecutionComplete),
    )
    return replace(
        before,
        agents={**before.agents, agent_id: changed},
        threads={**before.threads, agent_id: child.main},
        ledger=_renamed(child.ledger, {MAIN: agent_id, before.agent_id or _ROOT: MAIN}),
        denials=child.denials,
        survivors=child.survivors,
        said=child.said,
        open_hooks=child.open_hooks,
        hook_stop=child.hook_stop,
        attempts_over=child.attempts_over,
        judged=None,
        guarded=None,
    )


def begin(state: State, agent_id: str, event: SubagentStarted) -> State:
    """A sub-agent has begun: its conversation is empty. One that is nobody's never did."""
    parent = event.parent_agent_id or MAIN
    if agent_id in (MAIN, *state.agents) or parent not in (MAIN, *state.agents):
        return state
    return replace(
        state,
        agents={**state.agents, agent_id: Subagent(started=event)},
        threads={**state.threads, agent_id: Thread()},
    )


def end(state: State, agent_id: str, event: SubagentCompleted | SubagentFailed) -> State:
    """A sub-agent has ended."""
    agent = state.agents.get(agent_id)
    if agent is None:
        return state
    return replace(state, agents={**state.agents, agent_id: replace(agent, ended=event)})


def going_on(agents: Mapping[str, Subagent], note: str | None) -> Mapping[str, Subagent]:
    """The run was resumed: what stopped them then does not stop them now, and those that a kill
    left open are told."""
    return {
        id_: replace(agent, tripped=None, failure=None, note=None if agent.ended else note)
        for id_, agent in agents.items()
    }


def with_models_of_spec(agents: Mapping[str, Subagent]) -> Mapping[str, Subagent]:
    """Every start of a run begins with the models of the spec; no fallback stands."""
    return {id_: replace(agent, model=None) for id_, agent in agents.items()}
