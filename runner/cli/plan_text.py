"""A plan for people and for machines."""

from __future__ import annotations

from typing import Any

from runner.adapters.progress_lines import caps_in_words
from runner.app import AgentPlan, Plan
from runner.core import wire
from runner.core.spec import TaskSpec
from runner.core.words import count, span, usd


def plan_lines(plan: Plan) -> list[str]:
    """The plan as lines; what decides whether it can run comes last, where one looks first."""
    spec = plan.spec
    rows = {
        "model": spec.model,
        "price": _price(plan),
        "workspace": f"{spec.workspace.path}, isolation {spec.workspace.isolation}",
        "instruct": ", ".join(plan.instruction_files) or "no instruction files",
        "skills": _skills(plan),
        "mode": _mode(spec),
        "caps": caps_in_words(spec),
        "context": _context(plan),
        "first call": _first_call(plan),
        "worst case": _worst_case(plan),
    }
    limits = wire.encode(spec.limits).items()
    name_width = max(len(tool.name) for tool in plan.tools) if plan.tools else 0
    return [
        spec.name,
        *(f"  {name:<11} {text}" for name, text in rows.items()),
        "",
        "limits",
        *(f"  {name:<22} {_limit(value)}" for name, value in limits),
        "",
        "tools",
        *(
            f"  {t.name:<{name_width}}  {t.verdict if t.offered else 'not offered'}"
            for t in plan.tools
        ),
        *(f"  warning: {line}" for line in (*plan.advice, *plan.warnings)),
        "",
        "sub-agents",
        *(f"  {_agent(agent)}" for agent in plan.agents),
        *(() if plan.agents else ("  none",)),
        "",
        *_servers(plan),
        "system prompt",
        *_quote(plan.system),
        "",
        "prompt",
        *_quote(spec.prompt),
        "",
        "checks",
        *(
            f"  {'ok' if check.ok else 'NOT OK':<6}  {check.name}: {check.detail}"
            for check in plan.checks
        ),
        "",
        _readiness(plan),
    ]


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan as one JSON object."""
    ready = all(check.ok for check in plan.checks)
    return {"type": "plan", "ready": ready, **wire.encode(plan)}


def _readiness(plan: Plan) -> str:
    failed = [check.name for check in plan.checks if not check.ok]
    return f"not ready: {', '.join(failed)}" if failed else "ready"


def _mode(spec: TaskSpec) -> str:
    mode, auto = spec.permission_mode, spec.auto_mode
    return mode if auto is None else f"{mode}, {auto.model} decides about calls no rule covers"


def _skills(plan: Plan) -> str:
    each = (
        skill.name + (f" (allows {', '.join(skill.allowed_tools)})" if skill.allowed_tools else "")
        for skill in plan.skills
    )
    return ", ".join(each) or "none"


def _servers(plan: Plan) -> list[str]:
    """Nothing where there are none."""
    if not plan.mcp_servers:
        return []
    lines, width = ["MCP servers"], max(len(server.name) for server in plan.mcp_servers)
    for server in plan.mcp_servers:
        need = "required" if server.required else "optional"
        told = [f"{server.type} {server.address}", need, server.sandbox]
        lines.append(f"  {server.name:<{width}}  {', '.join(filter(None, told))}")
    return [*lines, ""]


def _agent(agent: AgentPlan) -> str:
    tools = "the tools of who starts it" if agent.tools is None else ", ".join(agent.tools)
    more = [
        f"mode {agent.permission_mode}" if agent.permission_mode else "",
        count(agent.max_turns, "tool-use turn") if agent.max_turns else "",
        f"from {agent.source}" if agent.source else "",
    ]
    parts = [f"{agent.name}  {agent.model}", tools or "no tools", *filter(None, more)]
    return "; ".join(parts)


def _price(plan: Plan) -> str:
    price = plan.price
    if price is None:
        return "unknown"
    source = "from the spec" if price.basis == "spec" else "from litellm's table"
    cost = f"${price.input_per_mtok:f} in, ${price.output_per_mtok:f} out per million tokens"
    return f"{cost}, {source}"


def _context(plan: Plan) -> str:
    spec = plan.spec.compaction
    windows = [f"{window.tokens:,} tokens ({window.model})" for window in plan.windows]
    size = ", ".join(windows) or "window unknown"
    return (
        f"{size}, compacted at {spec.threshold:.0%}" if spec.enabled else f"{size}, never compacted"
    )


def _first_call(plan: Plan) -> str:
    tokens = f"at most {plan.first_call_tokens} tokens in, {plan.spec.max_output_tokens} out"
    return tokens if plan.first_call_usd is None else f"{tokens}: {usd(plan.first_call_usd)}"


def _worst_case(plan: Plan) -> str:
    most, why = plan.worst_case.usd, plan.worst_case.why
    return why if most is None else f"{usd(most)}: {why}"


def _limit(value: object) -> str:
    if isinstance(value, float):
        return span(value).replace(".0s", "s")  # a limit is set, not measured
    return f"{value:,}" if isinstance(value, int) else str(value)


def _quote(text: str) -> list[str]:
    return [f"  | {line}".rstrip() for line in text.strip().splitlines()]
