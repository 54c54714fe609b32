"""The wire to a server: a program here, streamable HTTP, or the older SSE."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from runner.adapters.mcp.incoming import Watched
from runner.adapters.mcp.stdio import Program, stdio
from runner.core.spec import McpServerSpec


@asynccontextmanager
async def transport(
    spec: McpServerSpec,
    program: Program | None,
    start_s: float,
    ended: asyncio.Event,
    note: Callable[[int], None],
) -> AsyncIterator[Watched]:
    """Something that the SDK's client can enter; `ended` is set when nothing more will come.

    `note` is told each status of HTTP that is no success.
    """
    if program is not None:
        yield Watched(stdio(program), ended)
        return
    import httpx2  # noqa: PLC0415  # comes with the SDK, for specs with servers only
    from mcp.client.sse import sse_client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    from runner.adapters.mcp import http  # noqa: PLC0415  # as above

    assert spec.url is not None  # the spec's reader saw to it
    client, headers = partial(http.client, note), dict(spec.headers)
    if spec.type == "sse":
        yield Watched(sse_client(spec.url, headers, httpx_client_factory=client), ended)
        return
    async with client(headers, httpx2.Timeout(start_s, read=None)) as caller:
        yield Watched(streamable_http_client(spec.url, http_client=caller), ended)
