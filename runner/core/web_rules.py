"""What a spec says of the web: hosts and ports of rules, and what `sandbox.network` leaves of them.

Rules of this file: a rule that allows means the usual ports unless it names one, a rule that
denies means all of them. An address that is not public counts only where it is listed itself, as
it does for the commands of a sandbox. `sandbox.network` never allows a call; it takes away.
"""

from __future__ import annotations

from typing import Final

from runner.core import reach, urls
from runner.core.reach import USUAL_PORTS, Address, Entry
from runner.core.rules import WEB_TOOL, Rule, names, parse
from runner.core.spec import TaskSpec
from runner.core.subjects import WebCall

SEARCH_TOOL: Final = "WebSearch"
WEB_TOOLS: Final = (WEB_TOOL, SEARCH_TOOL)
ANY_HOST: Final = "domain:*"

NETWORK: Final = "sandbox.network"
"""The rule that a decision names when the sandbox closes the network to the web tools, too."""

PORT: Final = "web_ports"
"""The rule that a decision names when a port is none of the web's."""


def call_of(url: str) -> WebCall | None:
    """What rules look at in a URL; None for one that is not fetched at all."""
    try:
        parts = urls.parse(url)
    except urls.UrlError:
        return None
    return WebCall(host=str(parts.host), port=parts.port)


def means(rule: Rule, call: WebCall, *, widely: bool = False) -> bool:
    """Whether a `domain:` rule means this call; `widely` for a rule that denies."""
    host = reach.host_of(call.host)
    if host is None:
        return widely and rule.specifier == ANY_HOST
    entry = _entry(rule)
    if entry is not None and not reach.may_ask((entry,), host, entry.port or 443):
        return False
    port = None if entry is None else entry.port
    return port == call.port if port is not None else widely or call.port in USUAL_PORTS


def refusal(spec: TaskSpec, tool: str, call: WebCall | None) -> tuple[str, str] | None:
    """Why nothing may allow a call of a web tool, and by which rule; None when something may."""
    if tool not in WEB_TOOLS:
        return None
    if spec.sandbox.network == ("deny",):
        return "the spec says `sandbox: {network: deny}`, so nothing is asked of the web", NETWORK
    if call is None or tool != WEB_TOOL:
        return None
    host = reach.host_of(call.host)
    if host is not None and call.port not in USUAL_PORTS and not _names_port(spec, call):
        rule = f"WebFetch(domain:{call.host}:{call.port})"
        return f"port {call.port} is not the web's, and only a rule such as `{rule}` opens it", PORT
    listed = reach.parse(spec.sandbox.hosts)
    if listed and (host is None or not reach.may_ask(listed, host, call.port)):
        return f"{call.host}, port {call.port}, is not in `sandbox.network`", NETWORK
    return None


def may_connect(spec: TaskSpec, address: Address, port: int) -> bool:
    """Whether a host that may be asked for may be at this address: a public or a listed one."""
    denied = (*spec.disallowed_tools, *spec.ask_tools)
    call = WebCall(host=str(address), port=port)
    if any(means(rule, call, widely=True) for rule in _domains(denied)):
        return False
    allowed = [entry for rule in _domains(spec.allowed_tools) if (entry := _entry(rule))]
    return reach.may_connect((*allowed, *reach.parse(spec.sandbox.hosts)), address, port)


def may_reach(spec: TaskSpec, tool: str) -> bool:
    """Whether any call of a web tool may be allowed by rules or by the mode."""
    if tool == SEARCH_TOOL and spec.web_search is None:
        return False
    if refusal(spec, tool, None) is not None or (spec.tools is not None and tool not in spec.tools):
        return False
    denied = map(parse, (*spec.disallowed_tools, *spec.ask_tools))
    if any(rule.specifier is None and names(rule, tool) for rule in denied):
        return False
    if spec.permission_mode in ("auto", "bypassPermissions"):
        return True
    return any(names(parse(text), tool) for text in spec.allowed_tools)


def would_allow(call: WebCall) -> str:
    """The narrowest rule that would allow this call."""
    port = "" if call.port in USUAL_PORTS else f":{call.port}"
    host = f"[{call.host}]" if ":" in call.host else call.host
    return f"{WEB_TOOL}(domain:{host}{port})"


def _names_port(spec: TaskSpec, call: WebCall) -> bool:
    return any(means(rule, call) for rule in _domains(spec.allowed_tools))


def _domains(texts: tuple[str, ...]) -> list[Rule]:
    """The rules about hosts among these."""
    found = map(parse, texts)
    return [r for r in found if r.tool == WEB_TOOL and r.specifier and r.parameter is None]


def _entry(rule: Rule) -> Entry | None:
    """What a rule lists; None for any host."""
    if rule.specifier in (None, ANY_HOST):
        return None
    return reach.parse([(rule.specifier or "").removeprefix("domain:")])[0]
