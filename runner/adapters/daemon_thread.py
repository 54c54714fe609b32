"""Work in a thread that no exit waits for; the threads of an executor are joined at exit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_daemon_thread(work: Callable[[], T], name: str) -> Future[T]:
    """What `work` returns or raises, once it does."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # a waiter that is cancelled cancels itself only

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised again where the future is waited for
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
