"""One run from its first check to its last byte."""

from __future__ import annotations

import asyncio
import os
import shutil
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner import __version__
from runner.adapters import preflight, snapshot, workspace
from runner.adapters.journal import FileJournal, SessionLocked, session_dir
from runner.adapters.journal import SessionError as SessionFolderError
from runner.adapters.retry import retry_policy
from runner.adapters.scripted_model import ScriptError
from runner.adapters.specfile import spec_hash
from runner.app import signals, wiring
from runner.app.world import Finished, RunOptions, World
from runner.core import wire
from runner.core.events import (
    Check,
    RunnerPreflight,
    RunnerSpec,
    SessionError,
    SessionStart,
    SessionWarning,
    SystemMessage,
    ToolListing,
    UserMessage,
)
from runner.core.outcome import Ending, ErrorType, build_result, exit_code, result_json
from runner.core.spec import TaskSpec
from runner.core.state import State
from runner.engine import finish, loop
from runner.engine.engine import Engine
from runner.engine.loop import Interruption
from runner.engine.recorder import Recorder
from runner.ports import JournalError, Model, Sink

PAPERS = ("events.jsonl", "result.json", "patch.diff")


class Run:
    """A task, where its session goes, who watches, and the world it runs in."""

    def __init__(
        self, spec: TaskSpec, options: RunOptions, sinks: tuple[Sink, ...], world: World
    ) -> None:
        self._spec = spec
        self._options = options
        self._sinks = sinks
        self._world = world
        self._interruption = Interruption()
        self._session_id = options.session_id or world.new_id()
        self._model: Model | None = None
        self._baseline: snapshot.Snapshot | None = None
        self._workspace = Path(spec.workspace.path)

    async def to_the_end(self) -> Finished:
        """Open the session, drive, finish."""
        signals.listen(self._interruption)
        try:
            journal = self._open_journal()
        except SessionFolderError as error:
            return self._refused(error)
        recorder = Recorder(journal=journal, sinks=self._sinks)
        try:
            ending = await self._drive(recorder, journal)
            self._interruption.closing = True
            finished = await self._finish(recorder, journal, ending)
        except JournalError as error:
            ending = _ending("log_write", str(error))
            finished = self._without_log(recorder.state, ending, journal.folder)
        finally:
            if self._model is not None:
                await self._model.aclose()
            journal.close()
        return self._let_go(finished)

    def _open_journal(self) -> FileJournal:
        folder = session_dir(self._options.home, self._session_id)
        journal = FileJournal(
            folder,
            clock=self._world.clock,
            new_id=self._world.new_id,
            durability=self._spec.limits.durability,
        )
        journal.write_workspace(
            session_id=self._session_id, cwd=self._workspace, name=self._spec.name
        )
        return journal

    async def _drive(self, recorder: Recorder, journal: FileJournal) -> Ending:
        """From the first event to the ending. Raises `JournalError` only."""
        deadline = self._deadline()
        try:
            engine = await self._set_up(recorder, journal, deadline)
            if engine is None:
                return loop.wind_down(recorder)
            return await loop.run(engine, deadline_s=deadline, interruption=self._interruption)
        except JournalError:
            raise
        except asyncio.CancelledError:
            loop.abort(recorder, self._interruption.cause or "SIGTERM")
        except TimeoutError:
            loop.abort(recorder, "timeout")
        except Exception as bug:  # the top of the app: a bug is an ending too, with its trace
            recorder.record(
                SessionError(
                    error_type="internal",
                    message=f"{type(bug).__name__}: {bug}",
                    stack="".join(traceback.format_exception(bug)),
                )
            )
        return loop.wind_down(recorder)

    async def _set_up(
        self, recorder: Recorder, journal: FileJournal, deadline: float | None
    ) -> Engine | None:
        """Check everything and wire the engine; None when a check failed (and is recorded)."""
        spec = self._spec
        sentences = wiring.sentences()
        self._record_start(recorder, sentences)
        checks = self._check()
        failed = [check for check in checks if not check.ok]
        if not failed:
            async with asyncio.timeout_at(deadline):
                await self._prepare_workspace(recorder, journal)
        toolbox = wiring.toolbox(spec, self._workspace, self._world.environ)
        shown = wiring.offered_tools(spec, toolbox)
        listed = preflight.price(spec)
        recorder.record(
            RunnerPreflight(
                checks=checks,
                tools=tuple(ToolListing(name=t.name, read_only=t.read_only) for t in shown),
                sandbox="process",
                workspace=str(self._workspace),
                prices=() if listed is None else (listed,),
                versions=self._world.versions,
            )
        )
        if failed or self._model is None:
            message = "; ".join(f"{check.name}: {check.detail}" for check in failed)
            recorder.record(SessionError(error_type="preflight", message=message))
            return None
        recorder.record(SystemMessage(content=self._prompt()))
        recorder.record(
            UserMessage(content=spec.prompt, agent_mode="autopilot" if spec.autopilot else None)
        )
        return Engine(
            recorder=recorder,
            model=self._model,
            retry=retry_policy(spec.retry),
            tools=toolbox,
            offered=shown,
            clock=self._world.clock,
            new_id=self._world.new_id,
            files_dir=journal.files,
        )

    def _record_start(self, recorder: Recorder, sentences: Mapping[str, str]) -> None:
        spec = self._spec
        recorder.record(
            SessionStart(
                session_id=self._session_id,
                copilot_version=__version__,
                start_time=self._world.clock.now(),
                selected_model=spec.model,
                context={"cwd": spec.workspace.path},
            )
        )
        recorder.record(
            RunnerSpec(spec=wire.encode(spec), spec_hash=spec_hash(spec), sentences=sentences)
        )

    def _check(self) -> tuple[Check, ...]:
        checks = preflight.run_checks(self._spec, self._world.environ)
        try:
            self._model = wiring.model(self._spec, self._world.environ)
        except ScriptError as error:
            return (*checks, Check(name="script", ok=False, detail=str(error)))
        return checks

    async def _prepare_workspace(self, recorder: Recorder, journal: FileJournal) -> None:
        spec, home = self._spec.workspace, self._options.home
        self._workspace = await asyncio.to_thread(
            workspace.prepare,
            Path(spec.path),
            spec.isolation,
            journal.folder / "workspace",
            excluded=(home,),
        )
        taken = await snapshot.take(
            journal.folder / "git",
            self._workspace,
            excluded=(home,),
            search_path=self._search_path(),
        )
        if isinstance(taken, snapshot.Unavailable):
            recorder.record(SessionWarning(warning_type="no_diff", message=taken.reason))
        else:
            self._baseline = taken

    async def _finish(self, recorder: Recorder, journal: FileJournal, ending: Ending) -> Finished:
        diff = await self._workspace_diff(recorder, journal)
        result = finish.record_result(
            recorder,
            ending,
            session_id=self._session_id,
            uuid=self._world.new_id(),
            workspace_diff=diff,
        )
        journal.write_result(result)
        return Finished(result=result, exit_code=exit_code(ending), folder=journal.folder)

    async def _workspace_diff(
        self, recorder: Recorder, journal: FileJournal
    ) -> Mapping[str, Any] | None:
        if self._baseline is None:
            return None
        patch, grace_s = journal.folder / "patch.diff", self._spec.limits.shutdown_grace
        diff = await snapshot.changes(
            self._baseline, patch, timeout_s=grace_s, search_path=self._search_path()
        )
        if isinstance(diff, snapshot.Unavailable):
            recorder.record(SessionWarning(warning_type="no_diff", message=diff.reason))
            return None
        return {
            "files": [_file_change(file) for file in diff.files],
            "lines_added": diff.lines_added,
            "lines_removed": diff.lines_removed,
            "patch": str(diff.patch_path),
        }

    def _refused(self, error: SessionFolderError) -> Finished:
        """No session can be had, so there is no log: the result still says why."""
        locked = isinstance(error, SessionLocked)
        ending = _ending("locked" if locked else "preflight", str(error))
        return self._let_go(self._without_log(State(), ending, None))

    def _without_log(self, state: State, ending: Ending, folder: Path | None) -> Finished:
        result = build_result(state, ending, session_id=self._session_id, uuid=self._world.new_id())
        return Finished(result=result_json(result), exit_code=exit_code(ending), folder=folder)

    def _let_go(self, finished: Finished) -> Finished:
        for sink in self._sinks:
            sink.close(finished.result)
        target = self._options.artifacts
        if target is None or finished.folder is None:
            return finished
        return replace(finished, problem=_copy_papers(finished.folder, target))

    def _search_path(self) -> str:
        return self._world.environ.get("PATH", os.defpath)

    def _prompt(self) -> str:
        return wiring.system_prompt(self._spec, self._workspace, self._world.clock.now())

    def _deadline(self) -> float | None:
        limit_s = self._spec.timeout
        return None if limit_s is None else asyncio.get_running_loop().time() + limit_s


def _ending(error_type: ErrorType, message: str) -> Ending:
    return Ending(subtype="error_during_execution", error_type=error_type, message=message)


def _file_change(file: snapshot.FileChange) -> dict[str, Any]:
    counts = {"lines_added": file.lines_added, "lines_removed": file.lines_removed}
    return {"path": file.path, "status": file.status, **counts, "binary": file.binary}


def _copy_papers(folder: Path, target: Path) -> str | None:
    """Copy what a pipeline wants to keep; the problem, if there is one."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in PAPERS:
            if (folder / name).exists():
                shutil.copyfile(folder / name, target / name)
    except OSError as error:
        return f"the artifacts were not copied to {target}: {error.strerror}"
    return None
