"""`compaction`: when a conversation that gets too long is summarised."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from runner.adapters.specfile.problem import At
from runner.adapters.specfile.records import key
from runner.adapters.specfile.shapes import Record
from runner.adapters.specfile.types import Flag, Schema, Text, Whole, mismatch
from runner.adapters.specfile.yaml_document import Node, Scalar
from runner.core.spec import CompactionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of something, above 0 and at most 1."""

    expects: str = "a number above 0, at most 1"

    def read(self, node: Node, at: At) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            return mismatch(self, node, at)
        if 1 < value <= 100:
            hint = f"{value} per cent is {Decimal(value) / 100:f}"
            return at.refuse(node.mark, f"must be {self.expects}", hint)
        return float(value) if 0 < value <= 1 else mismatch(self, node, at)

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"type": "number", "exclusiveMinimum": 0, "maximum": 1}


COMPACTION = Record(
    cls=CompactionSpec,
    keys=(
        key(
            "threshold",
            Share(),
            "At which share of the model's context window the conversation is summarised.",
            0.6,
        ),
        key(
            "enabled", Flag(), "false: never; a conversation that is too long ends the run.", False
        ),
        key(
            "instructions",
            Text(expects="text", body=True),
            "What a summary has to keep, in words.",
            "Keep every file name and every command.",
        ),
        key(
            "window",
            Whole(minimum=1_000),
            "The window of `model` in tokens, when the model table lacks it or less of it is to be "
            "used; unset: the table's.",
            32_768,
        ),
    ),
    expects="a map such as {threshold: 0.8} or {enabled: false}",
)
