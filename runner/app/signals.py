"""SIGINT, SIGTERM and SIGHUP cancel the run with their cause; a second one ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping

from runner.core.events import AbortCause
from runner.engine.loop import Interruption

CAUSES: Mapping[signal.Signals, AbortCause] = {
    signal.SIGINT: "SIGINT",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP",
}


def listen(interruption: Interruption, before_exit: Callable[[], object]) -> None:
    """Cancel the current task when a signal comes; a second one calls `before_exit` and exits.

    A signal the parent ignores (SIGHUP under nohup, SIGINT of a background job) stays ignored.
    Outside the main thread nothing is installed: signals are the host program's business there.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def stop(number: signal.Signals) -> None:
        if interruption.cause is not None:
            before_exit()
            os._exit(130 if number == signal.SIGINT else 143)
        interruption.cause = CAUSES[number]
        if task is not None and not interruption.closing:
            task.cancel()

    for number in CAUSES:
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, stop, number)
        except (ValueError, RuntimeError):  # not the main thread
            return
