"""Gates on what changed: true for anything, or patterns; patterns inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runner.adapters.specfile.problem import At
from runner.adapters.specfile.shapes import ListOf
from runner.adapters.specfile.types import Schema, Text
from runner.adapters.specfile.words import glob
from runner.adapters.specfile.yaml_document import Node, Scalar
from runner.core.spec import EVERYTHING

GLOB = Text(expects="a pattern such as tests/", check=glob)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """true, false, or a list of patterns."""

    expects: str = "true, false, or a list of patterns"

    def read(self, node: Node, at: At) -> Any:
        """See the protocol."""
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return (EVERYTHING,) if node.value else ()
        return ListOf(item=GLOB, what="patterns, or true").read(node, at)

    def write(self, value: Any) -> Any:
        """See the protocol."""
        if value in ((), (EVERYTHING,)):
            return bool(value)
        return list(value)

    def schema(self) -> Schema:
        """See the protocol."""
        return {"anyOf": [{"type": "boolean"}, {"type": "array", "items": GLOB.schema()}]}
