"""Laws of the small decisions: money, permissions, batches, cuts."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st

from runner.core.batching import MAX_CONCURRENT, next_batch
from runner.core.events import PriceListing
from runner.core.ledger import cost_usd, reserve, worst_case_usd
from runner.core.messages import ToolCall, Usage
from runner.core.permissions import decide, offered
from runner.core.spec import TaskSpec
from runner.core.truncate import fit
from tests.laws.strategies import prices
from tests.logs import PRICE

# -- money -----------------------------------------------------------------------------------

caps = st.decimals("0.0000000000001", 2, places=13, allow_nan=False, allow_infinity=False)
tokens = st.integers(0, 10_000)
A_NANO_A_TOKEN = Decimal("0.001")


@given(
    price=prices,
    cap=caps,
    asks=st.lists(st.tuples(tokens, st.integers(1, 10_000), tokens, tokens), max_size=6),
    split=st.lists(st.floats(0, 1), min_size=2, max_size=2),
)
def test_spending_never_exceeds_the_cap(
    price: PriceListing,
    cap: Decimal,
    asks: list[tuple[int, int, int, int]],
    split: list[float],
) -> None:
    """Call after call is reserved and charged within its reservation: the sum stays under."""
    spent = Decimal(0)
    for bound, output_limit, read, written in asks:
        reservation = reserve(
            left_usd=cap - spent,
            price=price,
            input_tokens=bound,
            max_output_tokens=output_limit,
            min_output_tokens=1,
        )
        if reservation is None:
            continue
        used = min(read, bound)
        cached = int(used * split[0])
        usage = Usage(
            input_tokens=used - cached,
            cache_read_tokens=int(cached * split[1]),
            cache_write_tokens=cached - int(cached * split[1]),
            output_tokens=min(written, reservation.max_output_tokens),
        )
        charged = cost_usd(price, usage)
        assert charged <= reservation.cost_usd
        assert reservation.max_output_tokens <= output_limit
        spent += charged
        assert spent <= cap
        assert spent + reservation.cost_usd - charged <= cap


@given(
    price=prices.filter(lambda price: price.output_per_mtok >= A_NANO_A_TOKEN),
    bound=tokens,
    fitting=st.integers(2, 10_000),
)
def test_the_output_limit_is_not_lowered_more_than_it_must(
    price: PriceListing, bound: int, fitting: int
) -> None:
    """What pays for a number of tokens is given that number, or one less for rounding up."""
    got = reserve(
        left_usd=worst_case_usd(price, bound, fitting),
        price=price,
        input_tokens=bound,
        max_output_tokens=fitting + 100,
        min_output_tokens=1,
    )
    assert got is not None
    assert fitting - 1 <= got.max_output_tokens <= fitting + 1


@given(one=st.integers(0, 10**9), two=st.integers(0, 10**9))
def test_charging_two_calls_costs_no_less_than_one_of_both(one: int, two: int) -> None:
    """Rounding is never in the spender's favour."""
    apart = cost_usd(PRICE, Usage(input_tokens=one)) + cost_usd(PRICE, Usage(input_tokens=two))
    assert apart >= cost_usd(PRICE, Usage(input_tokens=one + two))


# -- permissions -----------------------------------------------------------------------------

TOOLS = ("Read", "Edit", "Bash", "TaskCreate", "WebFetch")
rules = st.lists(st.sampled_from(TOOLS), unique=True).map(tuple)
kinds = st.sampled_from(["shell", "write", "read", "url", "mcp", "custom-tool"])
policies = st.builds(
    TaskSpec,
    name=st.just("n"),
    prompt=st.just("p"),
    model=st.just("m"),
    permission_mode=st.sampled_from(["default", "acceptEdits", "bypassPermissions"]),
    allowed_tools=rules,
    disallowed_tools=rules,
    tools=st.none() | rules,
)


@given(spec=policies, tool=st.sampled_from(TOOLS), kind=kinds, rule=st.sampled_from(TOOLS))
def test_one_more_deny_never_allows_more(spec: TaskSpec, tool: str, kind: str, rule: str) -> None:
    """What was denied stays denied, and nothing more is offered."""
    stricter = replace(spec, disallowed_tools=(*spec.disallowed_tools, rule))
    assert decide(spec, tool, kind).allowed or not decide(stricter, tool, kind).allowed
    assert set(offered(stricter, TOOLS)) <= set(offered(spec, TOOLS))


@given(spec=policies, tool=st.sampled_from(TOOLS), kind=kinds, rule=st.sampled_from(TOOLS))
def test_one_more_allow_never_denies_more(spec: TaskSpec, tool: str, kind: str, rule: str) -> None:
    """What was allowed stays allowed."""
    looser = replace(spec, allowed_tools=(*spec.allowed_tools, rule))
    assert not decide(spec, tool, kind).allowed or decide(looser, tool, kind).allowed


@given(spec=policies, kind=kinds)
def test_a_deny_always_wins(spec: TaskSpec, kind: str) -> None:
    """No mode and no other rule lets a denied tool run."""
    verdicts = [decide(spec, tool, kind).allowed for tool in spec.disallowed_tools]
    assert not any(verdicts)


# -- batches and cuts ------------------------------------------------------------------------


@given(names=st.lists(st.sampled_from(["Read", "Glob", "Edit", "Bash"]), max_size=40))
def test_batches_are_a_partition_in_order(names: list[str]) -> None:
    """Every call is in one batch, in its place, and only reading ones share theirs."""
    calls = tuple(ToolCall(id=str(n), name=name, arguments={}) for n, name in enumerate(names))
    pending, batches = calls, []
    while pending:
        batch = next_batch(pending, {"Read", "Glob"})
        batches.append(batch)
        pending = pending[len(batch) :]
    assert tuple(call for batch in batches for call in batch) == calls
    for batch in batches:
        reading = all(call.name in ("Read", "Glob") for call in batch)
        assert 1 <= len(batch) <= (MAX_CONCURRENT if reading else 1)


@given(
    text=st.text(st.characters(exclude_categories=[])),  # lone surrogates too
    max_bytes=st.integers(0, 200),
    saved_as=st.none() | st.just("files/1"),
)
@example(text="\ud800" * 40, max_bytes=100, saved_as=None)
@example(text="€" * 100, max_bytes=61, saved_as=None)
def test_a_cut_text_fits_and_is_not_cut_again(
    text: str, max_bytes: int, saved_as: str | None
) -> None:
    """The result has at most the bytes allowed, and cutting it again changes nothing."""
    cut = fit(text, max_bytes, saved_as=saved_as)
    assert len(cut.encode("utf-8", "surrogatepass")) <= max_bytes
    assert fit(cut, max_bytes, saved_as=saved_as) == cut
