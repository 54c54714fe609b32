"""Compare an object with a JSON Schema, in bounded time whatever the two are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.core import wire

WORKER = str(Path(__file__).with_name("output_worker.py"))
LIMIT_S = 15.0


async def output_errors(schema: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[str, ...]:
    """What of the object does not fit; nothing when it does.

    What could not be compared in time does not fit. Cancelled: nothing stays alive.
    """
    asked = json.dumps({"schema": wire.encode(schema), "value": wire.encode(value)})
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        WORKER,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"LC_ALL": "C.UTF-8"},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            answer, _ = await process.communicate(asked.encode())
        return tuple(json.loads(answer)) if process.returncode == 0 else (_GAVE_UP,)
    except TimeoutError:
        return (_GAVE_UP,)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


_GAVE_UP = "the object could not be compared with the schema within the limits of time and memory"
