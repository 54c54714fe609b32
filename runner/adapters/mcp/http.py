"""HTTP to a server with an address: no proxy, bounded answers, and what it refused is noted.

Redirects are followed by the SDK, and only where they stay at the same origin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2  # this module is loaded for servers with an address only

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The longest answer that is taken; streams of events are bounded by the event instead."""


class _Bounded(httpx2.AsyncByteStream):
    """An answer, up to the limit."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for piece in self._inner:
            taken += len(piece)
            if taken > MAX_ANSWER_BYTES:
                limit = MAX_ANSWER_BYTES // 1024 // 1024
                raise httpx2.StreamError(f"the answer is longer than {limit} MiB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


def client(
    note: Callable[[int], None],
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Who makes the requests. `note` is told each status that is no success.

    Answers are not to be compressed: a few bytes of one that is can be any number of them.
    """

    async def look(response: httpx2.Response) -> None:
        if not response.is_success:
            note(response.status_code)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.DecodingError("the answer is compressed, and was not to be")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(response.stream)

    return httpx2.AsyncClient(
        headers={**(headers or {}), "Accept-Encoding": "identity"},
        timeout=timeout,
        auth=auth,
        trust_env=False,
        event_hooks={"response": [look]},
    )
