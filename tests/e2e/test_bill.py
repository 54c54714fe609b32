"""The bill: what a provider asks for is what is charged, on every wire, to the nano-dollar."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import MODELS, Played, Wire
from tests.e2e.warm import WarmDesk
from tests.servers import D, Step, Usage, X
from tests.servers.http import WIRES

WarmDesks = Callable[[Wire], WarmDesk]
READ = ("Read", {"file_path": "README.md"})
USAGE = Usage(input_tokens=317, output_tokens=211, cache_read_tokens=613, cache_write_tokens=101)
THOUGHT_TOKENS = 89

INPUT, OUTPUT = "input_cost_per_token", "output_cost_per_token"
CACHE_READ, CACHE_WRITE = "cache_read_input_token_cost", "cache_creation_input_token_cost"
REPORTS: Mapping[Wire, Mapping[str, object]] = {
    "openai": {"completion_tokens_details": {"reasoning_tokens": THOUGHT_TOKENS}},
    "responses": {"output_tokens_details": {"reasoning_tokens": THOUGHT_TOKENS}},
    "anthropic": {},
    "gemini": {
        "thoughtsTokenCount": THOUGHT_TOKENS,
        "totalTokenCount": 317 + 613 + 101 + 211 + THOUGHT_TOKENS,
    },
}
"""How each wire tells of its reasoning: OpenAI within the output, Gemini beside it, Anthropic only
in the output."""
BILLS: Mapping[Wire, Mapping[str, int]] = {
    "openai": {INPUT: 317 + 101, CACHE_READ: 613, OUTPUT: 211},
    "responses": {INPUT: 317 + 101, CACHE_READ: 613, OUTPUT: 211},
    "anthropic": {INPUT: 317, CACHE_WRITE: 101, CACHE_READ: 613, OUTPUT: 211},
    "gemini": {INPUT: 317 + 101, CACHE_READ: 613, OUTPUT: 211 + THOUGHT_TOKENS},
}
"""How many tokens are paid for at which price of the model's entry; only Anthropic's has one for
what is put in the cache."""


@cache
def entry(model: str) -> Mapping[str, Any]:
    """What the table beside litellm says of a model."""
    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).with_name("model_prices_and_context_window_backup.json")
    table = json.loads(path.read_bytes(), parse_float=Decimal)
    found: Mapping[str, Any] = table.get(model) or table[model.rpartition("/")[2]]
    return found


def costs(played: Played) -> list[Decimal]:
    """What each call was charged."""
    return [Decimal(str(charge["costUsd"])) for charge in played.of("session.usage_checkpoint")]


@pytest.mark.parametrize("wire", list(BILLS))
def test_each_wire_is_charged_what_its_price_list_says(warm_desk: WarmDesks, wire: Wire) -> None:
    """Tokens read from a cache, put in it, and thought with: each at its price and once, whether
    the wire counts them inside of other counts or beside them."""
    step = Step(tools=X(READ).tools, usage=USAGE, usage_fields=REPORTS[wire])
    done = Step(tools=D("done").tools, usage=USAGE, usage_fields=REPORTS[wire])
    played = warm_desk(wire).play([step, done], max_budget_usd=1)
    assert played.exit_code == 0, played.stderr
    prices = entry(MODELS[wire])
    bill = sum((prices[name] * tokens for name, tokens in BILLS[wire].items()), Decimal(0))
    assert costs(played) == [bill, bill]
    assert Decimal(str(played.result["total_cost_usd"])) == 2 * bill
    assert played.result["cost_basis"] == "table"
    usage = played.result["usage"]
    assert usage["cache_read_input_tokens"] == 2 * 613
    assert usage["output_tokens"] == 2 * BILLS[wire][OUTPUT]


# -- usage that is not there, or not as it should be ---------------------------------------------


def nothing(report: object) -> None:
    """In the place of the usage."""


def absent(report: object) -> Any:
    """Takes the place of a key that is not sent."""
    return ABSENT


ABSENT = object()
USAGE_KEYS = ("usage", "usageMetadata")


def reported(wire: Wire, step: Step, told: Callable[[Any], Any]) -> Step:
    """The reply with `told` made of each report of its usage."""
    frames = "".join(WIRES[wire].frames(step, {"stream_options": {"include_usage": True}}))
    lines = [_retold(line, told) for line in frames.splitlines()]
    return Step(error_after_chunks=0, error="\n".join([*lines, ""]).encode())


def _retold(line: str, told: Callable[[Any], Any]) -> str:
    if not line.startswith("data: {"):
        return line
    return f"data: {json.dumps(_replaced(json.loads(line.removeprefix('data: ')), told))}"


def _replaced(value: Any, told: Callable[[Any], Any]) -> Any:
    if not isinstance(value, dict):
        return value
    new = {
        key: told(part) if key in USAGE_KEYS else _replaced(part, told)
        for key, part in value.items()
    }
    return {key: part for key, part in new.items() if part is not ABSENT}


@pytest.mark.parametrize("wire", list(BILLS))
@pytest.mark.parametrize("told", [nothing, absent], ids=["null", "omitted"])
def test_no_usage_is_charged_what_was_reserved(
    warm_desk: WarmDesks, wire: Wire, told: Callable[[Any], Any]
) -> None:
    """The reply counts, its reservation is the charge, and one warning says so for all of them."""
    steps = [reported(wire, step, told) for step in (X(READ), X(READ), D("done"))]
    played = warm_desk(wire).play(steps, max_budget_usd=1)
    assert played.exit_code == 0, played.stderr
    starts = played.of("assistant.turn_start")
    assert costs(played) == [Decimal(str(start["reservedCostUsd"])) for start in starts]
    assert all(cost > 0 for cost in costs(played))
    bases = {charge["basis"] for charge in played.of("session.usage_checkpoint")}
    assert (bases, played.result["cost_basis"]) == ({"reserved"}, "reserved")
    (warning,) = played.of("session.warning")
    assert warning["warningType"] == "usage_not_reported"
    assert played.stderr.count(warning["message"]) == 1


COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


def test_a_count_in_quotation_marks_is_no_count(warm_desk: WarmDesks) -> None:
    """Digits that are text on Anthropic's wire, where litellm would do sums with them: the reply
    counts, at what was reserved for it; a report that is sound again is charged as it says."""
    quoted = [Step(tools=X(READ).tools, usage_fields={name: "12"}) for name in COUNTS]
    played = warm_desk("anthropic").play([*quoted, D("done", usage=USAGE)], max_budget_usd=1)
    assert played.exit_code == 0, played.stderr
    bases = [charge["basis"] for charge in played.of("session.usage_checkpoint")]
    assert bases == ["reserved"] * len(COUNTS) + ["table"]
    held = [Decimal(str(start["reservedCostUsd"])) for start in played.of("assistant.turn_start")]
    assert costs(played)[:-1] == held[:-1]
    assert costs(played)[-1] < held[-1]
    (warning,) = played.of("session.warning")
    assert warning["warningType"] == "usage_not_reported"
