"""One run from its first check to its last byte."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.adapters import leftovers
from runner.adapters.journal import FileJournal, LogDamaged, SessionLocked
from runner.adapters.journal import SessionError as SessionFolderError
from runner.adapters.redact_events import EventMask
from runner.adapters.secret_values import mask_of, masked_spec
from runner.adapters.workspace import WorkspaceError
from runner.app import (
    artifacts,
    boundary,
    hooking,
    opening,
    project_agents,
    signals,
)
from runner.app.reports import write_reports
from runner.app.session import Opened, open_session
from runner.app.setup import Parts, Setting, set_up
from runner.app.signals import Switch
from runner.app.worksite import Worksite
from runner.app.world import Finished, RunOptions, World
from runner.core.endings import Ending, ErrorType, exit_code
from runner.core.events import AbortCause, SessionError
from runner.core.outcome import build_result, result_json
from runner.core.spec import TaskSpec
from runner.core.state import State
from runner.engine import finish, loop
from runner.engine.loop import Interruption
from runner.engine.recorder import Recorder
from runner.ports import JournalError, Sink

PATCH_S = 2.0
"""What the patch gets of `limits.shutdown_grace`, even when others used it up: it is promised."""


class Run:
    """A task, where its session goes, who watches, and the world it runs in."""

    def __init__(
        self,
        spec: TaskSpec,
        options: RunOptions,
        sinks: tuple[Sink, ...],
        world: World,
        *,
        switch: Switch | None = None,
        handle_signals: bool = True,
    ) -> None:
        self._mask = mask_of(spec, world.environ)
        self._spec = masked_spec(spec, self._mask)
        self._options = options
        self._sinks = sinks
        self._world = world
        self._interruption = Interruption()
        self._switch = switch or Switch()
        self._handle_signals = handle_signals
        self._session_id = options.session_id or world.new_id()
        self._parts = Parts()
        self._began = 0.0

    async def to_the_end(self) -> Finished:
        """Open the session, drive, finish."""
        self._began = asyncio.get_running_loop().time()
        if self._handle_signals:
            signals.listen(self._interruption, lambda: leftovers.sweep(self._session_id))
        self._switch.connect(self._interruption)
        try:
            return await self._opened_to_the_end()
        finally:
            self._switch.disconnect()

    async def _opened_to_the_end(self) -> Finished:
        try:
            opened = open_session(self._spec, self._options, self._world, self._session_id)
        except (SessionFolderError, LogDamaged, JournalError) as error:
            return self._refused(error)
        journal = opened.journal
        if opened.lost_result is not None:
            try:
                return self._let_go(self._written(journal, opened.lost_result))
            except JournalError as error:
                return self._refused(error)
        self._session_id = journal.folder.name
        site = Worksite(
            self._spec,
            folder=journal.folder,
            home=self._options.home,
            search_path=self._world.environ.get("PATH", os.defpath),
            mask=self._mask,
        )
        recorder = Recorder(
            journal=journal,
            sinks=self._sinks,
            state=opened.state,
            redaction=EventMask(self._mask),
        )
        for sink in self._sinks:
            sink.catch_up(opened.state)
        try:
            ending = await self._drive(recorder, opened, site)
            self._interruption.closing = True
            finished = await self._finish(recorder, opened, site, ending)
        except JournalError as error:
            ending = _ending("log_write", str(error))
            finished = self._without_log(recorder.state, ending, journal.folder)
        except Exception as bug:  # in the closing itself: nothing more can be recorded safely
            ending = _ending("internal", _trace(bug))
            finished = self._without_log(recorder.state, ending, journal.folder)
        finally:
            await self._close_servers()
            for caller in (self._parts.model, self._parts.search):
                if caller is not None:
                    await caller.aclose()
            journal.close()
        return self._let_go(finished)

    async def _drive(self, recorder: Recorder, opened: Opened, site: Worksite) -> Ending:
        """From the first event to the ending. Raises `JournalError` only."""
        deadline = None
        try:
            joined = project_agents.join(self._spec, opened.state.spec, self._mask)
            self._spec = joined.spec
            opening.record_start(
                recorder,
                opened,
                self._spec,
                session_id=self._session_id,
                now=self._world.clock.now(),
            )
            opening.warn(recorder, project_agents.WARNING, joined.warnings)
            deadline = self._deadline(recorder.state)
            setting = self._setting(recorder, opened, site, deadline)
            engine = await set_up(setting, self._parts)
            if engine is None:
                return loop.wind_down(recorder)
            return await loop.run(engine, deadline_s=deadline, interruption=self._interruption)
        except JournalError:
            raise
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()  # it is dealt with here; what follows is an ordinary end
            self._stop(recorder, self._interruption.cause or "SIGTERM")
        except WorkspaceError as error:
            recorder.record(SessionError(error_type="preflight", message=str(error)))
        except Exception as bug:  # the top of the app: a bug is an ending too, with its trace
            if isinstance(bug, TimeoutError) and _is_over(deadline):
                self._stop(recorder, "timeout")
            else:
                message = f"{type(bug).__name__}: {bug}"
                stack = _trace(bug)
                recorder.record(SessionError(error_type="internal", message=message, stack=stack))
        return loop.wind_down(recorder)

    def _stop(self, recorder: Recorder, cause: AbortCause) -> None:
        """Record that the run was stopped before its loop began, or while it was set up."""
        loop.abort(recorder, cause)
        if self._parts.engine is not None:
            self._parts.engine.begin_grace()

    def _left_s(self, limit_s: float) -> float:
        engine = self._parts.engine
        return limit_s if engine is None else engine.left_s(limit_s)

    def _setting(
        self, recorder: Recorder, opened: Opened, site: Worksite, deadline: float | None
    ) -> Setting:
        return Setting(
            spec=self._spec,
            world=self._world,
            mask=self._mask,
            opened=opened,
            site=site,
            recorder=recorder,
            began=self._began,
            deadline=deadline,
        )

    async def _finish(
        self, recorder: Recorder, opened: Opened, site: Worksite, ending: Ending
    ) -> Finished:
        await hooking.end(self._parts.engine, ending)
        await self._close_servers()
        opening.sweep(recorder, self._session_id)
        await boundary.clear(self._parts.where, opened.journal.folder)
        grace_s = self._spec.limits.shutdown_grace
        diff = await site.diff(max(self._left_s(grace_s), min(grace_s, PATCH_S)))
        opening.warn_of_no_diff(recorder, site)
        result = finish.record_result(
            recorder,
            ending,
            session_id=self._session_id,
            uuid=self._world.new_id(),
            workspace_diff=diff,
        )
        opened.journal.write_result(result)
        folder = opened.journal.folder
        return Finished(result=result, exit_code=exit_code(ending), folder=folder)

    async def _close_servers(self) -> None:
        if self._parts.servers is not None:
            await self._parts.servers.close(self._left_s(self._spec.limits.shutdown_grace))

    def _written(self, journal: FileJournal, result: Mapping[str, Any]) -> Finished:
        """The run had ended, and only its result was not written any more."""
        try:
            journal.write_result(dict(result))
        finally:
            journal.close()
        return Finished(result=dict(result), exit_code=result["exit_code"], folder=journal.folder)

    def _refused(self, error: Exception) -> Finished:
        """No session can be had, so nothing is recorded: the result still says why."""
        error_type: ErrorType = "preflight"
        if isinstance(error, SessionLocked):
            error_type = "locked"
        elif isinstance(error, LogDamaged):
            error_type = "invalid_request"
        elif isinstance(error, JournalError):
            error_type = "log_write"
        return self._let_go(self._without_log(State(), _ending(error_type, str(error)), None))

    def _without_log(self, state: State, ending: Ending, folder: Path | None) -> Finished:
        result = build_result(state, ending, session_id=self._session_id, uuid=self._world.new_id())
        told = self._mask.value(result_json(result))
        return Finished(result=told, exit_code=exit_code(ending), folder=folder)

    def _let_go(self, finished: Finished) -> Finished:
        for sink in self._sinks:
            sink.close(finished.result)
        try:
            finished = write_reports(self._spec, finished, self._world)
        except Exception as bug:  # still the top of the app: a report changes no ending
            finished = finished.with_more([f"the reports are not complete: {_trace(bug)}"])
        target = self._options.artifacts
        if target is None or finished.folder is None:
            return finished
        return finished.with_more(artifacts.copy_papers(finished.folder, target))

    def _deadline(self, state: State) -> float | None:
        """When the time is up, on the event loop's clock; a resumed run has used some of it."""
        limit_s = self._spec.timeout
        if limit_s is None:
            return None
        return asyncio.get_running_loop().time() + limit_s - state.elapsed_ms / 1000


def _ending(error_type: ErrorType, message: str) -> Ending:
    return Ending(subtype="error_during_execution", error_type=error_type, message=message)


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and asyncio.get_running_loop().time() >= deadline


def _trace(bug: Exception) -> str:
    return "".join(traceback.format_exception(bug))
