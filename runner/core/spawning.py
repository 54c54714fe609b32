"""When a sub-agent may be started, what it is given, and what its end means to who started it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from runner.core import compaction, rules, turns
from runner.core.endings import Ending
from runner.core.events import (
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
)
from runner.core.limits import budget_reached
from runner.core.messages import AGENT_TOOL, CONTROL_TOOLS, Assistant, ToolCall, ToolSpec
from runner.core.permissions import removed
from runner.core.spec import AgentSpec
from runner.core.state import State
from runner.core.steps import Say, Step
from runner.core.subagents import (
    GENERAL_PURPOSE,
    catalog,
    child_state,
    depth,
    narrowed,
    open_children,
)
from runner.core.weight import tools_bound

NOBODY_ASKS: Final = CONTROL_TOOLS | {"AskUserQuestion"}
"""Tools that are the main loop's alone."""

BUDGET: Final = "Budget limit reached"

CUT_OFF: Final = "\n[cut off here: the reply reached its output limit]"

CANCELLED: Final = "cancelled"
"""The reason of a sub-agent that was stopped by what happened outside of it."""


# -- the start ----------------------------------------------------------------------------------


def agent_name(call: ToolCall) -> str:
    """The agent a call asks for."""
    return str(call.arguments.get("subagent_type") or GENERAL_PURPOSE)


def refusal(state: State, call: ToolCall) -> str | None:
    """Why this call starts no sub-agent; None when it does."""
    spec, name = state.need, agent_name(call)
    known = catalog(spec)
    if name not in known:
        return f"there is no agent `{name[:64]}`; the agents are {', '.join(sorted(known))}"
    if budget_reached(state):
        return f"{BUDGET}: no sub-agent is started any more"
    deepest, most = spec.limits.max_subagent_depth, spec.limits.max_subagents
    if depth(state, state.agent_id) >= deepest:
        return (
            f"sub-agents may be nested {deepest} deep (`limits.max_subagent_depth`), and this one "
            "would be deeper: do the work yourself"
        )
    if sum(agent.ended is None for agent in state.agents.values()) >= most:
        return (
            f"{most} sub-agents are at work, and there may be no more (`limits.max_subagents`): "
            "start it when one of them has ended, or do the work yourself"
        )
    return None


def started(
    state: State, call: ToolCall, description: str, offered: tuple[ToolSpec, ...]
) -> SubagentStarted:
    """The fact that the call starts a sub-agent. `offered` is what it is shown."""
    name = agent_name(call)
    return SubagentStarted(
        tool_call_id=call.id,
        turn_id=state.main.open_turn or "",
        agent_name=name,
        agent_display_name=name,
        agent_description=description,
        model=narrowed(state.need, catalog(state.need)[name], state.model).model,
        parent_agent_id=state.agent_id or None,
        tool_definitions_bytes=tools_bound(offered),
    )


def offered_to(
    state: State, name: str, above: tuple[ToolSpec, ...], at_depth: int
) -> tuple[ToolSpec, ...]:
    """Of the tools the agent that starts it is shown, those that this agent may have."""
    own = catalog(state.need).get(name, AgentSpec(description="", prompt="", tools=()))
    narrow = narrowed(state.need, own, state.model)
    is_deepest = at_depth >= state.need.limits.max_subagent_depth
    return tuple(
        tool
        for tool in above
        if tool.name not in NOBODY_ASKS
        and not (tool.name == AGENT_TOOL and is_deepest)
        and not removed(narrow, tool.name)
        and (own.tools is None or any(_means(text, tool.name) for text in own.tools))
    )


def _means(text: str, tool: str) -> bool:
    rule = rules.parse(text)
    return rule.tool == tool or (rule.specifier is None and rules.names(rule, tool))


# -- the end ------------------------------------------------------------------------------------


def ended(child: State, ending: Ending, duration_ms: int) -> SubagentCompleted | SubagentFailed:
    """What becomes of a sub-agent whose loop is over. One that says nothing has failed."""
    about = _about(child, duration_ms)
    if ending.subtype != "success":
        error = ending.message or ending.subtype
        if ending.subtype == "error_max_budget_usd":
            error = f"{BUDGET}. {error}"
        reason = ending.error_type or ending.subtype
        return SubagentFailed(**about, error=error, reason=reason)
    if not last_text(child).strip():
        error = "It ended without a word"
        return SubagentFailed(**about, error=error, reason="malformed_replies")
    return SubagentCompleted(**about)


def _about(child: State, duration_ms: int | None) -> dict[str, Any]:
    agent = child.agents[child.agent_id]
    return {
        "tool_call_id": agent.started.tool_call_id,
        "agent_name": agent.started.agent_name,
        "agent_display_name": agent.started.agent_display_name,
        "model": child.model,
        "duration_ms": duration_ms,
        "total_tokens": agent.tokens,
        "total_tool_calls": agent.tool_calls,
    }


def told(child: State) -> tuple[str, bool]:
    """What the agent that started it is told, and whether that is an error."""
    end = child.agents[child.agent_id].ended
    if not isinstance(end, SubagentFailed):
        cut = CUT_OFF if child.main.finish_reason == "length" else ""
        return last_text(child) + cut, False
    template = child.sentences.get("subagent_failed", "{agent}: {reason}")
    text = template.replace("{agent}", end.agent_name).replace("{reason}", end.error)
    if partial := last_text(child).strip():
        said = child.sentences.get("subagent_partial", "{text}")
        text = f"{text}\n\n{said.replace('{text}', partial)}"
    return text, True


def last_text(child: State) -> str:
    """What the agent said last, beside calls or without any."""
    return next(_texts(child), "")


def _texts(child: State) -> Iterator[str]:
    if child.main.reply is not None:
        yield from filter(str.strip, (child.main.reply.text,))
    for message in reversed(child.main.messages):
        if isinstance(message, Assistant) and message.text.strip():
            yield message.text


# -- closing ------------------------------------------------------------------------------------


def is_left_open(state: State) -> bool:
    """A sub-agent is open, and the call that started it is not."""
    return any(_is_left(state, id_) for id_ in open_children(state))


def _is_left(state: State, agent_id: str) -> bool:
    begun = state.agents[agent_id].started
    waiting = {call.id for call in state.main.pending}
    return begun.turn_id != state.main.open_turn or begun.tool_call_id not in waiting


def has_open(state: State) -> bool:
    """A sub-agent of this agent is open."""
    return bool(open_children(state))


def close(state: State) -> Step:
    """Close what is open of an open sub-agent, the innermost first: its calls, its turn, itself."""
    first = next((id_ for id_ in open_children(state) if _is_left(state, id_)), None)
    child = child_state(state, first or open_children(state)[0])
    while inner := open_children(child):
        child = child_state(child, inner[0])
    return _say_of(child, _closing(child))


def _closing(child: State) -> Step:
    if child.main.pending:
        return turns.close_calls(child)
    if compaction.is_open(child):
        return compaction.close(child)
    if child.main.open_turn is not None:
        return turns.end_turn(child)
    error = "The run was stopped" if child.abort is None else f"Cancelled by {child.abort.cause}"
    failed = SubagentFailed(**_about(child, None), error=error, reason=CANCELLED, cancelled=True)
    return Say(events=(failed,))


def _say_of(child: State, step: Step) -> Step:
    assert isinstance(step, Say)  # closing is bookkeeping
    return Say(events=step.events, agent_id=child.agent_id)
