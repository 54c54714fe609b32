"""The hooks around a run: when it starts, when its prompt is asked, when it has ended."""

from __future__ import annotations

import asyncio

from runner.app.session import Opened
from runner.core.endings import Ending
from runner.engine import hooks
from runner.engine.engine import Engine
from runner.engine.hooks import SessionSource


async def start(engine: Engine, opened: Opened, deadline: float | None) -> None:
    """Run the hooks of the start, until `deadline` on the event loop's clock at most.

    Raises `TimeoutError` when it comes first.
    """
    source: SessionSource = "startup" if opened.is_new else "resume"
    if opened.forked_from is not None:
        source = "fork"
    async with asyncio.timeout_at(deadline):
        await hooks.session_start(engine, source)


async def may_ask(engine: Engine, opened: Opened, deadline: float | None) -> bool:
    """Whether hooks let the prompt through; without a new prompt there is nothing to let through.

    Raises `TimeoutError` when the deadline comes first.
    """
    state = engine.recorder.state
    if state.hook_stop is not None or state.failure is not None:
        return False
    if not _is_new_prompt(opened, state.need.prompt):
        return True
    async with asyncio.timeout_at(deadline):
        return await hooks.submit_prompt(engine, state.need.prompt)


def _is_new_prompt(opened: Opened, prompt: str) -> bool:
    before = opened.state
    is_done = (before.result or {}).get("subtype") == "success"
    return not before.main.messages or is_done or before.need.prompt != prompt


async def end(engine: Engine | None, ending: Ending) -> None:
    """Run the hooks of the end of a run that got as far as having any."""
    if engine is not None:
        await hooks.session_end(engine, ending)
