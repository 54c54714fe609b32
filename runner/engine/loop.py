"""The loop: ask the table for the next step, perform it, until it says finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from runner.core.endings import Ending
from runner.core.events import (
    Abort,
    AbortCause,
    AbortReason,
    RunnerHeartbeat,
    RunnerProtectionCheck,
    RunnerVerifyComplete,
)
from runner.core.policy import next_step
from runner.core.steps import (
    AskModel,
    CheckOutput,
    Compact,
    Compare,
    Finish,
    RunHooks,
    RunTools,
    Say,
    Verify,
)
from runner.engine.ask import ask_model
from runner.engine.compact import compact
from runner.engine.dispatch import run_tools
from runner.engine.engine import Engine
from runner.engine.guard import compare
from runner.engine.hooks import run_points
from runner.engine.recorder import Recording
from runner.engine.structured import check_output
from runner.engine.verify import verify
from runner.ports import Clock

HEARTBEAT_S = 30.0

ABORT_REASONS: Mapping[AbortCause, AbortReason] = {
    "SIGINT": "user_initiated",
    "SIGTERM": "remote_command",
    "SIGHUP": "remote_command",
    "interrupt": "user_initiated",
    "timeout": "user_abort",
}


@dataclass(slots=True, kw_only=True)
class Interruption:
    """Why the main task was cancelled; set by whoever cancels it, before it does.

    Once `closing`, the ending is known and the last papers are written: a first signal waits.
    """

    cause: AbortCause | None = None
    closing: bool = False


async def run(engine: Engine, *, deadline_s: float | None, interruption: Interruption) -> Ending:
    """Run to the ending. `deadline_s` is on the event loop's clock.

    Cancellation with a cause in `interruption` becomes an `abort` fact and an ending; without
    one it propagates. Raises `JournalError` when a fact cannot be written.
    """
    heartbeat = Heartbeat(engine.recorder, engine.clock, phase=lambda: engine.phase)
    heartbeat.start()
    limit = asyncio.timeout_at(deadline_s)
    try:
        async with limit:
            return await perform(engine)
    except TimeoutError:
        if not limit.expired():
            raise
        cause: AbortCause = "timeout"
    except asyncio.CancelledError:
        if interruption.cause is None:
            raise
        cause = interruption.cause
        if (task := asyncio.current_task()) is not None:
            task.uncancel()  # it is dealt with here; what follows is an ordinary end
    finally:
        heartbeat.stop()
    abort(engine.recorder, cause)
    engine.begin_grace(late_s=_late_s(deadline_s) if cause == "timeout" else 0.0)
    if cause != "timeout":
        return wind_down(engine.recorder)
    return await _last_checks(engine, interruption)


def _late_s(deadline_s: float | None) -> float:
    """How long ago the time was up: what ran had to be ended first."""
    now = asyncio.get_running_loop().time()
    return 0.0 if deadline_s is None else max(now - deadline_s, 0.0)


async def _last_checks(engine: Engine, interruption: Interruption) -> Ending:
    """The time is up: the checks of the spec may still run, briefly. A signal cuts them short."""
    try:
        return await perform(engine)
    except asyncio.CancelledError:
        if interruption.cause is None:
            raise
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
    return wind_down(engine.recorder)


def wind_down(recorder: Recording) -> Ending:
    """After a recorded abort or failure only bookkeeping is left: do it, return the ending."""
    while True:
        match next_step(recorder.state):
            case Finish(ending=ending):
                return ending
            case Say(events=events, agent_id=agent_id):
                for event in events:
                    recorder.record(event, agent_id)
            case Verify(start=start):  # no time is left to run the checks
                unmade = RunnerVerifyComplete(attempt=start.attempt, passed=False, checks=())
                recorder.record(unmade)
            case Compare():
                recorder.record(RunnerProtectionCheck(skipped="no time was left"))
            case step:
                raise AssertionError(f"{step} although the run was stopped")


def abort(recorder: Recording, cause: AbortCause) -> None:
    """Record that the run was stopped from outside."""
    recorder.record(Abort(reason=ABORT_REASONS[cause], cause=cause))


async def perform(engine: Engine) -> Ending:  # noqa: C901  # one arm a step, no logic
    """Perform what the table says until it says how it ends. Raises `JournalError`."""
    recorder = engine.recorder
    while True:
        match next_step(recorder.state):
            case Finish(ending=ending):
                return ending
            case Say(events=events, agent_id=agent_id):
                for event in events:
                    recorder.record(event, agent_id)
            case AskModel():
                engine.phase = "model call"
                await ask_model(engine)
            case RunTools(calls=calls):
                engine.phase = "tools: " + ", ".join(call.name for call in calls)
                await run_tools(engine, calls)
            case Compact(trigger=trigger):
                engine.phase = "compaction"
                await compact(engine, trigger)
            case Verify(start=start):
                await verify(engine, start)
            case Compare():
                await compare(engine)
            case CheckOutput() as step:
                await check_output(engine, step)
            case RunHooks(points=points):
                await run_points(engine, points)
            case step:
                assert_never(step)


class Heartbeat:
    """Says every 30 s that the run is alive and in which phase."""

    def __init__(self, recorder: Recording, clock: Clock, *, phase: Callable[[], str]) -> None:
        self._recorder = recorder
        self._clock = clock
        self._phase = phase
        self._started = clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Schedule the next beat."""
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT_S, self._beat)

    def stop(self) -> None:
        """Cancel it."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        elapsed = self._clock.monotonic() - self._started
        self._recorder.show(RunnerHeartbeat(phase=self._phase(), elapsed_s=round(elapsed, 1)))
        self.start()
