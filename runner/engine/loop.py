"""The loop: ask the table for the next step, perform it, until it says finish."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from runner.core.endings import Ending
from runner.core.events import Abort, AbortCause, AbortReason, RunnerHeartbeat
from runner.core.policy import next_step
from runner.core.steps import AskModel, Finish, RunTools, Say
from runner.engine.ask import ask_model
from runner.engine.dispatch import run_tools
from runner.engine.engine import Engine
from runner.engine.recorder import Recorder

HEARTBEAT_S = 30.0

ABORT_REASONS: Mapping[AbortCause, AbortReason] = {
    "SIGINT": "user_initiated",
    "SIGTERM": "remote_command",
    "SIGHUP": "remote_command",
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
    heartbeat = _Heartbeat(engine)
    heartbeat.start()
    limit = asyncio.timeout_at(deadline_s)
    try:
        async with limit:
            return await _steps(engine)
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
    return wind_down(engine.recorder)


def wind_down(recorder: Recorder) -> Ending:
    """After a recorded abort or failure only bookkeeping is left: do it, return the ending."""
    while True:
        match next_step(recorder.state):
            case Finish(ending=ending):
                return ending
            case Say(events=events):
                for event in events:
                    recorder.record(event)
            case step:
                raise AssertionError(f"{step} although the run was stopped")


def abort(recorder: Recorder, cause: AbortCause) -> None:
    """Record that the run was stopped from outside."""
    recorder.record(Abort(reason=ABORT_REASONS[cause], cause=cause))


async def _steps(engine: Engine) -> Ending:
    recorder = engine.recorder
    while True:
        match next_step(recorder.state):
            case Finish(ending=ending):
                return ending
            case Say(events=events):
                for event in events:
                    recorder.record(event)
            case AskModel():
                engine.phase = "model call"
                await ask_model(engine)
            case RunTools(calls=calls):
                engine.phase = "tools: " + ", ".join(call.name for call in calls)
                await run_tools(engine, calls)
            case step:
                assert_never(step)


class _Heartbeat:
    """Says every 30 s that the run is alive and in which phase."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._started = engine.clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Schedule the next beat."""
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT_S, self._beat)

    def stop(self) -> None:
        """Cancel it."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        elapsed = self._engine.clock.monotonic() - self._started
        beat = RunnerHeartbeat(phase=self._engine.phase, elapsed_s=round(elapsed, 1))
        self._engine.recorder.show(beat)
        self.start()
