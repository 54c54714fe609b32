"""The folder the tools work in, and what the run changed in it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.adapters import snapshot, workspace
from runner.adapters.workspace_diff import diff_json
from runner.core.spec import TaskSpec

COPY = "workspace"
"""Where a session keeps its copy of the workspace."""


class Worksite:
    """The workspace of one session; `path` is where tools work, once it is prepared.

    `problem` says why there is no diff, until somebody was told; `phase`, what the start-up does.
    """

    def __init__(self, spec: TaskSpec, *, folder: Path, home: Path, search_path: str) -> None:
        self._copy = folder / COPY
        self._isolation = spec.workspace.isolation
        self._has_copy = self._isolation == "copy" and self._copy.is_dir()
        self.path = self._copy.resolve() if self._has_copy else Path(spec.workspace.path)
        self.problem: str | None = None
        self.phase = "checks"
        self._limit_s = spec.limits.start
        self._folder = folder
        self._home = home
        self._search_path = search_path
        self._baseline: snapshot.Snapshot | None = None

    async def prepare(self) -> None:
        """Make the workspace, or find the one an earlier run of the session made.

        Raises `WorkspaceError`. The first state of it is kept, so that the diff is the session's.
        """
        if not self._has_copy:
            self.phase = "workspace"
            self.path = await self._made()
        self.phase = "snapshot"
        known = snapshot.reopen(self._folder / "git")
        if isinstance(known, snapshot.Snapshot):
            whole = known.checkout == known.workspace
            checkout = self.path if whole else known.checkout
            self._baseline = replace(known, workspace=self.path, checkout=checkout)
            return
        taken = await snapshot.take(
            self._folder / "git",
            self.path,
            excluded=(self._home,),
            timeout_s=self._limit_s,
            search_path=self._search_path,
        )
        if isinstance(taken, snapshot.Unavailable):
            self.problem = taken.reason
        else:
            self._baseline = taken

    async def _made(self) -> Path:
        stop = threading.Event()  # a thread cannot be cancelled, and the process waits for it
        try:
            return await asyncio.to_thread(
                workspace.prepare,
                self.path,
                self._isolation,
                self._copy,
                excluded=(self._home,),
                is_stopped=stop.is_set,
            )
        finally:
            stop.set()

    async def diff(self, timeout_s: float) -> Mapping[str, Any] | None:
        """What changed since the session began, as it stands in the result, and `patch.diff`."""
        if self._baseline is None:
            return None
        patch = self._folder / "patch.diff"
        found = await snapshot.changes(
            self._baseline, patch, timeout_s=timeout_s, search_path=self._search_path
        )
        if isinstance(found, snapshot.Unavailable):
            self.problem = found.reason
            return None
        return diff_json(found)
