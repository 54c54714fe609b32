"""Compare what is protected with the start of the session, and record what was found."""

from __future__ import annotations

import asyncio

from runner.core.events import ProtectedChange, RunnerProtectionCheck
from runner.core.protection import differences, rewritten
from runner.engine.engine import Engine
from runner.ports import Sight


async def compare(engine: Engine, *, since: Sight | None = None) -> Sight | None:
    """Record one comparison; what was seen, or None when nobody could look.

    `since` is an earlier look: what was written since then counts as changed, even if it is as it
    was. A look that takes too long is recorded as a change: nothing was proved. Raises
    `JournalError`.
    """
    guard, recorder = engine.guard, engine.recorder
    start, spec = recorder.state.protection, recorder.state.need
    if start is None:
        return None
    if guard is None:
        recorder.record(RunnerProtectionCheck(skipped="nobody can look"))
        return None
    engine.phase = "protected paths"
    limit_s = engine.left_s(spec.limits.start)
    try:
        async with asyncio.timeout(limit_s):
            sight = await guard.look(tuple(start.entries))
    except TimeoutError:
        unproved = ProtectedChange(
            path="protected_paths", change=f"could not be compared within {limit_s:g} s"
        )
        recorder.record(RunnerProtectionCheck(changes=(unproved,)))
        return None
    changes = differences(start, sight.there)
    if since is not None and not changes:
        changes = rewritten(start, since.writes, sight.writes)
    recorder.record(RunnerProtectionCheck(changes=changes))
    return sight
