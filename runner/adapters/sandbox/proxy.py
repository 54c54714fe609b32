"""The one way out of a sandbox with a list of hosts: an HTTP proxy in the runner.

Rules of this file: a name is resolved once, every address is checked, and what was checked is
what is connected to. Each connection carries one request to one host. Nobody outside of the
sandbox can call: the listening sockets are made inside and handed over through the door.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.adapters.resolve import Resolve, resolve
from runner.core import reach
from runner.core.reach import Address, Entry

MAX_HEAD_BYTES = 64 * 1024
MAX_DOORS = 64
MAX_CALLS = 128
"""How many connections may be open at once: each takes two of the descriptors the runner has."""

MAX_REMARKS = 20
SLOW_S = 30.0
CHUNK_BYTES = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Refusal(Exception):
    """A request is not let through; the message is what the client reads."""


class Proxy:
    """Answers HTTP requests and CONNECT for the hosts of a list, through the door at a path."""

    def __init__(self, entries: tuple[Entry, ...], resolve: Resolve | None = None) -> None:
        self._entries = entries
        self._resolve = resolve or _resolved
        self._door: socket.socket | None = None
        self._inside: dict[socket.socket, socket.socket | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: dict[str, None] = {}

    def open(self, path: Path) -> None:
        """Make the door. Raises `OSError`. Needs a running event loop."""
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # the path of a socket may have 107 bytes, and the folder's alone may have more
            door.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        path.chmod(0o600)
        door.listen(MAX_DOORS)
        door.setblocking(False)
        self._door = door
        asyncio.get_running_loop().add_reader(door, self._came)

    async def close(self) -> None:
        """Close the door and every connection."""
        loop = asyncio.get_running_loop()
        for holder in [*self._inside]:
            self._left(holder)
        if self._door is not None:
            loop.remove_reader(self._door)
            self._door.close()
        for task in [*self._tasks]:
            task.cancel()
        if self._tasks:
            await asyncio.wait([*self._tasks])

    def remarks(self) -> tuple[str, ...]:
        """What was refused since the last time, for whoever ran the command."""
        told, self._refused = tuple(self._refused), {}
        return told

    # -- the door ----------------------------------------------------------------------------------

    def _came(self) -> None:
        """A sandbox starts: it will hand over a socket that listens inside."""
        assert self._door is not None
        with suppress(OSError):
            holder, _ = self._door.accept()
            if len(self._inside) >= MAX_DOORS:
                holder.close()
                return
            holder.setblocking(False)
            self._inside[holder] = None
            asyncio.get_running_loop().add_reader(holder, self._handed, holder)

    def _handed(self, holder: socket.socket) -> None:
        """The socket came, or the last process that held the connection is gone."""
        descriptors: list[int] = []
        with suppress(OSError):
            _, descriptors, _, _ = socket.recv_fds(holder, 1, 1)
        if not descriptors or self._inside[holder] is not None:
            for descriptor in descriptors:
                os.close(descriptor)
            self._left(holder)
            return
        listener = socket.socket(fileno=descriptors[0])
        if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) != 1:
            listener.close()
            self._left(holder)
            return
        listener.setblocking(False)
        self._inside[holder] = listener
        asyncio.get_running_loop().add_reader(listener, self._called, listener)

    def _left(self, holder: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(holder)
        holder.close()
        listener = self._inside.pop(holder)
        if listener is not None:
            loop.remove_reader(listener)
            listener.close()

    def _called(self, listener: socket.socket) -> None:
        with suppress(OSError):
            caller, _ = listener.accept()
            if len(self._tasks) >= MAX_CALLS:
                caller.close()
                self._remark(f"the sandbox refused more than {MAX_CALLS} connections at once")
                return
            caller.setblocking(False)
            self._spawn(self._serve(caller))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- one request -------------------------------------------------------------------------------

    async def _serve(self, caller: socket.socket) -> None:
        inner = await asyncio.open_connection(sock=caller, limit=MAX_HEAD_BYTES)
        try:
            outer, first, answer = await self._let_through(inner[0])
            try:
                inner[1].write(answer)
                outer[1].write(first)
                await _relay(inner, outer)
            finally:
                outer[1].close()
        except Refusal as refusal:
            inner[1].write(_answer("403 Forbidden", str(refusal)))
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            # One of the two is gone, or never spoke HTTP; a timeout is an OSError too.
            inner[1].write(_answer("502 Bad Gateway", f"no connection: {str(error) or 'too slow'}"))
        finally:
            inner[1].close()

    async def _let_through(self, reader: asyncio.StreamReader) -> tuple[Streams, bytes, bytes]:
        """The connection out, what is said on it first, and what the caller is told first."""
        async with asyncio.timeout(SLOW_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *headers = head.removesuffix("\r\n\r\n").split("\r\n")
        match line.split(" "):
            case ["CONNECT", authority, _]:
                streams = await self._connection(*_split(authority, None))
                return streams, b"", b"HTTP/1.1 200 Connection established\r\n\r\n"
            case [method, target, _] if found := re.fullmatch(
                r"http://([^/?#@\s]+)([/?]\S*)?", target
            ):
                authority, path = found[1], found[2] or "/"
                streams = await self._connection(*_split(authority, 80))
                path = path if path.startswith("/") else f"/{path}"
                kept = [one for one in headers if not _HOP.match(one)]
                lines = [f"{method} {path} HTTP/1.1", f"Host: {authority}", *kept]
                first = "\r\n".join([*lines, "Connection: close", "", ""])
                return streams, first.encode("latin-1"), b""
        raise self._refusal("a request that is neither CONNECT nor plain HTTP")

    async def _connection(self, host_text: str, port: int) -> Streams:
        host = reach.host_of(host_text)
        shown = f"{host_text[:100]!a}, port {port}".replace("'", "")
        if host is None or not reach.may_ask(self._entries, host, port):
            raise self._refusal(f"{shown}: not in `sandbox.network`")
        async with asyncio.timeout(SLOW_S):
            found = [host] if not isinstance(host, str) else await self._resolve(host, port)
        fit = [one for one in found if reach.may_connect(self._entries, one, port)]
        if not fit:
            raise self._refusal(f"{shown}: its address is not public, and not listed itself")
        for address in fit[:-1]:
            with suppress(OSError, TimeoutError):
                return await _connected(address, port)
        return await _connected(fit[-1], port)

    def _refusal(self, what: str) -> Refusal:
        self._remark(f"the sandbox refused a connection to {what}")
        return Refusal(f"the sandbox refused this: {what}")

    def _remark(self, text: str) -> None:
        if len(self._refused) < MAX_REMARKS:
            self._refused[text] = None


_HOP = re.compile(r"(proxy-[^:]*|connection|keep-alive|host)\s*:", re.IGNORECASE)


def _split(authority: str, usual: int | None) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?", authority)
    if found is None or (found[2] is None and usual is None):
        raise Refusal(f"the sandbox refused this: {authority[:100]!a} names no host and port")
    return found[1], int(found[2] or usual or 0)


def _answer(status: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _connected(address: Address, port: int) -> Streams:
    async with asyncio.timeout(SLOW_S):
        return await asyncio.open_connection(str(address), port)


async def _resolved(name: str, port: int) -> Iterable[Address]:
    try:
        return await resolve(name, port)
    except socket.gaierror as error:
        raise Refusal(f"{name}: {error.strerror}") from error


async def _relay(inner: Streams, outer: Streams) -> None:
    async with asyncio.TaskGroup() as both:
        both.create_task(_copy(inner[0], outer[1]))
        both.create_task(_copy(outer[0], inner[1]))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(CHUNK_BYTES):
            target.write(chunk)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
