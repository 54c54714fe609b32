"""The price of a model: exact keys only, the dearest of several, never a guess."""

import json
import subprocess
import sys
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import pytest

from runner.adapters.prices import ModelLimits, find_price, model_limits, nearest_models
from runner.core.events import PriceListing
from runner.core.spec import PricingSpec

SONNET = PriceListing(
    model="anthropic/claude-sonnet-4-5",
    basis="table",
    input_per_mtok=Decimal(3),
    output_per_mtok=Decimal(15),
    cache_read_per_mtok=Decimal("0.3"),
    cache_write_per_mtok=Decimal("3.75"),
)


def test_a_listed_model_has_its_price() -> None:
    """The price per million tokens is exact when the id names the provider of the entry."""
    assert find_price("anthropic/claude-sonnet-4-5", None) == SONNET


def test_a_model_costs_the_same_through_either_api() -> None:
    """`responses/` says which of OpenAI's APIs is asked, and not which model."""
    chat, other = (find_price(f"openai/{api}gpt-5-mini", None) for api in ("", "responses/"))
    assert chat is not None
    assert other is not None
    assert (other.input_per_mtok, other.output_per_mtok) == (
        chat.input_per_mtok,
        chat.output_per_mtok,
    )
    assert model_limits("openai/responses/gpt-5-mini") == model_limits("openai/gpt-5-mini")


def test_a_bare_key_is_a_price() -> None:
    """The id itself is the key when it stands in the table."""
    price = find_price("claude-sonnet-4-5", None)
    assert price is not None
    assert price.input_per_mtok == SONNET.input_per_mtok


@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude-opus-9",  # litellm invents an entry at price 0
        "openai/gpt-4o-2031-01-01",  # litellm prices it like a neighbour
        "openai/claude-sonnet-4-5",  # the same name at another provider
        "openrouter/gpt-4o",
        "openai/my-local",
        "ollama/llama3",  # listed, at price 0
        "openai/text-embedding-3-small",  # listed, without a price for output
        "perplexity/pplx-70b-online",  # listed, with a fee per request only
        "sample_spec",
        "scripted:replies.yaml",
        "/gpt-4o",
        "",
    ],
)
def test_a_model_that_is_not_listed_has_no_price(model: str) -> None:
    """None when the key is not literally there, or not with positive prices."""
    assert find_price(model, None) is None


@pytest.mark.parametrize(
    "model", ["bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", "vertex_ai/gemini-2.5-pro"]
)
def test_providers_are_found_by_the_name_that_ids_use(model: str) -> None:
    """`bedrock/` and `vertex_ai/` have a price when the table names the API behind them."""
    assert find_price(model, None) is not None


def test_the_dearest_tier_counts() -> None:
    """The long-context price is taken when a model has one, whatever the length."""
    price = find_price("gemini/gemini-2.5-pro", None)
    assert price is not None
    assert (price.input_per_mtok, price.output_per_mtok) == (Decimal("2.5"), Decimal(15))


def test_tiers_in_a_list_count_too() -> None:
    """The last tier of the list is taken when it is the dearest."""
    price = find_price("dashscope/qwen-flash", None)
    assert price is not None
    assert (price.input_per_mtok, price.output_per_mtok) == (Decimal("0.25"), Decimal(2))


def test_no_listing_is_below_a_plain_price_of_its_entry() -> None:
    """Nothing is under-counted, for any key of the table."""
    origin = (find_spec("litellm") or pytest.fail("litellm is not installed")).origin
    path = Path(str(origin)).with_name("model_prices_and_context_window_backup.json")
    table = json.loads(path.read_bytes(), parse_float=Decimal)
    below, priced = [], 0
    for key, entry in table.items():
        price = find_price(key, None)
        if price is None:
            continue
        priced += 1
        least = {
            "input_cost_per_token": price.input_per_mtok,
            "output_cost_per_token": price.output_per_mtok,
            "output_cost_per_reasoning_token": price.output_per_mtok,
            "cache_read_input_token_cost": price.cache_read_per_mtok,
            "cache_creation_input_token_cost": price.cache_write_per_mtok,
        }
        below += [
            (key, name)
            for name, listed in least.items()
            if Decimal(entry.get(name) or 0) * 1_000_000 > listed
        ]
    assert below == []
    assert priced > 3000


def test_the_spec_wins() -> None:
    """A stated price is used, with the basis `spec`, even when the model is listed."""
    pricing = PricingSpec(input_per_mtok=Decimal(7), output_per_mtok=Decimal(9))
    assert find_price("anthropic/claude-sonnet-4-5", pricing) == PriceListing(
        model="anthropic/claude-sonnet-4-5",
        basis="spec",
        input_per_mtok=Decimal(7),
        output_per_mtok=Decimal(9),
        cache_read_per_mtok=Decimal(7),
        cache_write_per_mtok=Decimal(7),
    )


def test_stated_cache_prices_are_kept() -> None:
    """Cache prices are those of the spec when it has them, zero included."""
    pricing = PricingSpec(
        input_per_mtok=Decimal(7),
        output_per_mtok=Decimal(9),
        cache_read_per_mtok=Decimal(0),
        cache_write_per_mtok=Decimal(8),
    )
    price = find_price("openai/my-local", pricing)
    assert price is not None
    assert (price.cache_read_per_mtok, price.cache_write_per_mtok) == (Decimal(0), Decimal(8))


def test_limits_are_those_of_the_entry() -> None:
    """Context window and output limit are given when the model is listed with both."""
    assert model_limits("anthropic/claude-sonnet-4-5") == ModelLimits(
        context_window_tokens=200_000, max_output_tokens=64_000
    )
    assert model_limits("openai/my-local") is None
    assert model_limits("sample_spec") is None


@pytest.mark.parametrize(
    ("model", "near"),
    [
        ("anthropic/claude-opus-9", "anthropic/claude-opus-5"),
        ("antropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5"),
        ("gpt4o", "openai/gpt-4o"),
        ("claude-sonnet", "anthropic/claude-sonnet-4-5"),
        ("bedrock/anthropic.claude-opus", "bedrock/anthropic.claude-opus-5"),
    ],
)
def test_a_misspelt_model_has_neighbours(model: str, near: str) -> None:
    """Ids that have a price are proposed when one looks like what was written."""
    found = nearest_models(model)
    assert near in found
    assert len(found) <= 5
    assert all(find_price(id_, None) for id_ in found)


def test_nothing_is_near_to_nonsense() -> None:
    """No proposal when no id is similar."""
    assert nearest_models("zzzzzzzzzzzzzzzz") == []


def test_litellm_is_not_imported() -> None:
    """Prices are known without the import that takes seconds."""
    code = (
        "import sys; from runner.adapters.prices import find_price;"
        "assert find_price('openai/gpt-4o', None); assert 'litellm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
