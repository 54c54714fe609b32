"""One run from its first check to its last byte."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from runner.adapters import leftovers
from runner.adapters.journal import FileJournal, LogDamaged, SessionLocked
from runner.adapters.journal import SessionError as SessionFolderError
from runner.adapters.retry import retry_policy
from runner.adapters.workspace import WorkspaceError
from runner.app import artifacts, instructions, opening, signals, startup, wiring
from runner.app.session import (
    Opened,
    open_session,
    prompts_differ,
)
from runner.app.worksite import Worksite
from runner.app.world import Finished, RunOptions, World
from runner.core.endings import Ending, ErrorType, exit_code
from runner.core.events import (
    SessionError,
    SystemMessage,
    UserMessage,
)
from runner.core.outcome import build_result, result_json
from runner.core.spec import TaskSpec
from runner.core.state import State
from runner.engine import finish, loop
from runner.engine.engine import Engine
from runner.engine.loop import Interruption
from runner.engine.recorder import Recorder
from runner.engine.recover import recover
from runner.ports import JournalError, Model, Sink


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
        self._began = 0.0

    async def to_the_end(self) -> Finished:
        """Open the session, drive, finish."""
        self._began = asyncio.get_running_loop().time()
        signals.listen(self._interruption, lambda: leftovers.sweep(self._session_id))
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
        )
        recorder = Recorder(journal=journal, sinks=self._sinks, state=opened.state)
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
            if self._model is not None:
                await self._model.aclose()
            journal.close()
        return self._let_go(finished)

    async def _drive(self, recorder: Recorder, opened: Opened, site: Worksite) -> Ending:
        """From the first event to the ending. Raises `JournalError` only."""
        deadline = None
        try:
            opening.record_start(
                recorder,
                opened,
                self._spec,
                session_id=self._session_id,
                now=self._world.clock.now(),
            )
            deadline = self._deadline(recorder.state)
            engine = await self._set_up(recorder, opened, site, deadline)
            if engine is None:
                return loop.wind_down(recorder)
            return await loop.run(engine, deadline_s=deadline, interruption=self._interruption)
        except JournalError:
            raise
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()  # it is dealt with here; what follows is an ordinary end
            loop.abort(recorder, self._interruption.cause or "SIGTERM")
        except WorkspaceError as error:
            recorder.record(SessionError(error_type="preflight", message=str(error)))
        except Exception as bug:  # the top of the app: a bug is an ending too, with its trace
            if isinstance(bug, TimeoutError) and _is_over(deadline):
                loop.abort(recorder, "timeout")
            else:
                message = f"{type(bug).__name__}: {bug}"
                stack = _trace(bug)
                recorder.record(SessionError(error_type="internal", message=message, stack=stack))
        return loop.wind_down(recorder)

    async def _set_up(
        self, recorder: Recorder, opened: Opened, site: Worksite, deadline: float | None
    ) -> Engine | None:
        """Check everything and wire the engine; None when a check failed (and is recorded)."""
        spec = self._spec
        checks = opening.check(spec, self._world.environ, recorder.state)
        failed = [check for check in checks if not check.ok]
        if not failed:
            self._model = wiring.model(spec, self._world.environ, opened.state.attempts_over)
        if not failed:
            await startup.prepare(
                site,
                recorder,
                self._world.clock,
                began=self._began,
                limit_s=spec.limits.start,
                deadline=deadline,
            )
        toolbox = wiring.toolbox(spec, site.path, self._world.environ, opened.journal.folder)
        shown = wiring.offered_tools(spec, toolbox)
        opening.record_preflight(recorder, spec, checks, shown, site, self._world.versions)
        if failed or self._model is None:
            message = "; ".join(f"{check.name}: {check.detail}" for check in failed)
            recorder.record(SessionError(error_type="preflight", message=message))
            return None
        if prompts_differ(opened.state, spec, site.path):
            prompt = wiring.system_prompt(spec, site.path, self._world.clock.now())
            recorder.record(SystemMessage(content=prompt))
        instructions.record(recorder, spec)
        engine = Engine(
            recorder=recorder,
            model=self._model,
            retry=retry_policy(spec.retry),
            tools=toolbox,
            offered=shown,
            clock=self._world.clock,
            new_id=self._world.new_id,
            files_dir=opened.journal.files,
            bench=wiring.bench(spec, site.path, self._world.environ, opened.journal.folder),
        )
        if opened.is_new:
            mode: Literal["autopilot"] | None = "autopilot" if spec.autopilot else None
            recorder.record(UserMessage(content=spec.prompt, agent_mode=mode))
        else:
            await self._recover(engine)
        return engine

    async def _recover(self, engine: Engine) -> None:
        """Close what a killed run left open; stop there if the spec wants a person to look."""
        unknown = await recover(engine)
        if unknown and self._spec.resume.on_unknown == "stop":
            names = ", ".join(call.name for call in unknown)
            message = f"the outcome of {names} is unknown, and `resume.on_unknown` is stop"
            engine.recorder.record(SessionError(error_type="preflight", message=message))

    async def _finish(
        self, recorder: Recorder, opened: Opened, site: Worksite, ending: Ending
    ) -> Finished:
        opening.sweep(recorder, self._session_id)
        diff = await site.diff(self._spec.limits.shutdown_grace)
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
        return Finished(result=result_json(result), exit_code=exit_code(ending), folder=folder)

    def _let_go(self, finished: Finished) -> Finished:
        for sink in self._sinks:
            sink.close(finished.result)
        target = self._options.artifacts
        if target is None or finished.folder is None:
            return finished
        return replace(finished, problem=artifacts.copy_papers(finished.folder, target))

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
