"""Event loops whose time jumps: hours pass at once, and waiting for nothing is an error."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _VirtualSelector(selectors.DefaultSelector):
    """Waits for nothing: what would have been waited is added to `waited_s`."""

    waited_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("the loop would wait for ever: nothing is scheduled")
        self.waited_s += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer. For coroutines that touch no real I/O."""

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds that were waited so far."""
        return self._virtual.waited_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in virtual time: hours pass at once, and a deadlock is an error."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
