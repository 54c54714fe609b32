"""What would run: everything a run would decide before its first model call, and no call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from runner.adapters import preflight
from runner.app import wiring
from runner.app.world import World
from runner.core.context import request_bound
from runner.core.events import Check, PriceListing
from runner.core.ledger import worst_case_usd
from runner.core.messages import ModelRequest, ToolSpec, User
from runner.core.permissions import decide
from runner.core.spec import TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlan:
    """One built-in tool: whether the model sees it and what happens when it is called."""

    name: str
    offered: bool
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run that has not happened. Costs are US dollars; None where no price is known."""

    spec: TaskSpec
    system: str
    tools: tuple[ToolPlan, ...]
    price: PriceListing | None
    first_call_tokens: int
    first_call_usd: Decimal | None
    checks: tuple[Check, ...]


def check(spec: TaskSpec, environ: Mapping[str, str] | None = None) -> tuple[Check, ...]:
    """The preflight checks, without a session and without a run."""
    return preflight.run_checks(spec, dict(os.environ) if environ is None else environ)


def plan(spec: TaskSpec, world: World | None = None) -> Plan:
    """Everything `run` would decide before its first model call."""
    surroundings = world or World()
    workspace = Path(spec.workspace.path)
    built = wiring.toolbox(spec, workspace, surroundings.environ, workspace)
    shown = wiring.offered_tools(spec, built)
    system = wiring.system_prompt(spec, workspace, surroundings.clock.now())
    tokens = _first_call_tokens(spec, system, shown)
    listed = preflight.price(spec)
    names = {tool.name for tool in shown}
    return Plan(
        spec=spec,
        system=system,
        tools=tuple(
            ToolPlan(
                name=name, offered=name in names, verdict=_verdict(spec, name, _KINDS.get(name))
            )
            for name in built
        ),
        price=listed,
        first_call_tokens=tokens,
        first_call_usd=worst_case_usd(listed, tokens, spec.max_output_tokens) if listed else None,
        checks=check(spec, surroundings.environ),
    )


_KINDS: Mapping[str, str] = {
    "Read": "read",
    "Glob": "read",
    "Grep": "read",
    "Write": "write",
    "Edit": "write",
    "Bash": "shell",
}


def _verdict(spec: TaskSpec, name: str, kind: str | None) -> str:
    verdict = decide(spec, name, kind or "custom-tool")
    return f"{'allowed' if verdict.allowed else 'denied'}: {verdict.reason}"


def _first_call_tokens(spec: TaskSpec, system: str, shown: tuple[ToolSpec, ...]) -> int:
    request = ModelRequest(
        model=spec.model,
        system=system,
        messages=(User(text=spec.prompt),),
        tools=shown,
        max_output_tokens=spec.max_output_tokens,
    )
    return request_bound(request)
