"""The law of the cap: whatever is priced, reported and asked at once, spending stays under it."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from runner.core.events import PriceListing, SessionUsageCheckpoint
from runner.core.ledger import ZERO, Ledger, cost_usd, reserve
from runner.core.messages import Usage

AGENTS = ("", "a", "b")
MODELS = ("m", "spare")
PER_MTOK = st.decimals(min_value=0, max_value=100, places=4)


@st.composite
def listings(draw: st.DrawFn, model: str) -> PriceListing:
    """Any price, free ones too."""
    return PriceListing(
        model=model,
        basis="spec",
        input_per_mtok=draw(PER_MTOK),
        output_per_mtok=draw(PER_MTOK),
        cache_read_per_mtok=draw(PER_MTOK),
        cache_write_per_mtok=draw(PER_MTOK),
    )


def _settled(ledger: Ledger, agent: str, model: str, cost: Decimal) -> Ledger:
    paid = SessionUsageCheckpoint(
        model=model, cost_usd=cost, total_cost_usd=ledger.spent_usd + cost, basis="spec"
    )
    return ledger.settle(agent, paid)


@given(data=st.data(), cap=st.decimals(min_value="0.0001", max_value=2, places=6))
def test_no_bill_is_above_the_cap_and_the_stated_overshoot(
    data: st.DataObject, cap: Decimal
) -> None:
    """Several agents ask two models at once. With reports within what was reserved, charges stay
    under the cap; a true bill of any kind is above it by at most the stated overshoot."""
    prices = [data.draw(listings(model)) for model in MODELS]
    open_calls: dict[str, tuple[PriceListing, int, int]] = {}
    ledger, billed, honest = Ledger(), ZERO, True
    for _ in range(data.draw(st.integers(1, 12))):
        agent = data.draw(st.sampled_from(AGENTS))
        if agent not in open_calls:
            price, tokens = data.draw(st.sampled_from(prices)), data.draw(st.integers(0, 20_000))
            held = reserve(
                left_usd=max(cap - ledger.committed_usd, ZERO),
                price=price,
                input_tokens=tokens,
                max_output_tokens=8192,
                min_output_tokens=256,
            )
            if held is not None:
                ledger = ledger.hold(agent, held.cost_usd)
                open_calls[agent] = (price, tokens, held.max_output_tokens)
            continue
        price, tokens, output = open_calls.pop(agent)
        excess = data.draw(st.sampled_from((1, 1, 1, 3)))
        honest = honest and excess == 1
        report = Usage(
            input_tokens=data.draw(st.integers(0, tokens * excess)),
            output_tokens=data.draw(st.integers(0, output * excess)),
        )
        cost = cost_usd(price, report)
        billed += max(cost, ledger.reserved[agent])  # the worst it can have been
        ledger = _settled(ledger, agent, price.model, cost)
    assert ledger.spent_usd <= cap or not honest
    assert billed <= cap + ledger.max_overshoot_usd(cap)
    assert ledger.max_overshoot_usd(cap) >= ledger.spent_usd - cap
