"""StructuredOutput: a control tool that takes the object the task's schema asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runner.core.messages import OUTPUT_TOOL, ToolSpec

UNOFFERED = frozenset({"$schema", "$id", "$comment"})
"""Keywords that say nothing about the object."""

NOT_AT_THE_TOP = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
"""Keywords that providers refuse at the top of a tool's schema."""


def output_spec(schema: Mapping[str, Any], descriptions: Mapping[str, str]) -> ToolSpec:
    """The tool, with the schema as its input; what providers refuse there stands in the text.

    Raises `KeyError` for a text that is missing.
    """
    text = descriptions[OUTPUT_TOOL].strip()
    offered = {name: part for name, part in schema.items() if name not in UNOFFERED}
    if NOT_AT_THE_TOP & offered.keys():
        text += "\n\n" + descriptions[f"{OUTPUT_TOOL}.schema"].strip()
        text = text.replace("{schema}", json.dumps(offered))
        offered = {name: part for name, part in offered.items() if name not in NOT_AT_THE_TOP}
    return ToolSpec(name=OUTPUT_TOOL, description=text, input_schema=offered)
