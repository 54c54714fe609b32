"""The key `mcp_servers`: each server in the shape of `.mcp.json`, and `required` besides."""

from __future__ import annotations

import re
from typing import Final

from runner.adapters.specfile.problem import looks_like_key, shown
from runner.adapters.specfile.records import key
from runner.adapters.specfile.shapes import Key, ListOf, MapOf, Record
from runner.adapters.specfile.types import Choice, Flag, Refusal, Text
from runner.adapters.specfile.words import VARIABLE, url
from runner.core.spec import McpSandboxSpec, McpServerSpec

SERVER_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}"

_HEADER: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"


def _name(text: str) -> Refusal | None:
    """The name of a tool is `mcp__SERVER__TOOL`: it must be clear where the server's ends."""
    if "__" in text or text.endswith("_"):
        return "a server's name has no `__` in it and no `_` at its end", None
    return None


def _value(text: str) -> Refusal | None:
    """A value that is, or ends in, a key. Never shows it."""
    if any(looks_like_key(word) for word in text.split() if "$" not in word):
        return (
            "looks like a key (not shown): a spec must not hold one",
            "name the variable that holds it: ${NAME}",
        )
    return None


def _url(text: str) -> Refusal | None:
    """As for a model's endpoint; a variable may stand for any part of it."""
    return None if text.startswith("$") else url(text)


def _whole(server: McpServerSpec) -> Refusal | None:
    if server.type == "stdio":
        if not server.command:
            return "a server that is started here needs a `command`", "write command: PROGRAM"
        if server.url is not None or server.headers:
            return "`url` and `headers` belong to a server with an address", "write type: http"
        return None
    if server.url is None:
        return f"a server of type {server.type} needs a `url`", "write url: https://..."
    if server.sandbox.mode == "off":
        return "a server with an address runs elsewhere: there is no sandbox", "remove `sandbox`"
    if server.command or server.args or server.env:
        hint = "write type: stdio, or give headers"
        return "`command`, `args` and `env` belong to a server that is started here", hint
    return None


def _sandbox(sandbox: McpSandboxSpec) -> Refusal | None:
    if sandbox.mode == "off" and not sandbox.reason:
        return "a server without a sandbox needs a reason", "write {mode: off, reason: why}"
    if sandbox.mode == "task" and sandbox.reason:
        return "a reason, and nothing that needs one", "write mode: off, or remove the reason"
    return None


SANDBOX = Record(
    cls=McpSandboxSpec,
    keys=(
        key(
            "mode",
            Choice(options=("task", "off")),
            "`task`: behind the walls that the task's commands are behind. `off`: behind none.",
            "off",
        ),
        key(
            "reason",
            Text(),
            "Why there is none; needed with `off`, and stands in the log.",
            "it has to reach the database",
        ),
    ),
    expects="task, or a map such as {mode: off, reason: why}",
    shorthand="mode",
    check=_sandbox,
)

SERVER = Record(
    cls=McpServerSpec,
    keys=(
        key(
            "type",
            Choice(options=("stdio", "http", "sse")),
            "A program that is started here, or an address (streamable HTTP, or the older SSE).",
            "http",
        ),
        key("command", Text(expects="a program"), "The program.", "npx"),
        key(
            "args",
            ListOf(item=Text(body=True, empty=True), what="arguments"),
            "Its arguments.",
            ["example-server", "--read-only"],
        ),
        key(
            "env",
            MapOf(
                value=Text(body=True, empty=True, check=_value),
                what="variables",
                key_pattern=VARIABLE,
                key_words="the name of a variable",
            ),
            "Variables that this server alone sees; `${NAME}` takes a value from the runner's.",
            {"TOKEN": "${EXAMPLE_TOKEN}"},
        ),
        key("url", Text(expects="a URL", check=_url), "The address.", "https://mcp.example.com"),
        key(
            "headers",
            MapOf(
                value=Text(body=True, check=_value),
                what="headers",
                key_pattern=_HEADER,
                key_words="the name of a header",
            ),
            "Headers of every request to it.",
            {"Authorization": "Bearer ${EXAMPLE_TOKEN}"},
        ),
        key(
            "tools",
            ListOf(item=Text(), what="names of tools"),
            "Those of its tools that are wanted, by its own names. Unset: all.",
            ["search"],
        ),
        key(
            "required",
            Flag(),
            "Whether the run is refused when the server is not there. Otherwise it is warned of.",
            True,
        ),
        Key(
            name="alwaysLoad",
            reader=Flag(),
            means="Whether its tools are always shown in full, whatever `tool_search` says.",
            example=True,
            field="always_load",
        ),
        key(
            "sandbox",
            SANDBOX,
            "Where it runs, when it is started here: as commands do, unless a reason is given.",
            {"mode": "off", "reason": "it has to reach the database"},
        ),
    ),
    planned={
        "disabled": "leave the server out instead",
        "timeout": "use `limits.mcp_start` for its start and `limits.tool` for its calls",
    },
    expects="a map such as {command: npx, args: [example-server]}",
    check=_whole,
)

MCP_SERVERS = MapOf(
    value=SERVER,
    what="servers",
    key_pattern=SERVER_NAME,
    key_words="a name of letters, digits, `-` and `_`, at most 40",
    key_check=_name,
)


def _search(text: str) -> Refusal | None:
    percent = text.removeprefix("auto:")
    if text in ("on", "off", "auto") or (percent != text and re.fullmatch(r"\d{1,2}", percent)):
        return None
    return f"{shown(text)} is none of auto, auto:PERCENT, on, off", "for example auto:10"


TOOL_SEARCH = Text(expects="auto, auto:PERCENT, on or off", check=_search)


def is_unpinned(server: McpServerSpec) -> bool:
    """It is fetched by a package runner at each start, in whatever version is the newest then."""
    if server.command not in ("npx", "bunx", "uvx", "pipx"):
        return False
    package = next((arg for arg in server.args if not arg.startswith("-") and arg != "run"), "")
    return not re.search(r".(@\d|==)", package)
