"""What is left of each cap."""

from __future__ import annotations

from decimal import Decimal

from runner.core.limits import budget_left_usd, budget_reached, continues_left, turns_left
from runner.core.state import MAIN
from tests.fakes import call, reply
from tests.logs import Log, task

READ = call("Read")


def test_without_caps_nothing_is_counted_down() -> None:
    """There is no number when no cap is set."""
    state = Log().reply(reply("half"), cost_usd="1000").state
    left = (budget_left_usd(state, MAIN), budget_reached(state), turns_left(state))
    assert left == (None, False, None)


def test_reached_counts_as_hit() -> None:
    """The budget is reached at the cap, not only above it."""
    log = Log(task(max_budget_usd=Decimal("0.02"))).reply(reply("a"), cost_usd="0.019999999")
    assert not budget_reached(log.state)
    assert budget_reached(log.reply(reply("b"), cost_usd="0.000000001").state)


def test_what_others_hold_is_not_left_and_what_one_holds_itself_is() -> None:
    """A retry may use the reservation of its failed attempt; a second agent may not."""
    state = Log(task(max_budget_usd=Decimal(1))).turn(reserved_usd="0.6").state
    assert (budget_left_usd(state, MAIN), budget_left_usd(state, "sub")) == (
        Decimal(1),
        Decimal("0.4"),
    )


def test_nothing_is_left_when_more_was_charged_than_the_cap() -> None:
    """What is left is never negative, whatever a provider reports."""
    state = Log(task(max_budget_usd=Decimal(1))).reply(reply("a"), cost_usd="5").state
    assert budget_left_usd(state, MAIN) == 0


def test_turns_left_count_down_with_tool_use_turns() -> None:
    """A turn is used up when it ends, not when its tools run."""
    log = Log(task(max_turns=1)).reply(reply("", READ)).runs(READ)
    before = turns_left(log.state)
    assert (before, turns_left(log.ends().state)) == (1, 0)


def test_continues_left_may_fall_below_zero() -> None:
    """The rejected completion that was one too many shows as minus one."""
    log = Log(task(max_autopilot_continues=0)).reply(reply("", call("task_complete")))
    before = continues_left(log.state)
    assert (before, continues_left(log.settle().state)) == (0, -1)
