"""All servers of a run: started together, awaited together, closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from runner.adapters.mcp.server import Server
from runner.core.events import McpListing, McpPin


@dataclass(slots=True, kw_only=True)
class Servers:
    """The servers of a run and the tasks that own them. `close` must be called, by the task that
    called `start`."""

    servers: tuple[Server, ...] = ()
    _group: asyncio.TaskGroup | None = None
    _owners: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self) -> None:
        """Connect to all of them at once; returns when of each it is known whether it is there."""
        self._group = await asyncio.TaskGroup().__aenter__()
        pending = [server for server in self.servers if server.status == "pending"]
        self._owners += [
            self._group.create_task(server.own(), name=f"MCP server {server.name}")
            for server in pending
        ]
        for server in pending:
            await server.settled()

    async def close(self, within_s: float) -> None:
        """End all of them; what has not ended by itself by then is killed. Never raises."""
        self._cancel()
        group, self._group = self._group, None
        if group is None:
            return
        hurry = asyncio.get_running_loop().call_later(within_s, self._cancel)
        try:
            await group.__aexit__(None, None, None)
        finally:
            hurry.cancel()

    def _cancel(self) -> None:
        for owner in self._owners:
            owner.cancel()

    def listings(self) -> tuple[McpListing, ...]:
        """What the log says of them."""
        return tuple(map(_listing, self.servers))


def changed(before: Iterable[McpListing], now: Iterable[McpListing]) -> tuple[str, ...]:
    """What the servers of a session that goes on say otherwise than before, one line each."""
    known = {pin.name: pin.sha256 for server in before for pin in server.tools}
    there = [server for server in now if server.status == "connected"]
    current = {pin.name: pin.sha256 for server in there for pin in server.tools}
    names = tuple(f"mcp__{server.name}__" for server in there)
    lines = []
    for name in sorted(known):
        if name not in current and name.startswith(names):
            lines.append(f"{name} is gone since the session was last run")
        elif name in current and current[name] != known[name]:
            lines.append(f"{name} is described otherwise than when the session was last run")
    return tuple(lines)


def _listing(server: Server) -> McpListing:
    tools = server.first.tools if server.first else ()
    return McpListing(
        name=server.name,
        status="failed" if server.status == "pending" else server.status,
        error=server.problem,
        version=server.version or None,
        required=server.spec.required,
        sandbox=_tier(server),
        sandbox_reason=server.spec.sandbox.reason,
        tools=tuple(McpPin(name=tool.spec.name, sha256=tool.sha256) for tool in tools),
    )


def _tier(server: Server) -> Literal["namespaces", "landlock", "process"] | None:
    if server.spec.type != "stdio":
        return None
    return server.enclosure.tier if server.enclosure else "process"
