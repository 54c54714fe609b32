"""What a task says of its MCP servers, and whether they could be started; nothing is started."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from runner.adapters.mcp.expand import expanded, missing
from runner.adapters.specfile.mcp_keys import is_unpinned
from runner.app import wiring
from runner.core.events import Check
from runner.core.spec import McpServerSpec, TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """A server as the spec names it. `address` is its command line, or its URL without what may
    be secret; `problem` is why there is no use in trying to start it."""

    name: str
    type: Literal["stdio", "http", "sse"]
    address: str
    required: bool
    sandbox: str
    problem: str | None = None


def plans(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[ServerPlan, ...]:
    """The servers of a task by name, with their variables as they are written."""
    return tuple(
        ServerPlan(
            name=name,
            type=server.type,
            address=_address(server),
            required=server.required,
            sandbox=_sandbox(spec, server),
            problem=problem(spec, server, environ, Path(spec.workspace.path)),
        )
        for name, server in sorted(spec.mcp_servers.items())
    )


def checks(listed: tuple[ServerPlan, ...]) -> tuple[Check, ...]:
    """A check for each server. One that is not required never stops a run."""
    return tuple(
        Check(
            name="mcp",
            ok=server.problem is None or not server.required,
            detail=f"MCP server {server.name}: {_outlook(server)}",
        )
        for server in listed
    )


def problem(
    spec: TaskSpec, said: McpServerSpec, environ: Mapping[str, str], workspace: Path
) -> str | None:
    """Why there is no use in trying to start a server; None when there may be."""
    if lacking := missing(said, environ):
        names = ", ".join(lacking)
        return f"{names} is not set; set it, or write a default as in ${{NAME:-default}}"
    if said.type != "stdio":
        return None
    filled = expanded(said, environ)
    program, path = filled.command or "", environment(spec, filled, environ).get("PATH")
    if "/" in program:
        found = (workspace / program).is_file()
    else:
        found = shutil.which(program, path=path) is not None
    return None if found else f"there is no program {program!r}; install it, or mend `command`"


def environment(
    spec: TaskSpec, filled: McpServerSpec, environ: Mapping[str, str]
) -> Mapping[str, str]:
    """The tools' environment and, besides, only what the spec gives to this server."""
    return {**wiring.tool_environment(spec, environ), **filled.env}


def warnings(spec: TaskSpec) -> tuple[str, ...]:
    """Which servers come in a version that nobody chose."""
    return tuple(
        f"the MCP server {name} is fetched at each start, in whatever version is the newest then; "
        "name a version"
        for name, server in sorted(spec.mcp_servers.items())
        if is_unpinned(server)
    )


def _outlook(server: ServerPlan) -> str:
    """What is known before it is started."""
    if server.problem is not None:
        without = "" if server.required else " (the run goes on without it)"
        return server.problem + without
    found = "its program is there" if server.type == "stdio" else "not called yet"
    return f"{found}; {server.sandbox}" if server.sandbox else found


def _address(server: McpServerSpec) -> str:
    """A user, a password and a query may be secret: they are left out."""
    if server.type == "stdio":
        return shlex.join([server.command or "", *server.args])
    parts = urlsplit(server.url or "")
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "..." if parts.query else "", ""))


def _sandbox(spec: TaskSpec, server: McpServerSpec) -> str:
    if server.type != "stdio":
        return ""
    off = next((one for one in (server.sandbox, spec.sandbox) if one.mode == "off"), None)
    return "in the task's sandbox" if off is None else f"without a sandbox: {off.reason}"
