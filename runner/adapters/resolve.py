"""Look a name up, once, in a thread that a run which ends meanwhile need not wait for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address

from runner.adapters.daemon_thread import in_daemon_thread
from runner.core.reach import Address

Resolve = Callable[[str, int], Awaitable[Iterable[Address]]]
"""From a name and a port to its addresses, in the order to try them. Raises `OSError`."""


async def resolve(name: str, port: int) -> list[Address]:
    """The addresses of a name as the system knows them. Raises `OSError`."""
    looked_up = in_daemon_thread(
        lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM), f"resolve-{name}"
    )
    found = await asyncio.wrap_future(looked_up)
    return [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
