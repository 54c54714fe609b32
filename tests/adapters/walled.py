"""A workspace behind real walls, for the tests of the sandbox; skips where there are none."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from runner.adapters.local import LocalSandbox
from runner.adapters.sandbox import bubblewrap, canaries, landlock
from runner.adapters.sandbox.walls import Enclosure, Walls, hidden_places, nothing_to_remark
from runner.core.events import Canary
from runner.ports import ExecRequest, ExecResult

OUTER = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
PYTHON = tuple(Path(os.path.realpath(path)) for path in (sys.prefix, sys.base_prefix))


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A folder with a workspace, a home of sessions and one session in it."""

    folder: Path
    environ: Mapping[str, str] = field(default_factory=lambda: OUTER)

    @property
    def workspace(self) -> Path:
        """Where commands work."""
        return self.folder / "work"

    @property
    def session(self) -> Path:
        """What commands must not reach."""
        return self.folder / "sessions" / "one"

    def walls(self, **changes: Any) -> Walls:
        """The walls of this site, its folders made."""
        self.workspace.mkdir(exist_ok=True)
        (self.session / "tmp").mkdir(parents=True, exist_ok=True)
        walls = Walls(
            writable=(self.workspace,),
            temp=self.session / "tmp",
            readable=PYTHON,
            hidden=hidden_places(self.environ, self.session.parent),
        )
        return replace(walls, **changes)

    def enclosure(
        self, tier: str, remarks: Callable[[], tuple[str, ...]] = nothing_to_remark, **changes: Any
    ) -> Enclosure:
        """The enclosure of a tier around this site."""
        walls = self.walls(**changes)
        if tier == "namespaces":
            file = self.session / "filter"
            bubblewrap.write_filter(file)
            program = shutil.which("bwrap")
            assert program is not None
            return bubblewrap.Bubblewrap(
                program=program, walls=walls, filter_file=file, remarks=remarks
            )
        file = self.session / "rules"
        landlock.write_rules(file, walls, landlock.version())
        return landlock.Landlock(walls=walls, rules_file=file)

    def canaries(self, tier: str, **changes: Any) -> dict[str, Canary]:
        """What comes of trying to get out."""
        made, walls = self.enclosure(tier, **changes), self.walls(**changes)
        found = asyncio.run(canaries.release(made, walls, env=OUTER, outer=dict(os.environ)))
        return {one.name: one for one in found}

    def run(self, tier: str, script: str, **changes: Any) -> ExecResult:
        """A bash script inside."""
        return asyncio.run(self.start(self.enclosure(tier, **changes), script))

    async def start(
        self, enclosure: Enclosure, script: str, *, timeout_s: float = 20
    ) -> ExecResult:
        """A bash script inside, in a running loop."""
        request = ExecRequest(
            argv=("bash", "-c", script),
            cwd=self.workspace,
            timeout_s=timeout_s,
            max_output_bytes=20_000,
            env=OUTER,
        )
        return await LocalSandbox(enclosure=enclosure).exec(request, lambda text: None)


def need(tier: str) -> None:
    """Skip where the tier cannot be had, with the reason. In CI that is a failure."""
    if (why := _missing(tier)) is not None:
        pytest.skip(f"this machine has no {tier} for us: {why}")


@cache
def _missing(tier: str) -> str | None:
    if tier == "landlock":
        kernel = landlock.version()
        return None if kernel >= landlock.SCOPED_VERSION else f"Landlock {kernel}"
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    argv = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()
