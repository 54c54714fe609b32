"""The protected paths of a run, and their place in the log."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from runner.adapters import skills
from runner.adapters.protected import Protection, edited, merged
from runner.adapters.shell_syntax import shell_script
from runner.adapters.workspace import WorkspaceError
from runner.app import custom_tools
from runner.core.events import SessionWarning
from runner.core.spec import ALL_SKILLS, TaskSpec
from runner.core.state import State
from runner.engine.recorder import Recorder


async def protection(spec: TaskSpec, workspace: Path) -> Protection:
    """What is protected where tools work; a skill that the task names is a part of the task, and
    so are the tools that it brings."""
    named = () if spec.skills == ALL_SKILLS else spec.skills
    own = map(str, (*skills.files(named, Path(spec.workspace.path)), *custom_tools.files(spec)))
    spec = replace(spec, sources=(*spec.sources, *own))
    return await asyncio.to_thread(Protection, spec, workspace, shell_script)


async def record(recorder: Recorder, guard: Protection, before: State) -> None:
    """Record what is protected as it is now, or keep to what an earlier part recorded.

    `before` is the state before this part of the session began. Raises `JournalError`, and
    `WorkspaceError` when it may have been the agent that changed its task.
    """
    now = await asyncio.to_thread(guard.start)
    if before.protection is not None and (names := edited(before.protection, now)):
        within = [name for name in names if not Path(name).is_absolute()]
        if within and not _was_compared(before):
            raise WorkspaceError(
                f"{', '.join(within)} in the workspace is not as it was when the session began, "
                "and the part before ended without a look at it: the agent may have changed its "
                "own task; put it back and give what you want to change with --set, or begin anew"
            )
        message = f"the task is not as it was when the session began: {', '.join(names)}"
        recorder.record(SessionWarning(warning_type="task_changed", message=message))
    held = merged(before.protection, now)
    if held != before.protection:
        recorder.record(held)


def _was_compared(before: State) -> bool:
    """Everything was as it was, and nothing was done since: no kill and no signal in between."""
    look = before.guarded
    return look is not None and not look.changes and look.skipped is None
