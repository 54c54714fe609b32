"""Money: reserve the worst case, settle what it was."""

from __future__ import annotations

from decimal import Decimal

import pytest

from runner.core.events import CostBasis, Fee, PriceListing, SessionUsageCheckpoint
from runner.core.ledger import (
    Ledger,
    ModelTotals,
    Reservation,
    cost_usd,
    reserve,
    worst_case_usd,
)
from runner.core.messages import Usage


def price(*per_mtok: str) -> PriceListing:
    """Input, output, cache read, cache write."""
    prices = [Decimal(usd) for usd in per_mtok]
    return PriceListing(
        model="m",
        basis="table",
        input_per_mtok=prices[0],
        output_per_mtok=prices[1],
        cache_read_per_mtok=prices[2],
        cache_write_per_mtok=prices[3],
    )


PRICE = price("3", "15", "0.3", "3.75")


def checkpoint(usd: str, basis: CostBasis = "table", model: str = "m") -> SessionUsageCheckpoint:
    return SessionUsageCheckpoint(
        model=model,
        cost_usd=Decimal(usd),
        total_cost_usd=Decimal(usd),
        basis=basis,
        input_tokens=10,
        output_tokens=1,
        duration_ms=5,
    )


def test_each_kind_of_token_has_its_price() -> None:
    """The cost is the sum of the four kinds."""
    usage = Usage(
        input_tokens=1_000_000,
        output_tokens=100_000,
        cache_read_tokens=10_000,
        cache_write_tokens=1_000,
    )
    assert cost_usd(PRICE, usage) == Decimal("4.50675")


def test_costs_are_rounded_up_to_the_nano_dollar() -> None:
    """A fraction of a nano-dollar counts as a whole one."""
    assert cost_usd(price("0.0001", "0", "0", "0"), Usage(input_tokens=1)) == Decimal("1e-9")


def test_the_worst_case_takes_every_input_token_at_the_dearest_price() -> None:
    """Writing to the cache is the worst case when it costs more than reading."""
    assert worst_case_usd(PRICE, 1_000_000, 1_000_000) == Decimal("18.75")


@pytest.mark.parametrize(
    ("left", "fits"),
    [
        (None, ("0.1125", 7000)),
        ("0.1125", ("0.1125", 7000)),
        ("0.112499999", ("0.112485", 6999)),
        ("0.01134", ("0.01134", 256)),
        ("0.011339999", None),
        ("0.0075", None),
        ("0", None),
    ],
)
def test_the_output_limit_is_lowered_to_what_fits(
    left: str | None, fits: tuple[str, int] | None
) -> None:
    """The reservation is the most that fits, or nothing when that is below the floor."""
    got = reserve(
        left_usd=None if left is None else Decimal(left),
        price=PRICE,
        input_tokens=2000,
        max_output_tokens=7000,
        min_output_tokens=256,
    )
    wanted = fits and Reservation(cost_usd=Decimal(fits[0]), max_output_tokens=fits[1])
    assert got == wanted


def test_input_alone_decides_when_output_is_free() -> None:
    """No output limit helps when the input does not fit and output costs nothing."""
    free = price("3", "0", "0", "0")
    assert _reserve_one_token(free, "0.000003") == Reservation(
        cost_usd=Decimal("0.000003"), max_output_tokens=7000
    )
    assert _reserve_one_token(free, "0.000002") is None


def test_a_cap_finer_than_the_nano_dollar_is_not_exceeded_by_rounding() -> None:
    """The fraction of the cap below a nano-dollar is not spent."""
    got = _reserve_one_token(price("0", "0.0001", "0", "0"), "0.0000000255")
    assert got == Reservation(cost_usd=Decimal("0.000000025"), max_output_tokens=250)


def _reserve_one_token(listed: PriceListing, left_usd: str) -> Reservation | None:
    return reserve(
        left_usd=Decimal(left_usd),
        price=listed,
        input_tokens=1,
        max_output_tokens=7000,
        min_output_tokens=1,
    )


def test_without_a_price_nothing_is_reserved() -> None:
    """The call is made as it is when there is no price, and so no cap."""
    got = reserve(
        left_usd=None, price=None, input_tokens=1, max_output_tokens=7, min_output_tokens=1
    )
    assert got == Reservation(cost_usd=Decimal(0), max_output_tokens=7)


def test_what_is_reserved_is_committed_until_it_is_settled() -> None:
    """The open calls of every agent count until their cost is known."""
    held = Ledger().hold("", Decimal("0.5")).hold("sub", Decimal("0.25"))
    settled = held.settle("sub", checkpoint("0.1"))
    committed = (held.committed_usd, settled.committed_usd, settled.release("").committed_usd)
    assert committed == (Decimal("0.75"), Decimal("0.6"), Decimal("0.1"))


def test_of_twenty_that_ask_at_once_only_those_that_fit_are_let_through() -> None:
    """A cap that pays for three and a half calls lets three begin, before any of them is over."""
    one, ledger = worst_case_usd(PRICE, 1_000, 1_000), Ledger()
    for number in range(20):
        held = reserve(
            left_usd=one * Decimal("3.5") - ledger.committed_usd,
            price=PRICE,
            input_tokens=1_000,
            max_output_tokens=1_000,
            min_output_tokens=1_000,
        )
        ledger = ledger.hold(str(number), held.cost_usd) if held else ledger
    assert ledger.reserved == {"0": one, "1": one, "2": one}


def test_a_second_attempt_replaces_the_reservation_of_the_first() -> None:
    """An agent holds one call at a time."""
    held = Ledger().hold("", Decimal("0.5")).hold("", Decimal("0.25"))
    assert held.committed_usd == Decimal("0.25")


def test_costs_are_kept_by_model_and_add_up() -> None:
    """Totals, bases and time grow with each checkpoint."""
    ledger = Ledger()
    for event in (checkpoint("1"), checkpoint("2", "reserved"), checkpoint("4", model="n")):
        ledger = ledger.settle("", event)
    tokens = Usage(input_tokens=10, output_tokens=1)
    assert ledger == Ledger(
        spent_usd=Decimal(7),
        models={
            "m": ModelTotals(usage=tokens + tokens, cost_usd=Decimal(3), calls=2),
            "n": ModelTotals(usage=tokens, cost_usd=Decimal(4), calls=1),
        },
        bases=frozenset({"table", "reserved"}),
        api_duration_ms=15,
    )


def test_a_search_is_paid_by_the_model_that_asked() -> None:
    """It counts in every sum, and calls to the model before and after leave it as it is."""
    fee = Fee(cost_usd=Decimal("0.5"), basis="spec")
    ledger = Ledger().pay("m", fee).settle("", checkpoint("1")).pay("m", fee)
    tokens = Usage(input_tokens=10, output_tokens=1)
    assert ledger == Ledger(
        spent_usd=Decimal(2),
        models={"m": ModelTotals(usage=tokens, cost_usd=Decimal(2), calls=1, searches=2)},
        bases=frozenset({"table", "spec"}),
        api_duration_ms=5,
    )


def test_the_largest_overshoot_is_what_a_provider_can_have_kept_silent_about() -> None:
    """Reserved but not charged may be billed all the same; what is above the cap is overshoot."""
    held = Ledger().hold("", Decimal("0.6")).hold("sub", Decimal("0.3"))
    ledger = held.settle("", checkpoint("0.1")).settle("sub", checkpoint("0.4"))
    assert (ledger.spent_usd, ledger.unclaimed_usd) == (Decimal("0.5"), Decimal("0.5"))
    assert ledger.max_overshoot_usd(Decimal("0.9")) == Decimal("0.1")
    assert ledger.max_overshoot_usd(Decimal(2)) == 0
    assert ledger.max_overshoot_usd(None) == 0
