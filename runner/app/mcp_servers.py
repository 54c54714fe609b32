"""The MCP servers of a task: how each is started, and what the run makes of those that are not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runner.adapters import leftovers, preflight
from runner.adapters.mcp.expand import expanded
from runner.adapters.mcp.server import Server
from runner.adapters.mcp.servers import Servers, changed
from runner.adapters.mcp.stdio import Program
from runner.adapters.redact import Mask
from runner.adapters.sandbox.walls import Enclosure
from runner.app import mcp_outlook, wiring
from runner.core import deferral
from runner.core.events import Check, McpListing, McpStatus, SessionWarning
from runner.core.permissions import offered
from runner.core.spec import TaskSpec
from runner.engine.recorder import Recorder
from runner.ports import JournalError, Tool
from runner.tools.mcp import McpTool
from runner.tools.tool_search import NAME as TOOL_SEARCH
from runner.tools.tool_search import ToolSearch

LOGS = "mcp"
"""The folder in the session's with what the servers said on stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where servers that run here are started, and what they may see."""

    workspace: Path
    session: Path
    environ: Mapping[str, str]
    mask: Mask
    enclosure: Enclosure | None


async def start(
    spec: TaskSpec, ground: Ground, recorder: Recorder, deadline: float | None
) -> Servers:
    """Start all of them, and wait until of each it is known whether it is there.

    `deadline` is on the event loop's clock: raises `TimeoutError` then, with nothing left running.
    """

    def tell(name: str, kind: str, text: str, status: McpStatus | None) -> None:
        server = name if status else None
        with suppress(JournalError):  # the run itself meets it at its next fact
            recorder.record(
                SessionWarning(
                    warning_type=kind, message=text, mcp_server=server, mcp_status=status
                )
            )

    made = []
    for name, one in sorted(spec.mcp_servers.items()):
        server = Server(
            name=name,
            spec=expanded(one, ground.environ),
            start_s=spec.limits.mcp_start,
            tell=partial(tell, name),
        )
        if one.type == "stdio":
            server.enclosure = ground.enclosure if one.sandbox.mode == "task" else None
        server.problem = mcp_outlook.problem(spec, one, ground.environ, ground.workspace)
        if server.problem is not None:
            server.status = "failed"
        elif one.type == "stdio":
            server.program = _program(spec, server, ground)
        made.append(server)
    servers = Servers(servers=tuple(made))
    try:
        async with asyncio.timeout_at(deadline):
            await servers.start()
    except BaseException:
        await servers.close(spec.limits.shutdown_grace)
        raise
    return servers


def checks(servers: Servers) -> tuple[Check, ...]:
    """A check for each server. One that is not required never stops a run."""
    return tuple(
        Check(
            name="mcp",
            ok=server.status == "connected" or not server.spec.required,
            detail=_state(server),
        )
        for server in servers.servers
    )


def warn(
    spec: TaskSpec, recorder: Recorder, servers: Servers, before: tuple[McpListing, ...]
) -> None:
    """Say which servers are not there, whose version nobody chose, and what they say otherwise
    than before."""
    lines = [
        ("mcp_server_failed", f"the run goes on without the {_state(server)}")
        for server in servers.servers
        if server.status != "connected" and not server.spec.required
    ]
    lines += [("mcp_server_unpinned", line) for line in mcp_outlook.warnings(spec)]
    lines += [("mcp_tool_changed", line) for line in changed(before, servers.listings())]
    for kind, text in lines:
        recorder.record(SessionWarning(warning_type=kind, message=text))


def tools(servers: Servers | None) -> Mapping[str, Tool]:
    """The tools of the servers that are there, by name, in a stable order."""
    found = [
        McpTool(server, listed.name, listed.spec)
        for server in (servers.servers if servers else ())
        for listed in (server.first.tools if server.first else ())
    ]
    return {tool.spec.name: tool for tool in sorted(found, key=lambda tool: tool.spec.name)}


def kept_back(spec: TaskSpec, found: Mapping[str, Tool]) -> tuple[str, ...]:
    """The names of those tools of servers that a run starts without."""
    if TOOL_SEARCH not in offered(spec, (TOOL_SEARCH,)):
        return ()  # nothing could bring them back
    windows = {listed.model: listed.tokens for listed in preflight.windows(spec)}
    window = windows.get(spec.model)
    exempt = {name for name, server in spec.mcp_servers.items() if server.always_load}
    shown = offered(spec, tuple(found))
    specs = tuple(found[name].spec for name in shown)
    return deferral.kept_back(spec.tool_search, specs, exempt, window)


def search(
    found: Mapping[str, Tool], deferred: tuple[str, ...], servers: Servers | None
) -> Mapping[str, Tool]:
    """The tool that loads them."""
    about = {one.name: one.instructions for one in (servers.servers if servers else ())}
    specs = tuple(found[name].spec for name in deferred)
    tool = ToolSearch(specs, wiring.tool_descriptions(), about if deferred else {})
    return {TOOL_SEARCH: tool}


def _state(server: Server) -> str:
    if server.status == "connected":
        count = len(server.first.tools) if server.first else 0
        told = f"MCP server {server.name}: connected, {count} tools"
        reason = server.spec.sandbox.reason
        return f"{told}, without a sandbox: {reason}" if reason else told
    return f"MCP server {server.name}: {server.problem}"


def _program(spec: TaskSpec, server: Server, ground: Ground) -> Program:
    command = server.spec.command or ""
    if "/" in command:
        command = str(ground.workspace / command)
    logs = ground.session / LOGS
    logs.mkdir(mode=0o700, exist_ok=True)
    return Program(
        argv=(command, *server.spec.args),
        env={
            **mcp_outlook.environment(spec, server.spec, ground.environ),
            leftovers.MARK: ground.session.name,
        },
        cwd=ground.workspace,
        log=logs / f"{server.name}.log",
        enclosure=server.enclosure,
        mask=ground.mask.data,
    )
