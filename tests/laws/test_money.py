"""The law of the cap: whatever is priced, reported and asked at once, spending stays under it."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal

from hypothesis import given
from hypothesis import strategies as st

from runner.core.events import CostBasis, PriceListing, SessionUsageCheckpoint
from runner.core.ledger import ZERO, Ledger, Reservation, cost_usd, reserve
from runner.core.messages import Usage

AGENTS = ("", "a", "b")
MODELS = ("m", "spare", "last")
MIN_OUTPUT_TOKENS = 256
PER_MTOK = st.decimals(min_value=0, max_value=100, places=4) | st.sampled_from(
    (Decimal(25), Decimal(100))
)
CAPS = st.decimals(min_value="0.0001", max_value=2, places=6) | st.sampled_from(
    (Decimal("0.5"), Decimal(1), Decimal(2))
)
BEHAVIOUR = st.sampled_from(("true", "less", "less", "nothing", "more"))
"""What an endpoint reports of what it billed; with `more` it bills beyond the bounds too."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A call that was reserved for and not answered yet."""

    price: PriceListing
    input_tokens: int
    held: Reservation


@dataclass(slots=True, kw_only=True)
class Books:
    """Our ledger, and beside it what the endpoint really bills."""

    cap: Decimal
    prices: list[PriceListing]
    ledger: Ledger = field(default_factory=Ledger)
    open: dict[str, Open] = field(default_factory=dict)
    billed: Decimal = ZERO
    largest: Decimal = ZERO  # every attempt at the larger of its reservation and its charge
    within_bounds: bool = True
    always_told: bool = True

    def reserve(self, agent: str, price: PriceListing, tokens: int) -> None:
        """Ask for a call, or for another attempt of an open one; it may not fit."""
        ledger = self.ledger.release(agent)
        held = reserve(
            left_usd=max(self.cap - ledger.committed_usd, ZERO),
            price=price,
            input_tokens=tokens,
            max_output_tokens=8192,
            min_output_tokens=MIN_OUTPUT_TOKENS,
        )
        self.open.pop(agent, None)
        if held is None:
            self.ledger = ledger
            return
        assert MIN_OUTPUT_TOKENS <= held.max_output_tokens <= 8192
        for place in ("input_tokens", "cache_read_tokens", "cache_write_tokens"):
            most = Usage(**{place: tokens}, output_tokens=held.max_output_tokens)
            assert _bill(price, most) <= held.cost_usd
        self.ledger = ledger.hold(agent, held.cost_usd)
        self.open[agent] = Open(price=price, input_tokens=tokens, held=held)

    def settle(self, data: st.DataObject, agent: str) -> None:
        """An attempt is over and was billed: as reserved for, or beyond; reported as drawn."""
        call, behaviour = self.open.pop(agent), data.draw(BEHAVIOUR)
        most = 3 if behaviour == "more" else 1
        really = _tokens(data, call.input_tokens * most, call.held.max_output_tokens * most)
        bill = _bill(call.price, really)
        told: Usage | None = really
        if behaviour == "less":
            told = _tokens(data, really.prompt_tokens, really.output_tokens)
        if behaviour == "nothing":
            told = None
        charge = call.held.cost_usd if told is None else cost_usd(call.price, told)
        assert told is None or charge == _bill(call.price, told)
        self.largest += max(call.held.cost_usd, charge)
        basis: CostBasis = "reserved" if told is None else "spec"
        self.billed += bill
        self.within_bounds &= behaviour != "more"
        self.always_told &= behaviour not in ("less", "nothing")
        paid = SessionUsageCheckpoint(
            model=call.price.model,
            cost_usd=charge,
            total_cost_usd=self.ledger.spent_usd + charge,
            basis=basis,
        )
        self.ledger = self.ledger.settle(agent, paid)

    def check(self) -> None:
        """Every clause of the law, at any moment."""
        ledger = self.ledger
        by_model = sum((totals.cost_usd for totals in ledger.models.values()), ZERO)
        assert by_model == ledger.spent_usd
        assert set(ledger.reserved) == set(self.open)
        assert ledger.max_overshoot_usd(self.cap) == max(self.largest - self.cap, ZERO)
        assert ledger.max_overshoot_usd(ZERO) == self.largest
        assert self.billed <= self.cap + ledger.max_overshoot_usd(self.cap)
        assert ledger.spent_usd <= self.cap + ledger.max_overshoot_usd(self.cap)
        if self.within_bounds:
            promised = sum((call.held.cost_usd for call in self.open.values()), ZERO)
            assert ledger.spent_usd + promised == ledger.committed_usd <= self.cap
        if self.within_bounds and self.always_told:
            assert self.billed == ledger.spent_usd


def _bill(price: PriceListing, usage: Usage) -> Decimal:
    """What the endpoint asks for: every token at its price, in whole nano-dollars."""
    total = usage.input_tokens * price.input_per_mtok
    total += usage.output_tokens * price.output_per_mtok
    total += usage.cache_read_tokens * price.cache_read_per_mtok
    total += usage.cache_write_tokens * price.cache_write_per_mtok
    return (total / 1_000_000).quantize(Decimal("1e-9"), rounding=ROUND_CEILING)


def _up_to(most: int) -> st.SearchStrategy[int]:
    """Often all of it, or nothing."""
    return st.sampled_from((most, 0)) | st.integers(0, most)


def _tokens(data: st.DataObject, prompt: int, output: int) -> Usage:
    """Some tokens up to these, from any part of the cache."""
    paid = data.draw(_up_to(prompt))
    read = data.draw(_up_to(paid))
    written = data.draw(_up_to(paid - read))
    return Usage(
        input_tokens=paid - read - written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=data.draw(_up_to(output)),
    )


@given(data=st.data(), cap=CAPS)
def test_no_bill_is_above_the_cap_and_the_stated_overshoot(
    data: st.DataObject, cap: Decimal
) -> None:
    """Several agents ask models of different prices at once, retry, fall back and give up.

    As long as the endpoint stays within what was reserved, all that is spent or promised is at
    most the cap, and spending is the bill where reports are true. Whatever it bills and reports
    (less, nothing, more), the bill is above the cap by at most the stated overshoot, which is no
    larger than attempts at the larger of reservation and charge can explain.
    """
    books = Books(cap=cap, prices=[data.draw(listings(model)) for model in MODELS])
    for _ in range(data.draw(st.integers(8, 24))):
        agent = data.draw(st.sampled_from(AGENTS))
        moves = (
            ("settle", "settle", "settle", "fall back", "give up")
            if agent in books.open
            else ("ask",)
        )
        match data.draw(st.sampled_from(moves)):
            case "settle":
                books.settle(data, agent)
            case "give up":  # refused before it was billed
                books.open.pop(agent)
                books.ledger = books.ledger.release(agent)
            case _:
                price, tokens = data.draw(st.sampled_from(books.prices)), st.integers(0, 5_000)
                books.reserve(agent, price, data.draw(tokens))
        books.check()
