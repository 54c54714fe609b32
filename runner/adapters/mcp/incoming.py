"""What comes from a server, on its way to the SDK: its end is noticed, some is left out."""

from __future__ import annotations

import asyncio
from typing import Any


class Watched:
    """A transport that says when nothing more will come."""

    def __init__(self, inner: Any, ended: asyncio.Event) -> None:
        self._inner = inner
        self._ended = ended

    async def __aenter__(self) -> Any:
        incoming, outgoing, *_ = await self._inner.__aenter__()
        return _Incoming(incoming, self._ended), outgoing

    async def __aexit__(self, *raised: object) -> bool | None:
        closed: bool | None = await self._inner.__aexit__(*raised)
        return closed


class _Incoming:
    """The messages of a server; its end is told to whoever owns the connection."""

    def __init__(self, stream: Any, ended: asyncio.Event) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        try:
            return _bare(await self._stream.__anext__())
        except StopAsyncIteration:
            self._ended.set()
            raise

    async def receive(self) -> Any:
        """One message. Raises what the stream raises."""
        import anyio  # noqa: PLC0415  # comes with the SDK, for specs with servers only

        try:
            return _bare(await self._stream.receive())
        except anyio.EndOfStream:
            self._ended.set()
            raise

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> Any:
        return await self._stream.__aexit__(*raised)


def _bare(item: Any) -> Any:
    """A message without the schemas of what tools answer.

    The SDK would compare each answer with them in this process, and an expression in a schema that
    strangers wrote can take for ever.
    """
    result = getattr(getattr(item, "message", None), "result", None)
    listed = result.get("tools") if isinstance(result, dict) else None
    for tool in listed if isinstance(listed, list) else ():
        if isinstance(tool, dict):
            tool.pop("outputSchema", None)
    return item
