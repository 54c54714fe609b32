"""The key `web_search`: who searches the web, and what it costs."""

from __future__ import annotations

from decimal import Decimal

from runner.adapters.specfile.records import key
from runner.adapters.specfile.shapes import Record
from runner.adapters.specfile.types import Choice, Money, Text, Whole
from runner.adapters.specfile.words import VARIABLE, key_variable, url
from runner.adapters.web_search import KEYS
from runner.core.spec import WebSearchSpec

MAX_RESULTS = 20

WEB_SEARCH = Record(
    cls=WebSearchSpec,
    keys=(
        key("provider", Choice(options=tuple(KEYS)), "A search API that litellm knows.", "brave"),
        key(
            "api_base",
            Text(expects="a URL", pattern="^https?://", check=url),
            "Its address, when it is not the provider's own.",
            "https://searx.example.com",
        ),
        key(
            "api_key_env",
            Text(expects="the name of a variable", pattern=f"^{VARIABLE}$", check=key_variable),
            "The variable that holds the key, when it is not the provider's usual one.",
            "SEARCH_KEY",
        ),
        key(
            "max_results",
            Whole(minimum=1, maximum=MAX_RESULTS),
            "How many results a query brings at most.",
            8,
        ),
        key(
            "cost_per_query_usd",
            Money(zero=True),
            "What a query costs, where the price table does not know it or you pay another price.",
            Decimal("0.004"),
        ),
    ),
    required=("provider",),
    expects="a map such as {provider: brave}",
)
