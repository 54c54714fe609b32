"""What is known of a search API before it is asked: its key, its price, what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from runner.adapters.prices import search_price
from runner.core.events import Check, Fee
from runner.core.spec import TaskSpec, WebSearchSpec
from runner.core.words import COST_BASES

KEYS: Final[Mapping[str, str | None]] = {
    "brave": "BRAVE_API_KEY",
    "duckduckgo": None,
    "exa_ai": "EXA_API_KEY",
    "firecrawl": "FIRECRAWL_API_KEY",
    "linkup": "LINKUP_API_KEY",
    "parallel_ai": "PARALLEL_AI_API_KEY",
    "perplexity": "PERPLEXITYAI_API_KEY",
    "searchapi": "SEARCHAPI_API_KEY",
    "searxng": None,
    "serper": "SERPER_API_KEY",
    "tavily": "TAVILY_API_KEY",
    "you_com": "YOUCOM_API_KEY",
}
"""The search APIs of litellm that bill by the query and need one key at most, and the variable it
is usually kept in."""


def key_variable(search: WebSearchSpec) -> str | None:
    """The variable the key is read from; None when there is no key."""
    return search.api_key_env or KEYS[search.provider]


def fee(search: WebSearchSpec) -> Fee:
    """What one query costs: what the spec says, else the price table, else nothing is known."""
    if search.cost_per_query_usd is not None:
        return Fee(cost_usd=search.cost_per_query_usd, basis="spec")
    listed = search_price(search.provider)
    return Fee(cost_usd=listed or Decimal(0), basis="unpriced" if listed is None else "table")


def checks(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[Check, ...]:
    """Whether the search of the spec can be asked and paid for; nothing when it names none."""
    search = spec.web_search
    if search is None:
        return ()
    return (
        Check(
            name="web_search",
            ok=(why := _problem(spec, search, environ)) is None,
            detail=why or _known(search),
        ),
    )


def _problem(spec: TaskSpec, search: WebSearchSpec, environ: Mapping[str, str]) -> str | None:
    variable = key_variable(search)
    if variable is not None and not environ.get(variable):
        hint = "set it, or name another with `web_search.api_key_env`"
        return f"{variable} is not set, and {search.provider} needs it; {hint}"
    if search.provider == "searxng" and search.api_base is None:
        return "a SearXNG has no address of its own; write it as `web_search.api_base`"
    if spec.max_budget_usd is not None and fee(search).basis == "unpriced":
        return (
            f"the price of a query to {search.provider} is unknown, so `max_budget_usd` cannot be "
            "kept; add `web_search.cost_per_query_usd`"
        )
    return None


def _known(search: WebSearchSpec) -> str:
    price = fee(search)
    if price.basis == "unpriced":
        return f"{search.provider}: {COST_BASES['unpriced']}"
    return f"{search.provider}, ${price.cost_usd:f} a query ({price.basis})"
