"""mcp__SERVER__TOOL: a tool of an MCP server, as the loop knows tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from runner.core.messages import ToolSpec
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import answer


class McpServer(Protocol):
    """Who answers the calls."""

    @property
    def name(self) -> str:
        """The spec's name for it."""
        ...

    async def call(
        self, tool: str, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolOutput:
        """Its answer to one call, not cut. Raises `ToolFailure`, and `TimeoutError` when the time
        of the context is up."""
        ...


class McpTool:
    """Calls one tool of one server. What the server says of it gives it no permission."""

    def __init__(self, server: McpServer, name: str, spec: ToolSpec) -> None:
        self._server = server
        self._name = name
        self._spec = spec

    @property
    def spec(self) -> ToolSpec:
        """See the port."""
        return self._spec

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return {
            "kind": "mcp",
            "serverName": self._server.name,
            "toolName": self._name,
            "toolTitle": self._name,
            "args": dict(arguments),
            "readOnly": self._spec.read_only,
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        try:
            said = await self._server.call(self._name, arguments, context)
        except TimeoutError:
            raise ToolFailure(
                f"{self._spec.name} did not answer within {context.timeout_s:g} s and was given "
                "up; whether it had its effect is not known"
            ) from None
        return answer(said.content, context, is_error=said.is_error)
