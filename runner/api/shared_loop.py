"""The one event loop of all runs in this process, in a thread that lives only while they do.

One for all, since litellm keeps its connections in one place, and they belong to one loop.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  # before us: see the last lines
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

Job = Callable[[], Coroutine[Any, Any, None]]
Stop = Callable[[], object]


@dataclass(slots=True)
class _Shared:
    """The loop that runs now, and what stops each of those that work in it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    loop: asyncio.AbstractEventLoop | None = None
    over: asyncio.Event | None = None
    thread: threading.Thread | None = None
    gone: threading.Event = field(default_factory=threading.Event)
    stops: list[Stop] = field(default_factory=list)


_SHARED = _Shared()


def is_inside() -> bool:
    """Whether this is the thread of the loop: who waits for a run here waits for ever."""
    return threading.current_thread() is _SHARED.thread


def work(job: Job, stop: Stop) -> None:
    """Have this done in the loop; it is started for the first and ends after the last. `stop` is
    called when there is no more time for it.

    Raises `RuntimeError` or `OSError` when this machine has no thread or loop for it.
    """
    with _SHARED.lock:
        if not _SHARED.stops:
            _start()
        _SHARED.stops.append(stop)
        assert _SHARED.loop is not None
        asyncio.run_coroutine_threadsafe(_counted(job, stop), _SHARED.loop)


async def _counted(job: Job, stop: Stop) -> None:
    try:
        await job()
    finally:
        with _SHARED.lock:
            _SHARED.stops.remove(stop)
            if not _SHARED.stops and _SHARED.over is not None:
                _SHARED.over.set()


def _start() -> None:
    started: Future[None] = Future()
    gone = _SHARED.gone = threading.Event()

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
        finally:
            gone.set()

    _SHARED.thread = threading.Thread(target=live, name="autopilot")
    _SHARED.thread.start()
    started.result()


def _finish() -> None:
    """The program is over: what it sent comes to its end, at Ctrl-C to an early one."""
    while _SHARED.thread is not None and not _SHARED.gone.is_set():
        try:
            _SHARED.gone.wait()  # after an interrupt `Thread.join` takes any thread for dead
        except KeyboardInterrupt:
            for stop in tuple(_SHARED.stops):
                stop()


def _forget() -> None:
    """In a fork the thread is not there, and the lock may be held by nobody."""
    global _SHARED  # as if this module were imported anew
    _SHARED = _Shared()


# A run needs thread pools, and those take no work any more once the main thread is over. Only what
# is registered here, after theirs, comes before that; `atexit` is too late.
getattr(threading, "_register_atexit", atexit.register)(_finish)
os.register_at_fork(after_in_child=_forget)
