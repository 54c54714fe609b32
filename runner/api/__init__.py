"""The Python API: run tasks from a program of one's own.

Rules of this package: endings are values, exceptions say that the caller made a mistake; nothing
is printed, nobody exits, no signal handler is installed unless asked for. Runs live in one thread
of ours, which is there only while there are any, so the API works from any thread and beside any
event loop. Durations are seconds unless a name says otherwise, costs US dollars as `Decimal`.

What a host program sees of us all the same: once a model behind litellm is asked, that library is
imported with everything it brings, and three variables `LITELLM_*` stand in `os.environ` meanwhile,
without which it would read a `.env` and fetch files from the network.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack

from runner.adapters import specfile
from runner.adapters.journal import LogDamaged, SessionError
from runner.adapters.specfile import Override, SpecError
from runner.api.host_signals import heeded
from runner.api.result import Result
from runner.api.session import Session, Where
from runner.api.tools import Tool
from runner.core.spec import TaskSpec

__all__ = [
    "LogDamaged",
    "Result",
    "Session",
    "SessionError",
    "SpecError",
    "Tool",
    "load_spec",
    "run",
    "run_async",
]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def load_spec(
    source: str | Path | Mapping[str, Any],
    *,
    inputs: Mapping[str, str] = _NOTHING,
    overrides: Mapping[str, Any] = _NOTHING,
    needs_prompt: bool = True,
    tools: Sequence[Tool] = (),
) -> TaskSpec:
    """Load a task spec; nothing runs.

    `source` is the path of its file, or its keys. `inputs` are the texts of declared inputs, taken
    as they are. `overrides` sets keys, nested ones with dots: `{"max_turns": 20, "limits.tool":
    "10m"}`. Relative paths start at the file's folder; those in keys and overrides at the current
    one. Without `needs_prompt` the spec may leave it out, for a `Session` that is sent its prompts.
    Rules of the spec may name these `tools`; they are handed to `run` or the `Session`.

    Raises `SpecError`, whose `problems` are all that is wrong with the spec, each with its place;
    `TypeError` for a value that no spec can have.
    """
    keys = _json(source) if isinstance(source, Mapping) else None
    if keys is None and str(source) == "-":
        raise ValueError("a library reads no standard input: give a path, or the keys of the spec")
    return specfile.load_spec(
        "-" if isinstance(source, Mapping) else Path(source),
        inputs={name: _as_it_is(name, text) for name, text in inputs.items()},
        overrides=[
            Override(source="override", path=key, value=_json(value))
            for key, value in overrides.items()
        ],
        stdin=lambda: keys or "",
        called="spec",
        demand_prompt=needs_prompt,
        own_tools=[tool.name for tool in tools],
    )


def run(spec: TaskSpec, *, handle_signals: bool = False, **where: Unpack[Where]) -> Result:
    """Run a task to its ending, and wait for it.

    The other parameters are those of `Session`. With `handle_signals` SIGINT, SIGTERM and SIGHUP
    stop the run, and the result says so; after the first one the handlers of before are back.
    Without it a KeyboardInterrupt stops the run and is raised once nothing of it is alive.

    Raises `SessionError` when the session cannot be named or found, and `ValueError` when signals
    are to be handled outside the main thread. Every ending is a `Result`.
    """
    session = Session(spec, **where)
    if not handle_signals:
        return session.send_and_wait()
    with heeded(session.stop):
        return session.send_and_wait()


async def run_async(spec: TaskSpec, **where: Unpack[Where]) -> Result:
    """The same for a program with an event loop, which handles its signals itself.

    Cancelled: the run is stopped, and nothing of it is alive when this returns.
    """
    session = Session(spec, **where)
    waiting = asyncio.wrap_future(session.send())
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        session.abort()
        await waiting
        raise


def _as_it_is(name: str, text: object) -> str:
    """The text of an input, where a leading `@` would mean a file."""
    if not isinstance(text, str):
        raise TypeError(f"the input `{name}` is a text, not {type(text).__name__}")
    return f"@{text}" if text.startswith("@") else text


def _json(value: object) -> str:
    return json.dumps(value, default=_plain)


def _plain(value: object) -> str | float | dict[Any, Any]:
    """What JSON has no word for, as a spec has it."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is no value of a spec")
