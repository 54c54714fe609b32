"""The Python API: run tasks from a program of one's own.

Rules of this package: endings are values, exceptions say that the caller made a mistake; nothing
is printed, nobody exits, no signal handler is installed unless asked for. Runs live in one thread
of ours, which is there only while there are any, so the API works from any thread and beside any
event loop. Durations are seconds unless a name says otherwise, costs US dollars as `Decimal`.

What a host program sees of us all the same: once a model behind litellm is asked, that library is
imported with everything it brings, under three variables `LITELLM_*` in `os.environ`, without
which it would read a `.env` and fetch files from the network.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runner.adapters import specfile
from runner.adapters.journal import LogDamaged, SessionError
from runner.adapters.specfile import Override, SpecError
from runner.api.host_signals import heeded
from runner.api.result import Result
from runner.api.session import OnEvent, Session
from runner.core.spec import TaskSpec

__all__ = [
    "LogDamaged",
    "Result",
    "Session",
    "SessionError",
    "SpecError",
    "load_spec",
    "run",
    "run_async",
]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def load_spec(
    path: str | Path,
    *,
    inputs: Mapping[str, str] = _NOTHING,
    overrides: Mapping[str, Any] = _NOTHING,
) -> TaskSpec:
    """Load a task spec; nothing runs.

    `inputs` are the texts of declared inputs, taken as they are. `overrides` sets keys, nested
    ones with dots: `{"max_turns": 20, "limits.tool": "10m"}`; relative paths in them start at the
    current folder.

    Raises `SpecError`, whose `problems` are all that is wrong with the spec, each with its place.
    """
    texts = {name: f"@{text}" if text.startswith("@") else text for name, text in inputs.items()}
    return specfile.load_spec(
        Path(path),
        inputs=texts,
        overrides=[
            Override(source="override", path=key, value=json.dumps(value, default=_plain))
            for key, value in overrides.items()
        ],
        stdin=str,  # a library reads no standard input
    )


def run(
    spec: TaskSpec,
    *,
    home: str | Path | None = None,
    session_id: str | None = None,
    resume: str | None = None,
    fork: bool = False,
    artifacts: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    on_event: OnEvent | None = None,
    handle_signals: bool = False,
) -> Result:
    """Run a task to its ending, and wait for it.

    The parameters are those of `Session`. With `handle_signals` SIGINT, SIGTERM and SIGHUP stop
    the run, and the result says so; after the first one the handlers of before are back. Without
    it a KeyboardInterrupt stops the run and is raised once nothing of it is alive.

    Raises `SessionError` when the session cannot be named or found, and `ValueError` when signals
    are to be handled outside the main thread. Every ending is a `Result`.
    """
    session = Session(
        spec,
        home=home,
        session_id=session_id,
        resume=resume,
        fork=fork,
        artifacts=artifacts,
        environ=environ,
        on_event=on_event,
    )
    if not handle_signals:
        return session.send_and_wait()
    with heeded(session.stop):
        return session.send_and_wait()


async def run_async(spec: TaskSpec, **options: Any) -> Result:
    """The same for a program with an event loop; `options` are those of `run`, without
    `handle_signals`.

    Cancelled: the run is stopped, and nothing of it is alive when this returns.
    """
    session = Session(spec, **options)
    waiting = asyncio.wrap_future(session.send())
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        session.abort()
        await waiting
        raise


def _plain(value: object) -> str | float:
    """What JSON has no word for, as the text of a spec."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no value of a spec")
