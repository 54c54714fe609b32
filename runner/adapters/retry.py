"""Repeats a model call that failed for a passing reason, with a jittered exponential wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from runner.core.spec import RetrySpec
from runner.ports import ModelError, Retry

T = TypeVar("T")

_FIRST_WAIT_S = 1.0
_MIN_WAIT_S = 0.5


def retry_policy(
    spec: RetrySpec, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Retry:
    """A `Retry` of at most `spec.max_attempts` attempts with waits of at most `spec.max_wait`.

    What the server asks for is waited out in full; asked to wait longer than `spec.max_wait`,
    the policy gives up at once: an earlier attempt would only be refused.
    """
    backoff = wait_random_exponential(
        multiplier=_FIRST_WAIT_S, min=_MIN_WAIT_S, max=max(spec.max_wait, _MIN_WAIT_S)
    )

    def wait_s(state: RetryCallState) -> float:
        asked_s = _failure(state).retry_after_s or 0.0
        return min(max(backoff(state), asked_s), spec.max_wait)

    def worth_it(error: BaseException) -> bool:
        return (
            isinstance(error, ModelError)
            and error.retryable
            and (error.retry_after_s or 0.0) <= spec.max_wait
        )

    async def retry(
        attempt: Callable[[], Awaitable[T]],
        on_retry: Callable[[ModelError, int, float], None],
    ) -> T:
        retrying = AsyncRetrying(
            sleep=sleep,
            stop=stop_after_attempt(spec.max_attempts),
            wait=wait_s,
            retry=retry_if_exception(worth_it),
            before_sleep=lambda state: on_retry(
                _failure(state), state.attempt_number, state.upcoming_sleep
            ),
            reraise=True,
        )
        return await retrying(attempt)

    return retry


def _failure(state: RetryCallState) -> ModelError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, ModelError)  # nothing else is retried
    return error
