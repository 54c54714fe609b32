"""The one event loop of all runs in this process, in a thread that lives only while they do.

One for all, since litellm keeps its connections in one place, and they belong to one loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class _Shared:
    """The loop that runs now, and how many work in it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    loop: asyncio.AbstractEventLoop | None = None
    over: asyncio.Event | None = None
    thread: threading.Thread | None = None
    workers: int = 0


_SHARED = _Shared()


def is_inside() -> bool:
    """Whether this is the thread of the loop: who waits for a run here waits for ever."""
    return threading.current_thread() is _SHARED.thread


def work(job: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have this done in the loop; it is started for the first and ends after the last.

    Raises `RuntimeError` or `OSError` when this machine has no thread or loop for it.
    """
    with _SHARED.lock:
        if _SHARED.workers == 0:
            _start()
        _SHARED.workers += 1
        assert _SHARED.loop is not None
        asyncio.run_coroutine_threadsafe(_counted(job), _SHARED.loop)


async def _counted(job: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await job()
    finally:
        with _SHARED.lock:
            _SHARED.workers -= 1
            if _SHARED.workers == 0 and _SHARED.over is not None:
                _SHARED.over.set()


def _start() -> None:
    started: Future[None] = Future()

    async def serve() -> None:
        _SHARED.loop, _SHARED.over = asyncio.get_running_loop(), asyncio.Event()
        over = _SHARED.over
        started.set_result(None)
        await over.wait()

    def live() -> None:
        try:
            # Not the host's policy: what it makes may need the main thread.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(serve())
        except OSError as error:  # no descriptor is left for a loop
            if started.done():
                raise
            started.set_exception(error)

    _SHARED.thread = threading.Thread(target=live, name="autopilot")
    _SHARED.thread.start()
    started.result()
