"""The start-up has a limit of its own, and is heard of while it works."""

from __future__ import annotations

import asyncio

from runner.adapters.workspace import WorkspaceError
from runner.app.worksite import Worksite
from runner.core.words import span
from runner.engine.loop import Heartbeat
from runner.engine.recorder import Recorder
from runner.ports import Clock


async def prepare(
    site: Worksite,
    recorder: Recorder,
    clock: Clock,
    *,
    began: float,
    limit_s: float,
    deadline: float | None,
) -> None:
    """Prepare the workspace, `limit_s` seconds after `began` at the latest.

    `began` and `deadline` are on the event loop's clock. Raises `WorkspaceError` when the limit
    trips first, and `TimeoutError` when the deadline of the run does.
    """
    heartbeat = Heartbeat(recorder, clock, phase=lambda: site.phase)
    heartbeat.start()
    limit = asyncio.timeout_at(began + limit_s)
    try:
        async with asyncio.timeout_at(deadline), limit:
            await asyncio.sleep(0)  # the checks may have used the time up
            await site.prepare()
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise WorkspaceError(
            f"the start-up took longer than {span(limit_s)}, in this phase: {site.phase}; "
            "`limits.start` sets the limit"
        ) from error
    finally:
        heartbeat.stop()
