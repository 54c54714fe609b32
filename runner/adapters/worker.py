"""Run a program of ours on a text by strangers, in bounded time, and leave nothing alive."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path


async def work(program: Path, *arguments: str, feed: bytes, limit_s: float) -> bytes | None:
    """What it wrote to stdout; None when it failed or took too long.

    It sees no environment of the runner's. Cancelled: nothing stays alive.
    """
    process = await asyncio.create_subprocess_exec(  # noqa: TID251 - not a tool, no sandbox
        sys.executable,
        "-I",
        str(program),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"LC_ALL": "C.UTF-8"},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            answer, _ = await process.communicate(feed)
        return answer if process.returncode == 0 else None
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
