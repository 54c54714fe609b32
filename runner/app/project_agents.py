"""The agents of the project beside those of the task: found once, settled, and told with the spec.

Rules of this file:
* They are read before the session begins, from the workspace as it is then. From there on the log
  says which there are: nothing that an agent writes makes another one of the same session.
* A file of the project chooses among the models that the task names. It could else have another
  provider asked, at a price that nobody agreed to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from runner.adapters import agent_files
from runner.adapters.agent_files import Found
from runner.adapters.redact import NOTHING, Mask
from runner.adapters.specfile.problem import shown
from runner.core.spec import AgentSpec, PermissionMode, TaskSpec
from runner.core.subagents import NARROWER

FAMILIES: Final = frozenset({"haiku", "sonnet", "opus"})
"""What Claude's users call a model, whichever version of it."""

WARNING: Final = "agents"
"""The type of the warnings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The task with all its agents, and what should be known about files of the project."""

    spec: TaskSpec
    warnings: tuple[str, ...] = ()


def join(spec: TaskSpec, before: TaskSpec | None = None, mask: Mask = NOTHING) -> Joined:
    """Add the agents of the project, those of the log where it has begun: `before` is its task.

    Those of the task come first. Texts are masked: the model is told them through no event.
    """
    spec = _without_families(spec)
    found = Found()
    if "project" in spec.setting_sources:
        found = agent_files.every(Path(spec.workspace.path)) if before is None else _known(before)
    kept = {name: agent for name, agent in found.agents.items() if name not in spec.agents}
    settled = {name: _settled(spec, agent, found) for name, agent in kept.items()}
    masked = {name: _masked(agent, mask) for name, agent in settled.items()}
    told = tuple(dict.fromkeys(map(mask.text, found.problems)))
    return Joined(spec=replace(spec, agents={**spec.agents, **masked}), warnings=told)


def _known(before: TaskSpec) -> Found:
    return Found(agents={name: agent for name, agent in before.agents.items() if agent.source})


def _masked(agent: AgentSpec, mask: Mask) -> AgentSpec:
    return replace(agent, description=mask.text(agent.description), prompt=mask.text(agent.prompt))


def _without_families(spec: TaskSpec) -> TaskSpec:
    """`sonnet` in an agent of the task is the model of the task that is called so, if one is."""
    models = _named(spec)
    agents = {
        name: replace(agent, model=_meant(agent.model, models) or agent.model)
        for name, agent in spec.agents.items()
    }
    return replace(spec, agents=agents)


def _settled(spec: TaskSpec, agent: AgentSpec, found: Found) -> AgentSpec:
    """The agent as far as its file may decide."""
    model = agent.model and _meant(agent.model, _named(spec))
    if agent.model and model is None:
        found.problems.append(
            f"{found.place(agent, 'model')}: the task names no model {shown(agent.model)}, so the "
            "agent has the model of who starts it; define the agent in the task to give it another"
        )
    mode = _mode(spec.permission_mode, agent, found)
    return replace(agent, model=model, permission_mode=mode)


def _mode(above: PermissionMode, agent: AgentSpec, found: Found) -> PermissionMode | None:
    """The mode where it allows less than that of the run. Its own model decides in mode auto,
    which is there in a run of that mode alone."""
    mode = agent.permission_mode
    if mode is None or mode == above:
        return None
    if mode not in NARROWER[above]:
        found.problems.append(
            f"{found.place(agent, 'permissionMode')}: {mode} is not narrower than {above}, the "
            "mode of the task, which holds"
        )
        return None
    return "default" if mode == "auto" else mode


def _named(spec: TaskSpec) -> tuple[str, ...]:
    """The models that the task names."""
    own = [agent.model for agent in spec.agents.values() if agent.model not in FAMILIES]
    return (spec.model, *spec.fallback_models, *filter(None, own))


def _meant(wanted: str | None, models: tuple[str, ...]) -> str | None:
    """The model of these that is called so: by its id, without its provider, or by its family."""
    if wanted is None or wanted in models:
        return wanted
    if wanted in FAMILIES:
        return next((m for m in models if wanted in re.split("[^a-z]+", m.lower())), None)
    return next((model for model in models if model.partition("/")[2] == wanted), None)
