"""Looks prices and limits up in the table beside the installed litellm, without importing it.

Rules of this file:
* A model has a price only if its key stands in the table literally: the id as given, or the id
  without its `provider/` when the entry is that provider's. litellm itself guesses: it prices an
  unknown model at zero or like a neighbour, and a cap built on that is no cap.
* Of several prices the dearest counts (long-context tiers, reasoning tokens), so that nothing is
  ever under-counted. Tiers one has to ask for (batch, flex, priority, caches that live longer
  than the default) are left out: no request asks for them. So are fees per request or search,
  which some search models add: a listing knows tokens only.
* A price that is missing, zero or not a number is no price.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal

from runner.core.events import PriceListing
from runner.core.ledger import PER_MTOK
from runner.core.spec import PricingSpec

_TABLE_FILE = "model_prices_and_context_window_backup.json"
_LONG_CONTEXT = re.compile(r"_above_\d+k_tokens")
_MODES = frozenset({"chat", "responses", "completion"})
# The table knows some providers by the API behind them: ids say `bedrock/` and `vertex_ai/`.
_FAMILIES = {"bedrock_converse": "bedrock", "vertex_ai-": "vertex_ai"}
_NEAREST = 5

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """How many tokens a model can read, and how many it can write in one reply."""

    context_window_tokens: int
    max_output_tokens: int


def find_price(model: str, pricing: PricingSpec | None) -> PriceListing | None:
    """What `model` costs: what the spec says, else what the table says, else None."""
    if pricing is not None:
        return _listing(
            model,
            "spec",
            pricing.input_per_mtok,
            pricing.output_per_mtok,
            pricing.cache_read_per_mtok,
            pricing.cache_write_per_mtok,
        )
    entry = _entry(model)
    if entry is None:
        return None
    prices = list(_price_sets(entry))
    paid = _dearest(prices, "input_cost_per_token")
    made = _dearest(prices, "output_cost_per_token", "output_cost_per_reasoning_token")
    if paid is None or made is None:
        return None
    read = _dearest(prices, "cache_read_input_token_cost")
    # Some entries list a write far below the input price, for a long-context tier only.
    write = max(paid, _dearest(prices, "cache_creation_input_token_cost") or paid)
    return _listing(model, "table", paid, made, read, write)


def search_price(provider: str) -> Decimal | None:
    """What one query to a search API costs, in USD; the dearest tier counts, and free is 0."""
    entry = _table().get(f"{provider}/search", {})
    tiers = entry.get("tiered_pricing")
    listed = [
        Decimal(part["input_cost_per_query"])
        for part in (entry, *(tiers if isinstance(tiers, list) else ()))
        if "input_cost_per_query" in part
    ]
    return max(listed) if listed else None


def provider_of(model: str) -> str | None:
    """Whose model this is: what stands before its `/`, else the provider the table names."""
    provider, slash, _ = model.partition("/")
    if slash:
        return provider
    entry = _entry(model)
    return None if entry is None else _owner(entry)


def model_limits(model: str) -> ModelLimits | None:
    """The sizes a model is listed with; None when it is not listed with both."""
    entry = _entry(model) or {}
    window, output = entry.get("max_input_tokens"), entry.get("max_output_tokens")
    if not (isinstance(window, int) and isinstance(output, int) and window > 0 and output > 0):
        return None
    return ModelLimits(context_window_tokens=window, max_output_tokens=output)


def nearest_models(model: str) -> list[str]:
    """Ids that have a price and look like `model`, the most similar first; at most five."""
    provider, slash, _ = model.partition("/")
    ids = _priced_ids()
    if slash:
        own = [id_ for id_ in ids.values() if id_.startswith(f"{provider}/")]
        return difflib.get_close_matches(model, own or ids.values(), n=_NEAREST)
    bare = [key for key in ids if "/" not in key]
    return [ids[key] for key in difflib.get_close_matches(model, bare, n=_NEAREST)]


def _listing(
    model: str,
    basis: Literal["table", "spec"],
    input_per_mtok: Decimal,
    output_per_mtok: Decimal,
    cache_read_per_mtok: Decimal | None,
    cache_write_per_mtok: Decimal | None,
) -> PriceListing:
    # A cache price that is not listed is taken to be the input price: reads cost less than that.
    read = input_per_mtok if cache_read_per_mtok is None else cache_read_per_mtok
    write = input_per_mtok if cache_write_per_mtok is None else cache_write_per_mtok
    return PriceListing(
        model=model,
        basis=basis,
        input_per_mtok=input_per_mtok,
        output_per_mtok=output_per_mtok,
        cache_read_per_mtok=read,
        cache_write_per_mtok=write,
    )


def _entry(model: str) -> Entry | None:
    """The entry of exactly this model."""
    table = _table()
    model = model.replace("/responses/", "/", 1)  # says which API is asked, not which model
    if model in table:
        return table[model]
    provider, _, name = model.partition("/")
    entry = table.get(name)
    return entry if entry is not None and provider and _owner(entry) == provider else None


def _owner(entry: Entry) -> str:
    """The provider of an entry, by the name that ids use."""
    owner = str(entry.get("litellm_provider", ""))
    families = (name for start, name in _FAMILIES.items() if owner.startswith(start))
    return next(families, owner)


def _price_sets(entry: Entry) -> Iterator[tuple[str, Decimal]]:
    """Every price of an entry that a plain request can be charged, under its plain name."""
    tiers = entry.get("tiered_pricing")
    for part in (entry, *(tiers if isinstance(tiers, list) else ())):
        for name, value in part.items():
            if isinstance(value, int | Decimal) and not isinstance(value, bool):
                yield _LONG_CONTEXT.sub("", name), Decimal(value)


def _dearest(prices: Iterable[tuple[str, Decimal]], *names: str) -> Decimal | None:
    """The highest positive price under one of these names, in dollars per million tokens."""
    found = [price for name, price in prices if name in names and price > 0]
    return (max(found) * PER_MTOK).normalize() + 0 if found else None  # + 0: 10, not 1E+1


@cache
def _priced_ids() -> Mapping[str, str]:
    """Every key that a chat can be priced by, and the id to write for it in a spec."""
    ids = {
        key: key if "/" in key else f"{_owner(entry)}/{key}"
        for key, entry in _table().items()
        if entry.get("mode") in _MODES
    }
    return {key: id_ for key, id_ in ids.items() if find_price(id_, None)}


@cache
def _table() -> Mapping[str, Entry]:
    """The whole table; empty when litellm is not installed or ships none."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    path = Path(spec.origin).with_name(_TABLE_FILE)
    if not path.is_file():
        return {}
    table = json.loads(path.read_bytes(), parse_float=Decimal)
    return {key: entry for key, entry in table.items() if isinstance(entry, dict)}
