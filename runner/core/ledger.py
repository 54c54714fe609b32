"""Money: what a call may cost, what it did cost, and whether the next one fits under the cap.

Rules of this file: amounts are `Decimal` US dollars, rounded up to the nano-dollar; nothing is
ever rounded in the spender's favour. A call is paid for in two steps: reserve the worst case
before it, settle after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from runner.core.events import CostBasis, Fee, PriceListing, SessionUsageCheckpoint
from runner.core.messages import Usage

NANO_USD = Decimal("1e-9")
ZERO = Decimal(0)
PER_MTOK = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTotals:
    """What one model was asked and paid."""

    usage: Usage = Usage()
    cost_usd: Decimal = ZERO
    calls: int = 0
    searches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Every dollar of the run. `reserved` holds open calls by agent id ("" is the main loop).

    `unclaimed_usd` is by how much the charges stayed below what was reserved for them, call by
    call: a provider that reported too few tokens can have billed up to this much more.
    """

    spent_usd: Decimal = ZERO
    unclaimed_usd: Decimal = ZERO
    reserved: Mapping[str, Decimal] = field(default_factory=dict)
    models: Mapping[str, ModelTotals] = field(default_factory=dict)
    bases: frozenset[CostBasis] = frozenset()
    api_duration_ms: int = 0

    @property
    def committed_usd(self) -> Decimal:
        """Spent, and what open calls may still come to."""
        return self.spent_usd + sum(self.reserved.values(), ZERO)

    def max_overshoot_usd(self, cap_usd: Decimal | None) -> Decimal:
        """The most by which the real bill can be above the cap; zero without a cap.

        Charges follow the tokens a provider reports. One that reports too few can have billed
        each call up to its reservation; one that reports more than was reserved is charged what
        it reports. So the bill is at most both together, as long as no call really costs more
        than the larger of its reservation and its charge.
        """
        if cap_usd is None:
            return ZERO
        return max(self.spent_usd + self.unclaimed_usd - cap_usd, ZERO)

    def hold(self, agent_id: str, amount_usd: Decimal) -> Ledger:
        """An attempt is about to be made."""
        return replace(self, reserved={**self.reserved, agent_id: amount_usd})

    def release(self, agent_id: str) -> Ledger:
        """The attempt is over: what it cost, if anything, was settled."""
        return replace(self, reserved={k: v for k, v in self.reserved.items() if k != agent_id})

    def settle(self, agent_id: str, checkpoint: SessionUsageCheckpoint) -> Ledger:
        """Charge what a call came to and drop its reservation."""
        model = self.models.get(checkpoint.model, ModelTotals())
        usage = Usage(
            input_tokens=checkpoint.input_tokens,
            output_tokens=checkpoint.output_tokens,
            cache_read_tokens=checkpoint.cache_read_tokens,
            cache_write_tokens=checkpoint.cache_write_tokens,
            reasoning_tokens=checkpoint.reasoning_tokens,
        )
        totals = ModelTotals(
            usage=model.usage + usage,
            cost_usd=model.cost_usd + checkpoint.cost_usd,
            calls=model.calls + 1,
            searches=model.searches,
        )
        unclaimed = max(self.reserved.get(agent_id, ZERO) - checkpoint.cost_usd, ZERO)
        return replace(
            self.release(agent_id),
            spent_usd=self.spent_usd + checkpoint.cost_usd,
            unclaimed_usd=self.unclaimed_usd + unclaimed,
            models={**self.models, checkpoint.model: totals},
            bases=self.bases | {checkpoint.basis},
            api_duration_ms=self.api_duration_ms + checkpoint.duration_ms,
        )

    def pay(self, model: str, fee: Fee) -> Ledger:
        """Charge a search that this model asked for."""
        totals = self.models.get(model, ModelTotals())
        paid = replace(
            totals, cost_usd=totals.cost_usd + fee.cost_usd, searches=totals.searches + 1
        )
        return replace(
            self,
            spent_usd=self.spent_usd + fee.cost_usd,
            models={**self.models, model: paid},
            bases=self.bases | {fee.basis},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A call that fits: ask for at most `max_output_tokens`, it costs at most `cost_usd`."""

    cost_usd: Decimal
    max_output_tokens: int


def cost_usd(price: PriceListing, usage: Usage) -> Decimal:
    """What these tokens cost, rounded up to the nano-dollar."""
    total = (
        price.input_per_mtok * usage.input_tokens
        + price.output_per_mtok * usage.output_tokens
        + price.cache_read_per_mtok * usage.cache_read_tokens
        + price.cache_write_per_mtok * usage.cache_write_tokens
    ) / PER_MTOK
    return total.quantize(NANO_USD, rounding=ROUND_CEILING)


def worst_case_usd(price: PriceListing, input_tokens: int, output_tokens: int) -> Decimal:
    """The most a call can cost: every input token at the dearest input price."""
    dearest = max(price.input_per_mtok, price.cache_write_per_mtok, price.cache_read_per_mtok)
    total = (dearest * input_tokens + price.output_per_mtok * output_tokens) / PER_MTOK
    return total.quantize(NANO_USD, rounding=ROUND_CEILING)


def reserve(
    *,
    left_usd: Decimal | None,
    price: PriceListing | None,
    input_tokens: int,
    max_output_tokens: int,
    min_output_tokens: int,
) -> Reservation | None:
    """Fit a call under what is left, lowering its output limit; None when nothing useful fits.

    `left_usd` None is "no cap"; a cap without a price is refused before the run starts.
    """
    if price is None:
        return Reservation(cost_usd=ZERO, max_output_tokens=max_output_tokens)
    worst = worst_case_usd(price, input_tokens, max_output_tokens)
    if left_usd is not None and worst > left_usd:
        whole = left_usd.quantize(NANO_USD, rounding=ROUND_FLOOR)  # charges are rounded up to it
        spare = whole - worst_case_usd(price, input_tokens, 0)
        if price.output_per_mtok == 0 or spare <= 0:
            return None
        affordable = int(spare * PER_MTOK // price.output_per_mtok)
        if affordable < min_output_tokens:
            return None
        max_output_tokens = min(max_output_tokens, affordable)
        worst = worst_case_usd(price, input_tokens, max_output_tokens)
    return Reservation(cost_usd=worst, max_output_tokens=max_output_tokens)
