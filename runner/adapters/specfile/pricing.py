"""`pricing`: the price of the spec's own model, or a price for each model by its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.adapters.specfile.problem import INVALID, At, Invalid
from runner.adapters.specfile.shapes import Record
from runner.adapters.specfile.types import Schema
from runner.adapters.specfile.words import ModelName
from runner.adapters.specfile.yaml_document import Fields, Node, Scalar
from runner.core.spec import PricingSpec

_EITHER = (
    "one price and prices by model are mixed",
    "write the price of `model` alone, or every price under the id of its model",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing(Record):
    """One price, or a map of model ids to prices: what holds nothing but maps is one of these."""

    expects: str = "a price such as {input_per_mtok: 3, output_per_mtok: 15}, or prices by model id"

    def read(self, node: Node, at: At) -> Any:
        """A `PricingSpec`, or a map of them by model."""
        nested = (
            [isinstance(entry.node, Fields) for entry in node.fields.values()]
            if isinstance(node, Fields)
            else []
        )
        if not any(nested) or not isinstance(node, Fields):
            return Record.read(self, node, at)
        return self._by_model(node, at) if all(nested) else at.refuse(node.mark, *_EITHER)

    def _by_model(self, node: Fields, at: At) -> Any:
        prices: dict[Any, Any] = {}
        for name, entry in node.fields.items():
            here = at.key(name[:60])
            model = ModelName().read(Scalar(mark=entry.mark, text=name, value=name), here)
            price = Record.read(self, entry.node, here)
            if model in prices and not isinstance(model, Invalid):
                price = here.refuse(entry.mark, "the price of this model stands here twice")
            prices[model] = price
        return INVALID if INVALID in (*prices, *prices.values()) else prices

    def write(self, value: Any) -> Any:
        """Prices by model; that is what the spec holds once its model is known."""
        return {model: Record.write(self, price) for model, price in value.items()}

    def schema(self) -> Schema:
        """Either form."""
        one = Record.schema(self)
        return {"anyOf": [one, {"type": "object", "additionalProperties": one}]}


def by_model(pricing: Any, model: Any) -> Any:
    """The prices by model: one price is that of the spec's own. What was refused stays so."""
    if not isinstance(pricing, PricingSpec):
        return pricing
    prices: Mapping[str, PricingSpec] = {model: pricing}
    return prices
