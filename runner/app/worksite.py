"""The folder the tools work in, and what the run changed in it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.adapters import snapshot, tree_diff, workspace, worktree
from runner.adapters.redact import NOTHING, Mask
from runner.adapters.redact_file import masked, masked_changes
from runner.adapters.workspace import WorkspaceError
from runner.adapters.workspace_diff import diff_json, gate_checks
from runner.core.events import VerifyCheck
from runner.core.spec import TaskSpec

COPY = "workspace"
"""Where a session keeps its copy of the workspace."""


def made_place(spec: TaskSpec, folder: Path) -> Path | None:
    """Where tools work in the copy or worktree that an earlier run of the session made."""
    match spec.workspace.isolation:
        case "none":
            return None
        case "copy":
            return (folder / COPY).resolve() if (folder / COPY).is_dir() else None
        case "worktree":
            return worktree.reopened(folder, COPY)


class Worksite:
    """The workspace of one session; `path` is where tools work, once it is prepared.

    `problem` says why there is no diff, until somebody was told, `notice` what else a person should
    know; `phase` is what the start-up does.
    """

    def __init__(
        self,
        spec: TaskSpec,
        *,
        folder: Path,
        home: Path,
        search_path: str,
        mask: Mask = NOTHING,
    ) -> None:
        self._copy = folder / COPY
        self._isolation = spec.workspace.isolation
        made = made_place(spec, folder)
        self._has_copy = made is not None
        self.path = made or Path(spec.workspace.path)
        self.notice: str | None = None
        self.problem: str | None = None
        self.phase = "checks"
        self._limit_s = spec.limits.start
        self._gates = (spec.require_changes, spec.forbid_changes)
        self._folder = folder
        self._home = home
        self._mask = mask
        self._search_path = search_path
        self._baseline: snapshot.Snapshot | None = None
        self._original = Path(spec.workspace.path)
        self._compares_copy = False

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
            if self._isolation == "copy":  # its original is there to compare it with
                self._compares_copy = True
                return
            if any(self._gates):
                why = f"what changes cannot be told, and a gate needs it: {taken.reason}"
                raise WorkspaceError(why)
            self.problem = taken.reason
        else:
            self._baseline = taken

    async def _made(self) -> Path:
        if self._isolation == "worktree":
            made = await worktree.make(self.path, self._folder, COPY, search_path=self._search_path)
            self.notice = made.uncommitted
            return made.path
        isolation: workspace.Isolation = "copy" if self._isolation == "copy" else "none"
        stop = threading.Event()  # a thread cannot be cancelled, and the process waits for it
        try:
            return await asyncio.to_thread(
                workspace.prepare,
                self.path,
                isolation,
                self._copy,
                excluded=(self._home,),
                is_stopped=stop.is_set,
            )
        finally:
            stop.set()

    async def gates(self, timeout_s: float) -> tuple[VerifyCheck, ...]:
        """How the gates on what changed stand now. What cannot be told has not been met."""
        began = time.monotonic()
        found: snapshot.WorkspaceDiff | snapshot.Unavailable
        draft = self._folder / "gates.diff"
        if self._compares_copy:
            found = await self._compared(draft, timeout_s)
        elif self._baseline is None:
            found = snapshot.Unavailable(reason="there is no record of the start")
        else:
            found = await snapshot.changes(
                self._baseline, draft, timeout_s=timeout_s, search_path=self._search_path
            )
        draft.unlink(missing_ok=True)
        took_ms = round((time.monotonic() - began) * 1000)
        return gate_checks(found, *self._gates, duration_ms=took_ms)

    async def _compared(
        self, patch: Path, timeout_s: float
    ) -> snapshot.WorkspaceDiff | snapshot.Unavailable:
        """What changed in the copy, found out without git."""
        stop = threading.Event()
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.to_thread(
                    tree_diff.changes,
                    self._original,
                    self.path,
                    patch,
                    excluded=(self._home,),
                    is_stopped=stop.is_set,
                )
        except TimeoutError:
            return snapshot.Unavailable(reason=f"not done within {timeout_s:g} s")
        except (OSError, tree_diff.Stopped) as error:
            return snapshot.Unavailable(reason=f"the copy cannot be compared: {error}")
        finally:
            stop.set()

    async def diff(self, timeout_s: float) -> Mapping[str, Any] | None:
        """What changed since the session began, as it stands in the result, and `patch.diff`."""
        patch = self._folder / "patch.diff"
        found: snapshot.WorkspaceDiff | snapshot.Unavailable
        if self._compares_copy:
            raw = self._folder / "raw.diff"
            found = await self._compared(raw, timeout_s)
            found, held_secrets = masked(found, raw, patch, self._mask)
        elif self._baseline is None:
            return None
        else:
            found, held_secrets = await masked_changes(
                self._baseline,
                patch,
                self._mask,
                timeout_s=timeout_s,
                search_path=self._search_path,
            )
        if isinstance(found, snapshot.Unavailable):
            self.problem = found.reason
            return None
        if held_secrets:
            self.problem = "secrets are masked in patch.diff, so it may not apply"
        return diff_json(found)
