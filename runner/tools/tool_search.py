"""ToolSearch: loads the definitions of tools that are kept back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from runner.core import wire
from runner.core.deferral import MOST_LOADED, SELECT, found, selected
from runner.core.events import ToolSearchActivated
from runner.core.messages import ToolSpec
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import answer, tool_spec

NAME = "ToolSearch"


class ToolSearch:
    """Finds among the tools that are kept back, which are the same over a run."""

    def __init__(
        self,
        deferred: tuple[ToolSpec, ...],
        descriptions: Mapping[str, str],
        about: Mapping[str, str],
    ) -> None:
        """`about` is what each server says of itself, by its name."""
        self._deferred = {tool.name: tool for tool in deferred}
        properties: Mapping[str, Mapping[str, Any]] = {
            "query": {"type": "string"},
            "max_results": {"type": "integer", "minimum": 1, "maximum": MOST_LOADED},
        }
        spec = tool_spec(NAME, descriptions, properties, required=("query",))
        self._texts = descriptions
        lines = [*self._deferred, *(f"{name}: {text}" for name, text in about.items() if text)]
        listed = "\n".join(f"  {line}" for line in lines) or descriptions["ToolSearch.none"].strip()
        self.spec = replace(spec, description=spec.description.replace("{tools}", listed))

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return {
            "kind": "custom-tool",
            "toolName": NAME,
            "toolDescription": self.spec.description,
            "args": dict(arguments),
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        query = arguments["query"]
        names = found(query, self._deferred.values(), arguments.get("max_results", MOST_LOADED))
        if not self._deferred:
            raise ToolFailure("no tool is kept back in this run: all of them are shown already")
        if not names:
            raise ToolFailure(f"no tool fits {query!r}; the names are in this tool's description")
        text = "\n".join(
            (*(_definition(self._deferred[name]) for name in names), *self._rest(query, names))
        )
        strategy = "select" if query.startswith(SELECT) else "keywords"
        fact = ToolSearchActivated(strategy=strategy, tool_names=names)
        return replace(answer(text, context), facts=(fact,))

    def _rest(self, query: str, names: tuple[str, ...]) -> Iterator[str]:
        """What was asked for by name and is not loaded, and why."""
        rest = [name for name in selected(query) if name not in names]
        for key, some in (
            ("ToolSearch.more", [name for name in rest if name in self._deferred]),
            ("ToolSearch.unknown", [name for name in rest if name not in self._deferred]),
        ):
            if some:
                yield self._texts[key].strip().replace("{names}", ", ".join(some))


def _definition(tool: ToolSpec) -> str:
    """As the next request holds it."""
    schema = wire.encode(tool.input_schema)
    said = {"name": tool.name, "description": tool.description, "input_schema": schema}
    return json.dumps(said, ensure_ascii=False)
