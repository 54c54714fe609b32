"""Signals for a run inside a host program, only where the host asks for it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from runner.app.signals import CAUSES
from runner.core.events import AbortCause


@contextmanager
def heeded(stop: Callable[[AbortCause], object]) -> Iterator[None]:
    """Meanwhile the first SIGINT, SIGTERM or SIGHUP calls `stop`; then all is as it was before.

    One that is ignored stays ignored. Raises `ValueError` outside the main thread.
    """
    before = {number: signal.getsignal(number) for number in CAUSES}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]

    def heard(number: int, _frame: FrameType | None) -> None:
        give_back()
        stop(CAUSES[signal.Signals(number)])

    def give_back() -> None:
        while taken:
            number = taken.pop()
            signal.signal(number, before[number] or signal.SIG_DFL)

    for number in tuple(taken):
        signal.signal(number, heard)
    try:
        yield
    finally:
        give_back()
