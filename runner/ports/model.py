"""Asking a model: one attempt, its failure, and who repeats it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from runner.core.messages import ModelReply, ModelRequest

T = TypeVar("T")

ModelErrorKind = Literal[
    "authentication",
    "quota",
    "rate_limit",
    "provider_unavailable",
    "invalid_request",
    "model_not_found",
    "context_limit",
]


class ModelError(Exception):
    """One attempt of a model call failed.

    `retryable` says whether the same request may succeed later; `retry_after_s` is what the
    server asked for. `may_bill` is True when the provider may charge for the attempt although
    no usage was reported (the request was accepted and the stream broke).
    """

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        retryable: bool = False,
        status_code: int | None = None,
        retry_after_s: float | None = None,
        may_bill: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.message = message
        self.retryable = retryable
        self.status_code = status_code
        self.retry_after_s = retry_after_s
        self.may_bill = may_bill


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a reply while it is streamed."""

    kind: Literal["text", "reasoning"]
    text: str


class Model(Protocol):
    """Asks a model. One call of `ask` is exactly one attempt: no hidden retries."""

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Stream one reply. Raises only `ModelError`. Cancelled: the upstream stream is closed
        before this returns, so that it stops billing."""
        ...

    async def ready(self) -> None:
        """Whatever has to be loaded before the first request; nothing is sent and nothing billed.
        Never raises."""
        ...

    async def count_tokens(self, request: ModelRequest) -> int:
        """About how many input tokens the request has, for the first reservation.
        Works offline, never raises."""
        ...

    async def aclose(self) -> None:
        """Let go of connections, in bounded time. Never raises; called once, last."""
        ...


class Retry(Protocol):
    """Repeats an attempt that failed with a retryable `ModelError`."""

    async def __call__(
        self,
        attempt: Callable[[], Awaitable[T]],
        on_retry: Callable[[ModelError, int, float], None],
    ) -> T:
        """Call `attempt` until it returns, or raise its last `ModelError`.
        `on_retry(error, number, wait_s)` is told before each wait."""
        ...
