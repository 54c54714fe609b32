"""What stops a run from outside: SIGINT, SIGTERM and SIGHUP, or the program that has it run."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping

from runner.core.events import AbortCause
from runner.engine.loop import Interruption

CAUSES: Mapping[signal.Signals, AbortCause] = {
    signal.SIGINT: "SIGINT",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP",
}


class Switch:
    """Stops the run it is given to, from whatever thread; before the run began as well."""

    def __init__(self) -> None:
        self.cause: AbortCause | None = None
        self._lock = threading.Lock()
        self._stop: Callable[[AbortCause], object] | None = None

    def throw(self, cause: AbortCause = "interrupt") -> None:
        """Stop the run, if it is not over; the first cause counts. Returns at once."""
        with self._lock:
            self.cause = self.cause or cause
            if self._stop is not None:
                self._stop(self.cause)

    def connect(self, interruption: Interruption) -> None:
        """From now on this stops the current task. To be called in its event loop."""
        loop, stop = asyncio.get_running_loop(), _stopper(interruption)
        with self._lock:
            self._stop = lambda cause: loop.call_soon_threadsafe(stop, cause)
            if self.cause is not None:
                self._stop(self.cause)

    def disconnect(self) -> None:
        """From now on this stops nothing."""
        with self._lock:
            self._stop = None


def _stopper(interruption: Interruption) -> Callable[[AbortCause], None]:
    """Cancels the current task, once, with a cause; not when its ending is known already."""
    task = asyncio.current_task()

    def stop(cause: AbortCause) -> None:
        if interruption.cause is not None:
            return
        interruption.cause = cause
        if task is not None and not interruption.closing:
            task.cancel()

    return stop


def listen(interruption: Interruption, before_exit: Callable[[], object]) -> None:
    """Cancel the current task when a signal comes; a second one calls `before_exit` and exits.

    A signal the parent ignores (SIGHUP under nohup, SIGINT of a background job) stays ignored.
    Outside the main thread nothing is installed: signals are the host program's business there.
    """
    loop, stop = asyncio.get_running_loop(), _stopper(interruption)

    def heard(number: signal.Signals) -> None:
        if interruption.cause is not None:
            before_exit()
            os._exit(130 if number == signal.SIGINT else 143)
        stop(CAUSES[number])

    for number in CAUSES:
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        try:
            loop.add_signal_handler(number, heard, number)
        except (ValueError, RuntimeError):  # not the main thread
            return
