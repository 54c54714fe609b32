"""The composition root: from a task spec to a wired engine, and from its ending to a result.

The only package that names adapters. Nothing here prints or exits.
"""

from __future__ import annotations

import asyncio

from runner.app.plan import Plan, ToolPlan, check, plan
from runner.app.run import Run
from runner.app.world import Finished, RunOptions, World
from runner.core.spec import TaskSpec
from runner.ports import Sink

__all__ = [
    "Finished",
    "Plan",
    "RunOptions",
    "ToolPlan",
    "World",
    "check",
    "plan",
    "run",
]


def run(
    spec: TaskSpec, options: RunOptions, sinks: tuple[Sink, ...] = (), world: World | None = None
) -> Finished:
    """Run a task to its ending; every ending is a `Finished`.

    SIGINT, SIGTERM and SIGHUP are handled while it runs. Raises only what a sink raises.
    """
    return asyncio.run(Run(spec, options, sinks, world or World()).to_the_end())
