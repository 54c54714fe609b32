"""What a spec exposes: secrets that are shown, or within reach of strangers and of the network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from runner.core.messages import MCP_PREFIX
from runner.core.rules import COMMAND_TOOL, Rule, names, parse
from runner.core.spec import McpServerSpec, TaskSpec
from runner.core.web_rules import WEB_TOOLS, may_reach

_LIKE_A_SECRET: Final = re.compile(
    r".*(TOKEN|SECRET|PASSW(OR)?D|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY).*",
    re.IGNORECASE,
)


_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_HEADER: Final = re.compile(r"(proxy-)?authorization|cookie|x-(api|auth)-.*", re.IGNORECASE)


def exposures(spec: TaskSpec) -> Iterator[str]:
    """What to know about the secrets of a spec, one line each."""
    secret = _secrets_of_commands(spec)
    shown = [name for name in spec.env.pass_ if name in secret and name not in spec.secrets]
    yield from (f"`env.pass: {n}` looks like a secret: name it in `secrets`, too" for n in shown)
    strange = [name for name, one in spec.inputs.items() if one.untrusted]
    ways, reached = list(_ways_out(spec)), list(dict.fromkeys(_within_reach(spec)))
    if strange and ways and reached:
        yield (
            f"the input `{strange[0]}` is untrusted, {_joined(ways)} may reach the network, and "
            f"{', '.join(reached)} can be had: whoever wrote it may have that sent away. Take one "
            "of the three from this task, such as the network of commands with "
            "`sandbox: {network: deny}`"
        )


def _ways_out(spec: TaskSpec) -> Iterator[str]:
    """What the model may use that can reach the network; every kind of tool has its place here."""
    if _may_run_commands(spec) and spec.sandbox.network != ("deny",):
        yield "commands"
    yield from (tool for tool in WEB_TOOLS if may_reach(spec, tool))
    for name, server in spec.mcp_servers.items():
        inside = server.type == "stdio" and server.sandbox.mode == "task"
        if _may_call(spec, name) and not (inside and spec.sandbox.network == ("deny",)):
            yield f"the MCP server `{name}`"
    if spec.sandbox.network != ("deny",):
        yield from (f"the tool `{n}`" for n in spec.custom_tools if _may_use(spec, n))


def _within_reach(spec: TaskSpec) -> Iterator[str]:
    """The secrets that the model may see or use, by whatever tool; each kind has its place here."""
    if _may_run_commands(spec):
        yield from _secrets_of_commands(spec)
    for name, server in spec.mcp_servers.items():
        if _may_call(spec, name):
            yield from _secrets_of_server(spec, server)
    for name, tool in spec.custom_tools.items():
        if _may_use(spec, name):
            yield from _secrets_among(spec, tool.env, tool.env.values())


def _secrets_of_commands(spec: TaskSpec) -> list[str]:
    return [name for name in (*spec.env.pass_, *spec.env.set) if _is_secret(spec, name)]


def _secrets_of_server(spec: TaskSpec, server: McpServerSpec) -> Iterator[str]:
    texts = (*server.env.values(), *server.headers.values(), *server.args, server.url or "")
    yield from _secrets_among(spec, server.env, texts)
    yield from (f"`{name}`" for name in server.headers if _HEADER.fullmatch(name))


def _secrets_among(spec: TaskSpec, given: Iterable[str], texts: Iterable[str]) -> Iterator[str]:
    """Of these variables, and of those that the texts take in, the ones that are secret."""
    taken = (found[1] for text in texts for found in _VARIABLE.finditer(text))
    yield from (name for name in (*given, *taken) if _is_secret(spec, name))


def _is_secret(spec: TaskSpec, name: str) -> bool:
    return name in spec.secrets or _LIKE_A_SECRET.fullmatch(name) is not None


def _may_run_commands(spec: TaskSpec) -> bool:
    """Commands may run that are more than reading."""
    if spec.tools is not None and COMMAND_TOOL not in spec.tools:
        return False
    return _may_use(spec, COMMAND_TOOL)


def _may_call(spec: TaskSpec, server: str) -> bool:
    """Tools of the server may be called; which it has, nobody knows yet."""
    return _may_use(spec, f"{MCP_PREFIX}{server}")


def _may_use(spec: TaskSpec, tool: str) -> bool:
    """No rule denies the tool, or the server, as a whole, and some rule or the mode allows it."""
    if spec.permission_mode == "plan":
        return False
    denied = map(parse, (*spec.disallowed_tools, *spec.ask_tools))
    if any(rule.specifier is None and names(rule, tool) for rule in denied):
        return False
    if spec.permission_mode in ("auto", "bypassPermissions"):
        return True
    return any(_concerns(parse(text), tool) for text in spec.allowed_tools)


def _concerns(rule: Rule, tool: str) -> bool:
    """The rule is about the tool, or about some tool of the server."""
    return names(rule, tool) or rule.tool.startswith(f"{tool}__")


def _joined(ways: list[str]) -> str:
    return ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])} and {ways[-1]}"
