"""The caps of a run: what is left of each, and whether it is reached."""

from __future__ import annotations

from decimal import Decimal

from runner.core.ledger import ZERO
from runner.core.state import State


def budget_left_usd(state: State, agent_id: str) -> Decimal | None:
    """What the next call of this agent may reserve; None without a cap, never negative.

    An agent makes one call at a time: what it holds for a failed attempt is free again.
    """
    cap = state.need.max_budget_usd
    committed = state.ledger.release(agent_id).committed_usd
    return None if cap is None else max(cap - committed, ZERO)


def budget_reached(state: State) -> bool:
    """Spending has reached the cap (reached counts as hit)."""
    cap = state.need.max_budget_usd
    return cap is not None and state.ledger.spent_usd >= cap


def turns_left(state: State) -> int | None:
    """Tool-use turns that may still be carried out; None without a cap."""
    cap = state.need.max_turns
    return None if cap is None else max(cap - state.main.tool_turns, 0)


def continues_left(state: State) -> int:
    """Nudges left; negative once a rejected control call was one too many."""
    return state.need.max_autopilot_continues - state.main.continues
