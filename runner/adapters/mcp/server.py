"""One server: a task of its own that connects to it, keeps it, and connects again when it is lost.

Rules of this file: only the owning task opens and closes the connection; calls come from anywhere.
A call is made once: what became of one that was under way when the server went is not known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from runner import __version__
from runner.adapters.mcp.content import how_far, text_of
from runner.adapters.mcp.failure import answered, is_end, of_a_server, of_the_wire, reason
from runner.adapters.mcp.listing import Listing, full_name, listing, plain
from runner.adapters.mcp.stdio import Program, said_last
from runner.adapters.mcp.transport import transport
from runner.adapters.sandbox.walls import Enclosure
from runner.core.events import McpStatus
from runner.core.spec import McpServerSpec
from runner.ports import ToolContext, ToolFailure, ToolOutput

MAX_RECONNECTS = 3
"""How often in a run a lost server is connected to again."""

BACKOFF_S = 0.5
"""The wait before the first of them; it doubles."""

MAX_INSTRUCTIONS_BYTES = 2048

MAX_PAGES = 50
"""How many pages of its tools a server may have."""

PROGRESS_S = 0.1
"""How often a call's progress is shown at most, however often the server tells it."""

Status = Literal["pending", "connected", "failed", "needs-auth"]


@dataclass(slots=True, kw_only=True)
class Server:
    """A server of the spec, with the variables filled in.

    `program` is what to start for one that runs here. `tell` is told what a person should know:
    the type of a warning, its text, and how things stand with the server when that is new. `first`
    is what the server had when the run began, and `gone` why some of it must not be called any
    more.
    """

    name: str
    spec: McpServerSpec
    start_s: float
    tell: Callable[[str, str, McpStatus | None], None]
    program: Program | None = None
    enclosure: Enclosure | None = None
    status: Status = "pending"
    problem: str | None = None
    instructions: str = ""
    version: str = ""
    first: Listing | None = None
    gone: dict[str, str] = field(default_factory=dict)
    _client: Any = None
    _refused: int | None = None
    _settled: asyncio.Event = field(default_factory=asyncio.Event)
    _lost: asyncio.Event = field(default_factory=asyncio.Event)
    _up: asyncio.Event = field(default_factory=asyncio.Event)
    _told_of_change: asyncio.Event = field(default_factory=asyncio.Event)
    _compared: asyncio.Event = field(default_factory=asyncio.Event)

    async def own(self) -> None:
        """Connect and stay, until cancelled or lost too often. Raises nothing else."""
        problem = ""
        for attempt in range(1 + MAX_RECONNECTS):
            if attempt:
                await asyncio.sleep(BACKOFF_S * 2 ** (attempt - 1))
            problem = await self._live()
            self._up.clear()
            if self.first is None:  # it never was there: a second try would only cost time
                break
            self.tell("mcp_server_lost", f"the MCP server {self.name} is lost: {problem}", "failed")
        self.status, self.problem = "needs-auth" if self._asks() else "failed", problem
        self._settled.set()
        self._up.set()

    async def settled(self) -> None:
        """Wait until it is known whether the server is there."""
        await self._settled.wait()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolOutput:
        """Call `tool`, by the server's name for it; its answer, not cut.

        Raises `ToolFailure`; `TimeoutError` when the time of the context is up.
        """
        import mcp  # noqa: PLC0415  # takes a second to load: for specs with servers only

        now, told = asyncio.get_running_loop().time, 0.0

        async def progress(done: float, total: float | None, message: str | None) -> None:
            nonlocal told
            if now() - told >= PROGRESS_S:
                told = now()
                context.on_status(how_far(done, total, message))

        async with asyncio.timeout(context.timeout_s):
            await self._up.wait()
            await self._compared.wait()
            if (why := self.gone.get(full_name(self.name, tool))) is not None:
                raise ToolFailure(f"{tool} of {self.name} cannot be called any more: {why}")
            if self._client is None:
                raise ToolFailure(f"the MCP server {self.name} is not there: {self.problem}")
            try:
                result = await self._client.call_tool(
                    tool,
                    dict(arguments),
                    read_timeout_seconds=context.timeout_s + 1,  # ours comes first
                    progress_callback=progress,
                )
            except mcp.MCPError as error:
                raise ToolFailure(self._failure(error)) from None
            except of_the_wire() as error:
                self._lost.set()
                raise ToolFailure(self._unknown(reason(error))) from None
            except of_a_server() as error:
                raise ToolFailure(self._unknown(reason(error))) from None
        said: Mapping[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return ToolOutput(content=text_of(said), is_error=said.get("isError") is True)

    async def _live(self) -> str:
        """One connection from its beginning to its end, and why it ended."""
        problem = "it ended" if self.program else "the connection broke"
        self._refused = None
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(self.start_s):
                        client = await stack.enter_async_context(self._connect())
                        found = await self._tools(client)
                except TimeoutError:
                    return f"it was not ready within {self.start_s:g} s (`limits.mcp_start`)"
                self._begin(client, found)
                try:
                    await self._stay(client)
                finally:
                    self._client = None
                    self._up.clear()
        except* of_a_server() as errors:
            problem = self._why(errors)
        return problem + (said_last(self.program.log) if self.program else "")

    async def _stay(self, client: Any) -> None:
        """Until it is lost; its list of tools is looked at again whenever it says so."""
        async with asyncio.TaskGroup() as watch:
            watchers = [
                watch.create_task(self._listen(client)),
                watch.create_task(self._look_again(client)),
            ]
            try:
                await self._lost.wait()
            finally:
                for watcher in watchers:
                    watcher.cancel()

    def _why(self, error: BaseException) -> str:
        """The SDK says of a status only that it is none of success."""
        return reason(error) if self._refused is None else answered(self._refused)

    def _asks(self) -> bool:
        return self._refused in (401, 403)

    def _note(self, status: int) -> None:
        """What an address answered. Others than these belong to finding out what it speaks."""
        if self.first is None and (status < 400 or status in (401, 403) or status >= 500):
            self._refused = status

    async def _listen(self, client: Any) -> None:
        """Of servers of the newer protocol; the older one sends a notification."""
        import mcp  # noqa: PLC0415  # as above
        from mcp.client.subscriptions import (  # noqa: PLC0415
            ListenNotSupportedError,
            SubscriptionLost,
        )

        with suppress(ListenNotSupportedError, SubscriptionLost, mcp.MCPError):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._note_change()

    def _note_change(self) -> None:
        self._compared.clear()
        self._told_of_change.set()

    async def _look_again(self, client: Any) -> None:
        while True:
            await self._told_of_change.wait()
            self._told_of_change.clear()
            try:
                async with asyncio.timeout(self.start_s):
                    self._compare(await self._tools(client))
            except* of_a_server():  # it cannot be trusted to be what it was
                self._lost.set()

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Any]:
        import mcp_types  # noqa: PLC0415  # as above
        from mcp import Client  # noqa: PLC0415

        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what matters comes as an error
        self._lost.clear()
        self._told_of_change.clear()
        self._compared.set()

        async def listen(message: Any) -> None:
            if isinstance(message, mcp_types.ToolListChangedNotification):
                self._note_change()

        async with transport(self.spec, self.program, self.start_s, self._lost, self._note) as wire:
            client = Client(
                wire,
                client_info=mcp_types.Implementation(name="autopilot-runner", version=__version__),
                message_handler=listen,
                cache=None,
            )
            async with client:
                yield client

    async def _tools(self, client: Any) -> Listing:
        said: list[Mapping[str, Any]] = []
        cursor = None
        more: tuple[str, ...] = ()
        if client.server_capabilities.tools is None:
            return Listing()
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            said += [tool.model_dump(by_alias=True, mode="json") for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            more = (f"it has more than {MAX_PAGES} pages of tools; the rest is left out",)
        found = listing(self.name, said, self.spec.tools)
        return replace(found, left_out=(*found.left_out, *more))

    def _begin(self, client: Any, found: Listing) -> None:
        self._client = client
        if self.first is None:
            self.first = found
            self.instructions = plain(client.instructions or "", MAX_INSTRUCTIONS_BYTES)
            self.version = client.server_info.version if client.server_info else ""
            for line in found.left_out:
                self.tell("mcp_tool_left_out", f"MCP server {self.name}: {line}", None)
        else:
            self.tell("mcp_server_back", f"the MCP server {self.name} is there again", "connected")
            self._compare(found)
        self.status = "connected"
        self._settled.set()
        self._up.set()

    def _compare(self, found: Listing) -> None:
        """A tool that is not what it was when the run began is not called any more."""
        now = {tool.spec.name: tool.sha256 for tool in found.tools}
        for tool in self.first.tools if self.first else ():
            if tool.spec.name in self.gone or now.get(tool.spec.name) == tool.sha256:
                continue
            what = "changed" if tool.spec.name in now else "is gone"
            self.gone[tool.spec.name] = f"the server says that it {what} since the run began"
            text = f"{tool.spec.name} {what} since the run began: it is not called any more"
            self.tell("mcp_tool_withdrawn", text, None)
        self._compared.set()

    def _failure(self, error: Any) -> str:
        if not is_end(error):
            return f"the MCP server {self.name} says: {plain(str(error), 4000)}"
        self._lost.set()
        return self._unknown("it went while the call was under way")

    def _unknown(self, why: str) -> str:
        return f"the MCP server {self.name}: {why}; whether the call had its effect is not known"
