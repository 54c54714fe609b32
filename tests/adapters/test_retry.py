"""Retries: passing failures only, with waits that honour the server and never exceed the cap."""

import asyncio
from dataclasses import dataclass, field

import pytest

from runner.adapters.retry import retry_policy
from runner.core.spec import RetrySpec
from runner.ports import ModelError

SPEC = RetrySpec(max_attempts=4, max_wait=10.0)


def passing(message: str = "busy", retry_after_s: float | None = None) -> ModelError:
    """A failure that may go away."""
    return ModelError(
        "rate_limit", message, retryable=True, status_code=429, retry_after_s=retry_after_s
    )


@dataclass(slots=True)
class Tries:
    """Attempts that fail with these errors and then answer; what happened is recorded."""

    failures: list[Exception]
    made: int = 0
    slept_s: list[float] = field(default_factory=list)
    told: list[tuple[ModelError, int, float]] = field(default_factory=list)

    async def attempt(self) -> str:
        """Fail with the next error, or answer."""
        self.made += 1
        if self.made <= len(self.failures):
            raise self.failures[self.made - 1]
        return "answer"

    async def sleep(self, seconds: float) -> None:
        """Record instead of waiting."""
        self.slept_s.append(seconds)

    def on_retry(self, error: ModelError, number: int, wait_s: float) -> None:
        """Record what the caller is told."""
        self.told.append((error, number, wait_s))

    def run(self, spec: RetrySpec = SPEC) -> str:
        """Let the policy work on it."""
        return asyncio.run(retry_policy(spec, self.sleep)(self.attempt, self.on_retry))


def test_an_attempt_that_succeeds_is_made_once() -> None:
    """No wait and no report when the first attempt answers."""
    tries = Tries([])
    assert tries.run() == "answer"
    assert (tries.made, tries.slept_s, tries.told) == (1, [], [])


def test_passing_failures_are_repeated() -> None:
    """The caller is told of each failure, its number and the wait, before the wait."""
    failures: list[Exception] = [passing("one"), passing("two")]
    tries = Tries(failures)
    assert tries.run() == "answer"
    assert [(error, number) for error, number, _ in tries.told] == [
        (failures[0], 1),
        (failures[1], 2),
    ]
    assert [wait_s for _, _, wait_s in tries.told] == tries.slept_s


@pytest.mark.parametrize(
    "error",
    [
        ModelError("authentication", "no key", status_code=401),
        ModelError("quota", "pay", status_code=402),
        ModelError("invalid_request", "bad", status_code=400),
        ModelError("model_not_found", "what?", status_code=404),
        ValueError("a bug"),
    ],
    ids=lambda error: getattr(error, "kind", "bug"),
)
def test_lasting_failures_are_not_repeated(error: Exception) -> None:
    """The error comes out at once, unchanged, when another attempt cannot help."""
    tries = Tries([error])
    with pytest.raises(type(error)) as caught:
        tries.run()
    assert caught.value is error
    assert (tries.made, tries.slept_s) == (1, [])


def test_attempts_are_counted() -> None:
    """The last error comes out when `max_attempts` were made, the first one included."""
    failures: list[Exception] = [passing(str(number)) for number in range(9)]
    tries = Tries(failures)
    with pytest.raises(ModelError) as caught:
        tries.run()
    assert caught.value is failures[3]
    assert (tries.made, len(tries.slept_s)) == (4, 3)


def test_one_attempt_means_no_retry() -> None:
    """`max_attempts: 1` makes one request."""
    tries = Tries([passing()])
    with pytest.raises(ModelError, match="busy"):
        tries.run(RetrySpec(max_attempts=1, max_wait=10.0))
    assert tries.made == 1


def test_waits_grow_within_their_bounds() -> None:
    """The wait before attempt n is between half a second and 2^(n-2) seconds, or the cap."""
    tries = Tries([passing()] * 7)
    tries.run(RetrySpec(max_attempts=8, max_wait=10.0))
    ceilings = [1, 2, 4, 8, 10, 10, 10]
    assert len(tries.slept_s) == len(ceilings)
    assert all(0.5 <= waited <= most for waited, most in zip(tries.slept_s, ceilings, strict=True))


def test_waits_are_spread() -> None:
    """Many runs that failed together do not come back together."""
    waits = set()
    for _ in range(20):
        tries = Tries([passing()])
        tries.run()
        waits.update(tries.slept_s)
    assert len(waits) > 1


def test_a_short_cap_bounds_every_wait() -> None:
    """No wait is longer than `max_wait`, though it is below the smallest backoff."""
    tries = Tries([passing()] * 3)
    tries.run(RetrySpec(max_attempts=4, max_wait=0.1))
    assert tries.slept_s == [0.1, 0.1, 0.1]


def test_the_server_is_given_the_time_it_asks_for() -> None:
    """The wait is the server's when that is longer than the backoff."""
    tries = Tries([passing(retry_after_s=9.5)])
    tries.run()
    assert tries.slept_s == [9.5]


def test_a_server_that_asks_for_less_gets_the_backoff() -> None:
    """A wait of zero does not turn into a storm of requests."""
    tries = Tries([passing(retry_after_s=0.0)])
    tries.run()
    assert tries.slept_s[0] >= 0.5


def test_a_wait_beyond_the_cap_is_not_waited_for() -> None:
    """The error comes out at once when the server asks for more than `max_wait`."""
    error = passing(retry_after_s=10.5)
    tries = Tries([error])
    with pytest.raises(ModelError) as caught:
        tries.run()
    assert caught.value is error
    assert (tries.made, tries.slept_s, tries.told) == (1, [], [])


def test_a_cancel_during_the_wait_ends_it() -> None:
    """A wait is cancelled like any other, and nothing more is asked."""

    async def cancel_while_waiting(tries: Tries) -> None:
        async with asyncio.timeout(0.05):
            await retry_policy(SPEC)(tries.attempt, tries.on_retry)

    tries = Tries([passing(retry_after_s=9.0)])
    with pytest.raises(TimeoutError):
        asyncio.run(cancel_while_waiting(tries))
    assert tries.made == 1
