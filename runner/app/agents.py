"""Sub-agents: the tool that starts them, and what each is told and given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runner import tools
from runner.adapters import configs
from runner.app import wiring
from runner.core.events import Check, SandboxReport
from runner.core.messages import AGENT_TOOL
from runner.core.permissions import offered
from runner.core.skills import Skill, preloaded
from runner.core.spec import AgentSpec, PermissionMode, TaskSpec
from runner.core.subagents import GENERAL_PURPOSE, catalog, narrowed
from runner.engine.engine import Crew
from runner.engine.spawn import spawn
from runner.ports import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """A sub-agent that may be started: `tools` None are those of who starts it, `source` is the
    file that defines it, or empty."""

    name: str
    description: str
    model: str
    tools: tuple[str, ...] | None = None
    permission_mode: PermissionMode | None = None
    max_turns: int | None = None
    source: str = ""


def plans(spec: TaskSpec) -> tuple[AgentPlan, ...]:
    """The sub-agents that the main loop may start; none when it has no tool for it."""
    if not tool(spec) or not offered(spec, (AGENT_TOOL,)):
        return ()
    return tuple(_planned(spec, name, agent) for name, agent in _agents(spec).items())


def _planned(spec: TaskSpec, name: str, agent: AgentSpec) -> AgentPlan:
    narrow = narrowed(spec, agent, spec.model)
    differs = narrow.permission_mode != spec.permission_mode
    return AgentPlan(
        name=name,
        description=agent.description,
        model=narrow.model,
        tools=agent.tools,
        permission_mode=narrow.permission_mode if differs else None,
        max_turns=narrow.max_turns,
        source=agent.source,
    )


def tool(spec: TaskSpec) -> Mapping[str, Tool]:
    """The tool that starts sub-agents, by its name; nothing when the spec wants none."""
    if spec.limits.max_subagent_depth < 1 or spec.limits.max_subagents < 1:
        return {}
    made = tools.Agent(agents=_agents(spec), descriptions=wiring.tool_descriptions())
    return {made.spec.name: made}


def crew(
    spec: TaskSpec,
    workspace: Path,
    sandbox: SandboxReport | None,
    known: Mapping[str, Skill],
    toolbox: Callable[[], Mapping[str, Tool]],
) -> Crew:
    """What sub-agents need. `known` are the skills there are. `toolbox` gives fresh tools: what was
    read, the directory of commands and the task list are each agent's own."""
    agents, template = _agents(spec), wiring.tool_descriptions()["Skill.text"]

    def prompt(name: str) -> str:
        return system_prompt(spec, agents[name], workspace, sandbox)

    return Crew(
        spawn=spawn,
        description=lambda name: agents[name].description,
        prompt=prompt,
        skills=lambda name: preloaded(
            known, filter(known.__contains__, agents[name].skills), template=template
        ),
        tools=toolbox,
    )


def checks(spec: TaskSpec, known: Mapping[str, Skill]) -> tuple[Check, ...]:
    """Whether the skills are there that agents of the task are to be told; nothing when they are to
    be told none."""
    own = ((name, agent) for name, agent in spec.agents.items() if not agent.source)
    wanted = [(name, skill) for name, agent in own for skill in agent.skills]
    lacking = [
        f"{name}: there is no skill `{skill}`" for name, skill in wanted if skill not in known
    ]
    detail = "; ".join(lacking) or ", ".join(skill for _, skill in wanted)
    return (Check(name="agents", ok=not lacking, detail=detail),) if wanted else ()


def missing_skills(spec: TaskSpec, known: Mapping[str, Skill]) -> tuple[str, ...]:
    """The same of the agents of the project, in words: those skills are left out."""
    return tuple(
        f"{agent.source}: there is no skill `{skill}` that {name} could be told"
        for name, agent in spec.agents.items()
        if agent.source
        for skill in agent.skills
        if skill not in known
    )


def system_prompt(
    spec: TaskSpec, agent: AgentSpec, workspace: Path, sandbox: SandboxReport | None
) -> str:
    """The agent's own prompt, how sub-agents work here, and the walls around commands."""
    frame = wiring.fill(configs.read_text("prompts/subagent.md"), spec, workspace)
    return agent.prompt.strip() + frame + wiring.surroundings(spec, sandbox)


def _agents(spec: TaskSpec) -> Mapping[str, AgentSpec]:
    """The agents with all their texts; those of the general one are ours."""
    known = catalog(spec)
    if GENERAL_PURPOSE in spec.agents:
        return known
    ours = replace(
        known[GENERAL_PURPOSE],
        description=wiring.tool_descriptions()[f"Agent.{GENERAL_PURPOSE}"].strip(),
        prompt=configs.read_text("prompts/general_purpose.md"),
    )
    return {**known, GENERAL_PURPOSE: ours}
