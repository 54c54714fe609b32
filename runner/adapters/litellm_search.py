"""Searches the web through litellm: one query is one request, which is never repeated."""

from __future__ import annotations

import asyncio
from typing import Any

from runner.adapters.litellm_errors import classify
from runner.adapters.litellm_model import (
    begin_asking,
    done_asking,
    failures,
    no_lost_cancel,
    start_import,
)
from runner.ports import Hit, ToolFailure


class LitellmSearch:
    """One search API, as a `WebSearch`."""

    def __init__(
        self, *, provider: str, api_base: str | None, api_key: str | None, max_results: int
    ) -> None:
        self._provider = provider
        self._api_base = api_base
        self._api_key = api_key
        self._max_results = max_results
        begin_asking(self)

    async def search(self, query: str, timeout_s: float) -> tuple[Hit, ...]:
        """See the port."""
        try:
            async with asyncio.timeout(timeout_s):
                litellm = await asyncio.wrap_future(start_import())
        except TimeoutError:
            raise _too_slow(self._provider, timeout_s) from None
        limit = asyncio.timeout(timeout_s)
        try:
            with no_lost_cancel():
                async with limit:
                    found = await litellm.asearch(
                        query=query,
                        search_provider=self._provider,
                        max_results=self._max_results,
                        api_key=self._api_key,
                        api_base=self._api_base,
                        timeout=timeout_s + 5,  # ours decides
                        num_retries=0,
                        max_retries=0,
                    )
        except failures(litellm) as error:
            if limit.expired():
                raise _too_slow(self._provider, timeout_s) from None
            known = classify(error, reading=False, started=False, secret=self._api_key)
            raise ToolFailure(f"{self._provider} did not answer: {known.message}") from None
        return tuple(map(_hit, found.results[: self._max_results]))

    async def aclose(self) -> None:
        """Let go of connections. Never raises; called once, last."""
        await done_asking(self)


def _too_slow(provider: str, timeout_s: float) -> ToolFailure:
    return ToolFailure(f"{provider} did not answer within {timeout_s:g} s")


def _hit(result: Any) -> Hit:
    return Hit(title=result.title, url=result.url, snippet=result.snippet, date=result.date)
