"""The wire to a server that runs here: a process, one JSON message a line, its stderr to a file.

The SDK has a transport of its own for this. This one starts the process behind the run's walls,
with exactly the given environment, and bounds what the server may send without an end of line.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.adapters import rlimits
from runner.adapters.ci_text import visible
from runner.adapters.sandbox.walls import Enclosure, Launch

if TYPE_CHECKING:
    from asyncio.subprocess import Process

MAX_LINE_BYTES = 16 * 1024 * 1024
"""The longest message that is taken; one that is longer ends the connection."""

MAX_STDERR_BYTES = 1024 * 1024
"""How much of a server's stderr is kept; the rest is read and dropped, so that it never blocks."""

CLOSE_S = 2.0
"""How long a server may take to end once its stdin is closed, and again once it was asked to."""

CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to start. `log` takes its stderr, through `mask`."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    enclosure: Enclosure | None = None
    mask: Callable[[bytes], bytes] = bytes


@asynccontextmanager
async def stdio(program: Program) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams of messages that a client of the SDK works with.

    Raises `OSError` when the program cannot be started. On leaving it, and whatever it started in
    its session, has ended.
    """
    import anyio  # noqa: PLC0415  # comes with the SDK, which is loaded for servers only

    process = await _start(program)
    received, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, to_send = anyio.create_memory_object_stream[Any](0)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = (
                tasks.create_task(_receive(process, received)),
                tasks.create_task(_send(process, to_send, received)),
                tasks.create_task(_keep_stderr(process, program)),
            )
            try:
                yield incoming, outgoing
            finally:
                for stream in (incoming, outgoing, received, to_send):
                    stream.close()
                for task in running:
                    task.cancel()
    finally:
        await _end(process)


async def _start(program: Program) -> Process:
    launch = Launch(argv=program.argv, env=program.env)
    if program.enclosure is not None:
        launch = program.enclosure.launch(program.argv, program.env, program.cwd)
    with rlimits.lowered(program.cwd) as limits:
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            cwd=program.cwd,
            env=dict(launch.env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            limit=MAX_LINE_BYTES,
        )
    rlimits.bind(process.pid, limits)
    return process


def said_last(log: Path) -> str:
    """The line of a server's stderr that says most about its end, for the end of a sentence."""
    with suppress(OSError):
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
        telling = [line for line in lines if re.match(r"[A-Za-z.]*(Error|error|Exception)\b", line)]
        last = [line for line in lines if line]
        if last:
            return f"; its stderr says: {visible((telling or last)[-1][:300])} (all of it: {log})"
    return ""


async def _receive(process: Process, received: Any) -> None:
    """Every line is a message; what is none is passed on as the error it is."""
    import anyio  # noqa: PLC0415  # as above
    import mcp_types  # noqa: PLC0415
    from mcp.shared.message import SessionMessage  # noqa: PLC0415

    assert process.stdout is not None
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with received:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:  # where the next one begins is unknown
                    _signal(process, signal.SIGKILL)  # it is writing still, and would not hear
                    limit = MAX_LINE_BYTES // 1024 // 1024
                    raise ConnectionError(f"it sent a message longer than {limit} MiB") from None
                if not line:
                    return
                if not line.strip():
                    continue
                try:
                    text = line.decode("utf-8", errors="replace")
                    message = mcp_types.jsonrpc_message_adapter.validate_json(text, by_name=False)
                except (ValueError, RecursionError) as error:
                    await received.send(error if isinstance(error, ValueError) else ValueError())
                    continue
                await received.send(SessionMessage(message))


async def _send(process: Process, to_send: Any, received: Any) -> None:
    assert process.stdin is not None
    try:
        async with to_send:
            async for message in to_send:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except OSError:  # nobody reads any more: a request would wait for ever
        received.close()


async def _keep_stderr(process: Process, program: Program) -> None:
    """The first megabyte, without secrets. A file that cannot be written loses it."""
    assert process.stderr is not None
    left = MAX_STDERR_BYTES
    with suppress(OSError), program.log.open("ab", buffering=0) as file:
        while line := await _piece(process.stderr):
            kept = program.mask(line)[:left]
            left -= len(kept)
            file.write(kept)
    while await process.stderr.read(CHUNK_BYTES):
        pass


async def _piece(stderr: asyncio.StreamReader) -> bytes:
    """A line, so that no secret is cut in two; a very long one in pieces."""
    try:
        return await stderr.readline()
    except ValueError:
        return await stderr.read(CHUNK_BYTES)


async def _end(process: Process) -> None:
    """Close its stdin, ask, kill: the order that the protocol asks for. Survives a cancellation."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await process.wait()
                return
        _signal(process, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await process.wait()
    finally:
        _signal(process, signal.SIGKILL)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    """To the whole session: a package runner starts the server as its child."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
