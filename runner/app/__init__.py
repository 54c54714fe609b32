"""The composition root: from a task spec to a wired engine, and from its ending to a result.

The only package that names adapters. Nothing here prints or exits.
"""

from __future__ import annotations

import asyncio

from runner.app.agents import AgentPlan
from runner.app.conversation import Conversation
from runner.app.plan import Plan, ToolPlan, check, plan
from runner.app.run import Run
from runner.app.signals import Switch
from runner.app.world import Finished, RunOptions, World
from runner.core.spec import TaskSpec
from runner.ports import Sink

__all__ = [
    "AgentPlan",
    "Conversation",
    "Finished",
    "Plan",
    "Run",
    "RunOptions",
    "Switch",
    "ToolPlan",
    "World",
    "check",
    "plan",
    "run",
]


def run(
    spec: TaskSpec,
    options: RunOptions,
    sinks: tuple[Sink, ...] = (),
    world: World | None = None,
    switch: Switch | None = None,
) -> Finished:
    """Run a task to its ending; every ending is a `Finished`.

    SIGINT, SIGTERM and SIGHUP are handled while it runs, and `switch` stops it from another
    thread. Raises only what a sink raises.
    """
    return asyncio.run(Run(spec, options, sinks, world or World(), switch=switch).to_the_end())
