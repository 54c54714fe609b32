"""The state of a run at a line of its log: what it knew, what was open, what would come next."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from runner.core.context import estimated_tokens, window_tokens
from runner.core.events import Record
from runner.core.fold import fold
from runner.core.limits import budget_left_usd, continues_left, turns_left
from runner.core.messages import ToolCall
from runner.core.policy import deciding_rule
from runner.core.state import MAIN, State
from runner.core.words import count, gist, usd


def moment_lines(records: Iterable[Record], at_line: int) -> list[str] | None:
    """The state after the first `at_line` lines; None when the log is shorter."""
    within = [False]  # whether the log goes on to that line at least
    last: list[Record] = []

    def note(record: Record) -> bool:
        position = -1 if record.seq is None else record.seq
        within[0] = position >= at_line - 1
        if position >= at_line:
            return False
        last[:] = [record]
        return True

    state = fold(takewhile(note, records))
    if not within[0] or not last:
        return None
    title = f"after line {at_line}: {last[0].event.type}, {last[0].timestamp}"
    rows = {**_counters(state), **_open(state), **_facts(state), "next": _next(state)}
    return [title, *(f"  {name:<10} {text}" for name, text in rows.items() if text)]


def _counters(state: State) -> dict[str, str]:
    main = state.main
    reserved = state.ledger.committed_usd - state.ledger.spent_usd
    turns = f"{count(main.tool_turns, 'tool-use turn')}, {count(main.turns_started, 'model call')}"
    cost = usd(state.ledger.spent_usd) + (f", {usd(reserved)} reserved" if reserved else "")
    return {
        "turns": f"{turns}, {count(main.nudges, 'nudge')}",
        "cost": cost,
        "left": ", ".join(_left(state)) if state.spec else "",
        "history": count(len(main.messages), "message"),
        "context": _context(state),
        "denied": count(len(state.denials), "call") if state.denials else "",
    }


def _context(state: State) -> str:
    """How full the window is, where anybody knows how large it is."""
    window = window_tokens(state)
    if window is None:
        return ""
    shown = f"about {estimated_tokens(state):,} of {window:,} tokens"
    stands_for = count(state.main.kept_from, "message")
    return f"{shown}; a summary stands for {stands_for}" if state.main.summary else shown


def _left(state: State) -> list[str]:
    turns, budget = turns_left(state), budget_left_usd(state, MAIN)
    left = [] if turns is None else [count(turns, "tool-use turn")]
    left += [] if budget is None else [usd(budget)]
    return [*left, count(continues_left(state), "nudge")]


def _open(state: State) -> dict[str, str]:
    main = state.main
    return {
        "open turn": "" if main.open_turn is None else str(main.turns_started),
        "pending": "; ".join(_call(call, call.id in main.started) for call in main.pending),
    }


def _call(call: ToolCall, started: bool) -> str:
    return f"{call.name} {gist(call.arguments, 60)} ({'started' if started else 'not started'})"


def _facts(state: State) -> dict[str, str]:
    done = state.completion
    return {
        "completion": ""
        if done is None
        else f"{done.outcome}: {done.summary or done.reason or ''}",
        "cap": state.tripped.message if state.tripped else "",
        "abort": state.abort.cause if state.abort else "",
        "failure": f"{state.failure.error_type}: {state.failure.message}" if state.failure else "",
    }


def _next(state: State) -> str:
    """The row of the decision table that decides here."""
    if state.result is not None:
        return "nothing: the run is over"
    started = state.main.messages or state.failure or state.abort
    if state.spec is None or not started:
        return "the run is still being prepared"
    rule = deciding_rule(state)
    return f"{rule.then} (rule `{rule.name}`: {rule.when})"
