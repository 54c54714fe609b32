"""The lines of stderr: what one fact of a run looks like to somebody who watches.

Rules of this file: nothing is counted here, the numbers are those of the fold. What a sub-agent
does is told two columns further in, with its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from runner.adapters.log import Line, Span, Style
from runner.core.context import estimated_tokens, window_tokens
from runner.core.events import AssistantMessage, SessionCompactionComplete, ToolExecutionComplete
from runner.core.limits import budget_left_usd, continues_left, turns_left
from runner.core.spec import TaskSpec
from runner.core.state import MAIN, State
from runner.core.subagents import label
from runner.core.words import count, gist, one_line, span, usd

TEXT_CHARS = 58
ARGUMENT_CHARS = 48
REASON_CHARS = 100


def start_line(state: State, at: str) -> Line:
    """The head of a run: task, model, workspace, caps."""
    spec, session = state.need, state.session
    copied = spec.workspace.isolation == "copy"
    rows = {
        "model": spec.model,
        "workspace": ("a copy of " if copied else "") + spec.workspace.path,
        "caps": caps_in_words(spec),
        "session": session.session_id if session else "",
    }
    words = "".join(f"\n  {name:<10} {value}" for name, value in rows.items())
    spans: tuple[Span, ...] = (("bold", spec.name), ("dim", words), ("plain", "\n"))
    return Line(event="start", spans=spans, fields={"task": spec.name, **rows}, at=at)


def turn_line(state: State, agent_id: str, event: AssistantMessage, at: str) -> Line:
    """What an agent said, what the run has cost, and what is left of the caps of the run."""
    is_main = agent_id == MAIN
    number = state.threads[agent_id].turns_started
    spent = state.ledger.spent_usd
    left = _left(state, at) if is_main else {}
    words = ", ".join(words for _, words in left.values())
    width = TEXT_CHARS if is_main else TEXT_CHARS - 2
    return Line(
        event="turn",
        spans=(
            ("bold", f"turn {number:<3}" if is_main else f"  turn {number:<3}"),
            ("plain", f" {one_line(event.content, width):<{width}}"),
            ("plain", f"  {usd(spent):<8}"),
            ("dim", _tail(state, agent_id) or (f" {words} left" if words else "")),
        ),
        fields={
            "id": number,
            "text": event.content,
            "spent_usd": float(spent),
            **{f"{name}_left": value for name, (value, _) in left.items()},
            **whose(state, agent_id),
        },
        group="open" if is_main else None,
        at=at,
    )


def whose(state: State, agent_id: str) -> dict[str, str]:
    """The fields that say which sub-agent it was; none for the main loop."""
    if agent_id == MAIN:
        return {}
    return {"agent": label(state, agent_id), "agent_id": agent_id}


def of_agent(line: Line, state: State, agent_id: str) -> Line:
    """The line as one of what a sub-agent did."""
    name, *words = line.spans
    spans: tuple[Span, ...] = (("plain", "  "), name, ("dim", f" {label(state, agent_id)}"), *words)
    return replace(line, spans=spans, fields={**line.fields, **whose(state, agent_id)})


def _tail(state: State, agent_id: str) -> str:
    return "" if agent_id == MAIN else f" {label(state, agent_id)}"


def _left(state: State, at: str) -> dict[str, tuple[float, str]]:
    """What is left of each cap that there is, as a number and in words."""
    left: dict[str, tuple[float, str]] = {}
    turns = turns_left(state)
    if turns is not None:
        left["turns"] = turns, count(turns, "turn")
    budget = budget_left_usd(state, MAIN)
    if budget is not None:
        left["usd"] = float(budget), usd(budget)
    if state.need.timeout is not None and state.first_timestamp is not None:
        first, now = map(datetime.fromisoformat, (state.first_timestamp, at))
        seconds = round(state.need.timeout - (now - first).total_seconds(), 1)
        left["seconds"] = seconds, span(seconds)
    window = window_tokens(state)
    if window is not None:
        share = max(100 - round(100 * estimated_tokens(state) / window), 0)
        left["context_percent"] = share, f"{share}% of context"
    if state.need.autopilot:
        nudges = max(continues_left(state), 0)
        left["nudges"] = nudges, count(nudges, "nudge")
    return left


def tool_line(
    state: State,
    agent_id: str,
    event: ToolExecutionComplete,
    arguments: Mapping[str, Any],
    refusal: str,
    at: str,
) -> Line:
    """A call, how it ended, and why if it did not end well."""
    what = gist(arguments, ARGUMENT_CHARS)
    outcome, style = _outcome(event)
    took = "" if event.duration_ms is None else span(event.duration_ms / 1000)
    why = "" if event.success else _why(event, refusal)
    call = f"{one_line(event.tool_name, ARGUMENT_CHARS):<5}  {what}"
    inset = "" if agent_id == MAIN else "  "
    return Line(
        event="tool",
        spans=(
            (style, f"{inset}  {outcome:<8}"),
            ("plain", f" {call:<{TEXT_CHARS - 2 - len(inset)}}"),
            ("dim", f"  {took:<6}" if why or inset else f"  {took}"),
            ("dim", _tail(state, agent_id)),
            ("plain", f"  {why}" if why else ""),
        ),
        fields={
            "tool": event.tool_name,
            "arguments": what,
            "outcome": outcome,
            "duration_ms": event.duration_ms,
            "why": why or None,
            **whose(state, agent_id),
        },
        at=at,
    )


def compacted_line(state: State, event: SessionCompactionComplete, at: str) -> Line:
    """A summary stands for a part of the conversation now, or not."""
    if not event.success:
        return named("compact", "warn", f"nothing came of it: {event.error}", at)
    removed = count(event.messages_removed or 0, "message")
    words = (
        f"a summary stands for {removed}: about {event.pre_compaction_tokens:,} tokens before, "
        f"{event.post_compaction_tokens:,} now"
    )
    fields = {
        "trigger": event.trigger,
        "tokens_before": event.pre_compaction_tokens,
        "tokens_after": event.post_compaction_tokens,
    }
    spent = usd(state.ledger.spent_usd)
    return named("compact", "plain", f"{words}  {spent}", at, **fields)


def nudge_line(state: State, at: str) -> Line:
    """The model is told to go on."""
    used, allowed = state.main.nudges, state.need.max_autopilot_continues
    text = f"{used} of {allowed}: the reply called no tool, and the task is not marked complete"
    return named("nudge", "warn", text, at, used=used, allowed=allowed)


def caps_in_words(spec: TaskSpec) -> str:
    """Every cap a task has: `40 tool-use turns, $2.00, 30m, 5 nudges`."""
    caps = [
        count(spec.max_turns, "tool-use turn") if spec.max_turns is not None else "",
        usd(spec.max_budget_usd) if spec.max_budget_usd is not None else "",
        span(spec.timeout) if spec.timeout is not None else "",
        count(spec.max_autopilot_continues, "nudge") if spec.autopilot else "",
    ]
    return ", ".join(cap for cap in caps if cap) or "none"


def _outcome(event: ToolExecutionComplete) -> tuple[str, Style]:
    if event.success:
        return "ok", "good"
    if event.error is not None and event.error.code == "denied":
        return "denied", "warn"
    if event.error is not None and event.error.code == "cancelled":
        return "stopped", "warn"
    if event.error is not None and event.error.code == "not_run":
        return "not run", "warn"
    return "failed", "bad"


def _why(event: ToolExecutionComplete, refusal: str) -> str:
    if refusal and event.error is not None and event.error.code == "denied":
        return one_line(refusal, REASON_CHARS)
    message = event.error.message if event.error else ""
    # A command's output ends with what it came to: the summary of a test run, the exit code.
    return one_line(message.strip().rpartition("\n")[2], REASON_CHARS)


def named(name: str, style: Style, text: str, at: str, **fields: Any) -> Line:
    """Whatever has a name of its own, in its first word."""
    spans: tuple[Span, ...] = ((style, f"{name:<8}"), ("plain", f" {one_line(text, 400)}"))
    level = "error" if style == "bad" else "warning" if style == "warn" else "info"
    return Line(event=name, spans=spans, fields=fields, level=level, at=at)  # type: ignore[arg-type]
