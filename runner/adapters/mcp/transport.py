"""The wire to a server: a program here, streamable HTTP, or the older SSE."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from runner.adapters.mcp.incoming import Watched
from runner.adapters.mcp.stdio import Program, stdio
from runner.core.spec import McpServerSpec

if TYPE_CHECKING:
    import httpx2


@asynccontextmanager
async def transport(
    spec: McpServerSpec, program: Program | None, start_s: float, ended: asyncio.Event
) -> AsyncIterator[Watched]:
    """Something that the SDK's client can enter; `ended` is set when nothing more will come.

    Proxies that the environment names are not used. Redirects are followed by the SDK, and only
    where they stay at the same origin.
    """
    if program is not None:
        yield Watched(stdio(program), ended)
        return
    import httpx2  # noqa: PLC0415  # comes with the SDK, for specs with servers only
    from mcp.client.sse import sse_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    assert spec.url is not None  # the spec's reader saw to it
    if spec.type == "sse":
        headers = dict(spec.headers)
        yield Watched(sse_client(spec.url, headers, httpx_client_factory=_client), ended)
        return
    async with _client(dict(spec.headers), httpx2.Timeout(start_s, read=None)) as http:
        yield Watched(streamable_http_client(spec.url, http_client=http), ended)


def _client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    import httpx2  # noqa: PLC0415  # as above

    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, trust_env=False)
