"""What would run: everything a run would decide before its first model call, and no call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from runner.adapters import preflight, secret_values
from runner.adapters.check_scripts import unprotected
from runner.adapters.shell_syntax import shell_script
from runner.app import (
    agents,
    custom_tools,
    instructions,
    mcp_outlook,
    project_agents,
    skilled,
    web,
    wiring,
)
from runner.app.agents import AgentPlan
from runner.app.world import World
from runner.app.worst_case import WorstCase, worst_case
from runner.core import rules
from runner.core.context import request_bound
from runner.core.events import Check, PriceListing, SkillListing, WindowListing
from runner.core.ledger import worst_case_usd
from runner.core.messages import ModelRequest, ToolSpec, User
from runner.core.permissions import decide
from runner.core.rule_advice import advice
from runner.core.spec import TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlan:
    """One built-in tool: whether the model sees it and what happens when it is called."""

    name: str
    offered: bool
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run that has not happened. Costs are US dollars; None where no price is known.
    `advice` is what to know about the permission rules."""

    spec: TaskSpec
    system: str
    tools: tuple[ToolPlan, ...]
    price: PriceListing | None
    first_call_tokens: int
    first_call_usd: Decimal | None
    worst_case: WorstCase
    checks: tuple[Check, ...]
    advice: tuple[str, ...] = ()
    instruction_files: tuple[str, ...] = ()
    skills: tuple[SkillListing, ...] = ()
    mcp_servers: tuple[mcp_outlook.ServerPlan, ...] = ()
    warnings: tuple[str, ...] = ()
    windows: tuple[WindowListing, ...] = ()
    agents: tuple[AgentPlan, ...] = ()


def check(spec: TaskSpec, environ: Mapping[str, str] | None = None) -> tuple[Check, ...]:
    """The preflight checks, without a session and without a run."""
    known = dict(os.environ) if environ is None else environ
    spec = project_agents.join(spec).spec
    found = skilled.find(spec)
    named = (*skilled.checks(spec, found), *agents.checks(spec, found.skills))
    named += custom_tools.checks(spec, known)
    servers = mcp_outlook.checks(mcp_outlook.plans(spec, known))
    checks = (*preflight.run_checks(spec, known), *secret_values.checks(spec, known))
    return (*checks, *named, *servers)


def plan(spec: TaskSpec, world: World | None = None) -> Plan:
    """Everything `run` would decide before its first model call."""
    surroundings = world or World()
    mask = secret_values.mask_of(spec, surroundings.environ)
    joined = project_agents.join(secret_values.masked_spec(spec, mask), mask=mask)
    checks, spec = check(spec, surroundings.environ), joined.spec
    workspace = Path(spec.workspace.path)
    built = wiring.toolbox(spec, workspace, surroundings.environ, workspace)
    known = skilled.find(spec, mask=mask)
    built = {**built, **web.tools(spec, None), **agents.tool(spec), **skilled.tool(spec, known)}
    built |= custom_tools.listed(spec, surroundings.environ)
    shown = wiring.offered_tools(spec, built)
    system = wiring.system_prompt(spec, workspace, surroundings.clock.now())
    found = instructions.find(spec)
    tokens = _first_call_tokens(spec, system, shown, instructions.text(found))
    listed = preflight.price(spec)
    names = {tool.name for tool in shown}
    return Plan(
        windows=preflight.windows(spec),
        spec=spec,
        system=mask.text(system),
        tools=tuple(
            ToolPlan(
                name=name, offered=name in names, verdict=_verdict(spec, name, _KINDS.get(name))
            )
            for name in built
        ),
        price=listed,
        first_call_tokens=tokens,
        first_call_usd=worst_case_usd(listed, tokens, spec.max_output_tokens) if listed else None,
        worst_case=worst_case(spec),
        checks=mask.value(checks),
        advice=(*advice(spec), *unprotected(spec, shell_script)),
        instruction_files=tuple(path for path, _ in found.files),
        skills=skilled.listings(spec, known),
        agents=agents.plans(spec),
        mcp_servers=mask.value(mcp_outlook.plans(spec, surroundings.environ)),
        warnings=(
            *joined.warnings,
            *mcp_outlook.warnings(spec),
            *skilled.warnings(spec, known),
            *agents.missing_skills(spec, known.skills),
        ),
    )


_KINDS: Mapping[str, str] = {
    "Read": "read",
    "Glob": "read",
    "Grep": "read",
    "Write": "write",
    "Edit": "write",
    "Bash": "shell",
    "WebFetch": "url",
    "WebSearch": "url",
}


def _verdict(spec: TaskSpec, name: str, kind: str | None) -> str:
    """What happens to a call that no rule with a specifier is about, and what those rules are."""
    verdict = decide(_whole_tools(spec), name, kind or "custom-tool")
    plain = f"{'allowed' if verdict.allowed else 'denied'}: {verdict.reason}"
    if verdict.open and spec.auto_mode is not None:
        plain = f"asked about: {spec.auto_mode.model} decides where no rule does"
    some = {
        "some allowed": _specific(spec.allowed_tools, name),
        "some denied": _specific((*spec.disallowed_tools, *spec.ask_tools), name),
    }
    return "; ".join([plain, *(f"{what}: {', '.join(r)}" for what, r in some.items() if r)])


def _whole_tools(spec: TaskSpec) -> TaskSpec:
    return replace(
        spec,
        allowed_tools=_whole(spec.allowed_tools),
        disallowed_tools=_whole(spec.disallowed_tools),
        ask_tools=_whole(spec.ask_tools),
    )


def _whole(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text for text in texts if rules.parse(text).specifier is None)


def _specific(texts: tuple[str, ...], name: str) -> list[str]:
    found = [rules.parse(text) for text in texts]
    return [r.text for r in found if r.specifier is not None and rules.names(r, name)]


def _first_call_tokens(spec: TaskSpec, system: str, shown: tuple[ToolSpec, ...], told: str) -> int:
    request = ModelRequest(
        model=spec.model,
        system=system,
        messages=tuple(User(text=text) for text in (told, spec.prompt) if text),
        tools=shown,
        max_output_tokens=spec.max_output_tokens,
    )
    return request_bound(request)
