"""Can this machine run a task: every check of a run, made without one."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.adapters import preflight, secret_values
from runner.adapters.journal import SESSIONS
from runner.adapters.sandbox import advice
from runner.adapters.sandbox.choice import Chosen
from runner.adapters.trees import remove_tree
from runner.adapters.workspace import WorkspaceError
from runner.app import boundary, custom_tools, mcp_outlook, project_agents
from runner.core.events import Check, SandboxReport
from runner.core.spec import TaskSpec, WorkspaceSpec

LEAST_FREE_BYTES = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found. `place` is the kind of machine; `sandbox` None when no home was writable."""

    checks: tuple[Check, ...]
    place: str
    sandbox: SandboxReport | None = None

    @property
    def ok(self) -> bool:
        """Whether a run would start."""
        return all(check.ok for check in self.checks)


def examine(
    spec: TaskSpec | None, home: Path, environ: Mapping[str, str] | None = None
) -> Findings:
    """Check the machine, for a task or for any. Commands run only to try the sandbox out."""
    known = dict(os.environ) if environ is None else environ
    checks = [*_home(home)]
    if spec is None:
        checks += [*preflight.machine_checks(known), _keys(known)]
    else:
        spec = project_agents.join(spec).spec
        checks += [*preflight.run_checks(spec, known), *secret_values.checks(spec, known)]
        checks += mcp_outlook.checks(mcp_outlook.plans(spec, known))
        checks += custom_tools.checks(spec, known)
    chosen = None
    if checks[0].ok:
        try:
            chosen = _sandbox(spec, home, known)
            checks.append(chosen.check)
        except WorkspaceError as error:
            checks.append(Check(name="sandbox", ok=False, detail=str(error)))
    return Findings(
        checks=tuple(checks),
        place=advice.place(known),
        sandbox=chosen.report if chosen else None,
    )


def _home(home: Path) -> list[Check]:
    sessions = home / SESSIONS
    try:
        sessions.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=sessions):
            pass
        free = shutil.disk_usage(sessions).free
    except OSError as error:
        detail = f"{sessions}: {error.strerror}; name another with --home or AUTOPILOT_HOME"
        return [Check(name="home", ok=False, detail=detail)]
    room = Check(name="disk", ok=free >= LEAST_FREE_BYTES, detail=f"{free / 1e9:.1f} GB free")
    return [Check(name="home", ok=True, detail=f"{home} can be written"), room]


def _keys(environ: Mapping[str, str]) -> Check:
    there = [name for name in preflight.PROVIDER_KEYS.values() if environ.get(name)]
    told = ", ".join(there) or "none set; a task's own key is checked with its spec"
    return Check(name="keys", ok=True, detail=told)


def _sandbox(spec: TaskSpec | None, home: Path, environ: Mapping[str, str]) -> Chosen:
    """Try the tiers as a run would, from a session folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=".doctor-", dir=home / SESSIONS))
    try:
        workspace = folder / "workspace" if spec is None else Path(spec.workspace.path)
        if spec is None:
            workspace.mkdir()
            any_task = WorkspaceSpec(path=str(workspace))
            spec = TaskSpec(name="doctor", prompt="-", model="-", workspace=any_task)
        return asyncio.run(_tried(spec, workspace, folder, environ))
    finally:
        remove_tree(folder)


async def _tried(
    spec: TaskSpec, workspace: Path, folder: Path, environ: Mapping[str, str]
) -> Chosen:
    chosen = await boundary.establish(spec, workspace, folder, environ)
    await boundary.clear(chosen, folder)
    return chosen
