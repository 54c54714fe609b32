"""The sandbox of one run: its walls, the tier that was proved, and the proxy it may call."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from runner.adapters import preflight
from runner.adapters.sandbox.choice import Chosen, choose
from runner.adapters.sandbox.proxy import Proxy
from runner.adapters.sandbox.walls import Walls, hidden_places, nothing_to_remark
from runner.adapters.trees import remove_tree
from runner.adapters.workspace import WorkspaceError
from runner.app import wiring
from runner.core import reach
from runner.core.events import Check
from runner.core.spec import SandboxSpec, TaskSpec

TEMP = "tmp"
"""The run's own folder for temporary files, in the session's; gone at its end."""
DOOR = "proxy.sock"
"""Where sandboxes reach the proxy of a run with a list of hosts."""


async def establish(
    spec: TaskSpec,
    workspace: Path,
    session: Path,
    environ: Mapping[str, str],
    protected: Callable[[], Iterable[Path]] = tuple,
) -> Chosen:
    """Put up walls around `workspace` and prove them.

    `environ` is the runner's own; `protected` lists what may not be written although it is inside.
    Raises `WorkspaceError` when the proxy that a list of hosts needs cannot be had.
    """
    walls = await asyncio.to_thread(_walls, spec, workspace, session, environ, protected)
    env = wiring.tool_environment(spec, environ)
    proxy = None
    if walls.door is not None:
        proxy = Proxy(reach.parse(spec.sandbox.hosts))
        try:
            proxy.open(walls.door)
        except OSError as error:
            message = f"the proxy for `sandbox.network` cannot listen: {error}"
            raise WorkspaceError(message) from error
    remarks = proxy.remarks if proxy else nothing_to_remark
    chosen = await choose(spec.sandbox, walls, session, env=env, outer=environ, remarks=remarks)
    await asyncio.to_thread(_empty, walls.temp)  # of what the canaries left there
    if chosen.check.ok and chosen.enclosure is None and not preflight.may_be_unwalled(spec):
        refused = Check(name="sandbox", ok=False, detail=preflight.BYPASS_REFUSED)
        chosen = replace(chosen, check=refused)
    return replace(chosen, proxy=proxy)


async def clear(where: Chosen | None, session: Path) -> None:
    """Close the way out and remove the temporary files of a run that is over."""
    if where is not None and where.proxy is not None:
        await where.proxy.close()
    with suppress(OSError):
        (session / DOOR).unlink(missing_ok=True)
        remove_tree(session / TEMP)


def _empty(folder: Path) -> None:
    remove_tree(folder)
    folder.mkdir(mode=0o700)


def _walls(
    spec: TaskSpec,
    workspace: Path,
    session: Path,
    environ: Mapping[str, str],
    protected: Callable[[], Iterable[Path]],
) -> Walls:
    (session / TEMP).mkdir(mode=0o700, exist_ok=True)
    session = session.resolve()
    writable = (workspace.resolve(), *(Path(path).resolve() for path in spec.add_dirs))
    network = _network(spec.sandbox)
    with suppress(OSError):  # of a run that was killed
        (session / DOOR).unlink()
    return Walls(
        writable=writable,
        temp=session / TEMP,
        readable=(session / "files", session / "events.jsonl", *_own_prefixes(writable)),
        read_only=tuple(path for path in protected() if path.exists() and not path.is_symlink()),
        hidden=tuple(
            place
            for place in hidden_places(environ, session.parent, writable)
            if place not in writable
        ),
        network=network,
        door=session / DOOR if network == "hosts" else None,
    )


def _own_prefixes(writable: tuple[Path, ...]) -> tuple[Path, ...]:
    """Where this Python is: it starts the commands of some tiers, and may lie in a hidden place."""
    prefixes = {Path(os.path.realpath(path)) for path in (sys.prefix, sys.base_prefix)}
    inside = (p for p in prefixes if not any(p.is_relative_to(root) for root in writable))
    return tuple(sorted(inside))


def _network(spec: SandboxSpec) -> Literal["deny", "allow", "hosts"]:
    if spec.hosts:
        return "hosts"
    return "allow" if spec.network == ("allow",) else "deny"
