"""The session a run works in: a new one, one that goes on, or a copy of one that goes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.adapters.git_head import head_commit
from runner.adapters.journal import (
    LOG,
    RESULT,
    FileJournal,
    SessionError,
    SessionExists,
    session_dir,
)
from runner.adapters.trees import copy_tree, remove_tree
from runner.app.worksite import COPY, made_place
from runner.app.world import RunOptions, World
from runner.core.events import SessionResume
from runner.core.fold import fold
from runner.core.spec import TaskSpec
from runner.core.state import State
from runner.core.thread import compaction_focus

CARRIED = ("git", "files", COPY)
"""Folders of a session that a copy of it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A session's journal, and what its log says so far: nothing, for a new one."""

    journal: FileJournal
    state: State = State()
    lines_before: int = 0
    forked_from: str | None = None

    @property
    def lost_result(self) -> Mapping[str, Any] | None:
        """The result of a run that ended in the log but was killed before it wrote it down.

        A result that a resume moved away was there: that resume was killed, and goes on now.
        """
        there = (self.journal.folder / RESULT).exists() or self.journal.has_retired_result
        lost = self.state.closed and not there
        return self.state.result if lost and self.forked_from is None else None

    @property
    def is_new(self) -> bool:
        """Nothing was ever recorded in it."""
        return self.state.session is None


def open_session(spec: TaskSpec, options: RunOptions, world: World, new_id: str) -> Opened:
    """Open the session the options ask for.

    Raises `SessionError` when it cannot be had, `LogDamaged` when its log is not whole, and
    `JournalError` when the disk does not let it be read or repaired.
    """
    home = options.home
    if options.resume is None:
        journal = _journal(session_dir(home, new_id), spec, world, reopen=False)
        journal.write_workspace(session_id=new_id, cwd=Path(spec.workspace.path), name=spec.name)
        return Opened(journal=journal)
    folder = session_dir(home, options.resume)
    if options.fork and spec.workspace.isolation == "worktree":
        raise SessionError("a session in a git worktree cannot be forked; use isolation copy")
    if options.fork:
        folder = _copy(folder, session_dir(home, new_id))
    journal = _journal(folder, spec, world, reopen=True)
    try:
        state = fold(journal.replay())
    except BaseException:
        journal.close()
        raise
    if options.fork:
        journal.write_workspace(session_id=new_id, cwd=Path(spec.workspace.path), name=spec.name)
    return Opened(
        journal=journal,
        state=state,
        lines_before=journal.lines,
        forked_from=options.resume if options.fork else None,
    )


def resume_event(
    opened: Opened, spec: TaskSpec, sentences: Mapping[str, str], now: str
) -> SessionResume:
    """The fact that the session goes on, with what the model is told about it."""
    state, context = opened.state, start_context(_workspace(opened, spec))
    return SessionResume(
        session_id=opened.journal.folder.name,
        resume_time=now,
        event_count=opened.lines_before,
        selected_model=spec.model,
        carries=not state.ended or spec.resume.budget_scope == "session",
        note=_note(opened, spec, sentences, context),
        agents_note=_agents_note(opened, spec, sentences, context),
        events_file_size_bytes=(opened.journal.folder / LOG).stat().st_size,
        forked_from=opened.forked_from,
        context=context,
    )


def start_context(workspace: Path) -> Mapping[str, Any]:
    """Where the session begins or goes on: the folder, and its commit if it has one."""
    head = head_commit(workspace)
    return {"cwd": str(workspace), **({"headCommit": head} if head else {})}


def head_change(before: State, context: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """The commit that was and the one that is, when the repository is at another one."""
    was, now = before.head_commit, (context or {}).get("headCommit")
    return (was, now) if was and now and was != now else None


def prompts_differ(state: State, now: TaskSpec, workspace: Path) -> bool:
    """Whether the system prompt must be made; else the recorded one stays, byte for byte."""
    if state.spec is None or not state.system or _moved(state, workspace):
        return True
    parts = (
        "system_prompt",
        "append_system_prompt",
        "autopilot",
        "output_schema",
        "protected_paths",
    )
    return any(getattr(state.spec, part) != getattr(now, part) for part in parts)


def _moved(state: State, workspace: Path) -> bool:
    known = state.preflight.workspace if state.preflight else None
    return known is not None and os.path.realpath(known) != os.path.realpath(workspace)


def widened(before: TaskSpec, after: TaskSpec) -> tuple[str, ...]:
    """What `after` allows that `before` did not, in words."""
    ranks = ("plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions")
    found = [f"`{tool}` is allowed now" for tool in _new(before.allowed_tools, after.allowed_tools)]
    lifted = _new(
        (*after.disallowed_tools, *after.ask_tools), (*before.disallowed_tools, *before.ask_tools)
    )
    found += [f"`{tool}` is no longer denied" for tool in lifted]
    if before.tools is not None:
        added = ("every tool",) if after.tools is None else _new(before.tools, after.tools)
        found += [f"{tool} is offered now" for tool in added]
    if ranks.index(after.permission_mode) > ranks.index(before.permission_mode):
        found.append(f"the mode is {after.permission_mode} now")
    elif before.auto_mode and after.auto_mode not in (None, before.auto_mode):
        found.append("another model, or the same with other instructions, decides in mode auto now")
    found += [f"{path} is open now" for path in _new(before.add_dirs, after.add_dirs)]
    shut = tuple(line for line in before.protected_paths if not line.startswith("!"))
    found += [f"{line} is no longer protected" for line in _new(after.protected_paths, shut)]
    bare = tuple(line for line in after.protected_paths if line.startswith("!"))
    found += [f"{line[1:]} is not protected now" for line in _new(before.protected_paths, bare)]
    found += [f"{name} is passed now" for name in _new(before.env.pass_, after.env.pass_)]
    gone = _new(_gates(after), _gates(before))
    found += [f"the hook `{command}` is gone" for command in gone]
    return tuple(found)


def _gates(spec: TaskSpec) -> tuple[str, ...]:
    """The commands of the hooks that may deny."""
    groups = (group for event in ("PreToolUse", "Stop") for group in spec.hooks.get(event, ()))
    return tuple(hook.command for group in groups for hook in group.hooks)


def _new(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item for item in after if item not in before)


def _is_salvaged(opened: Opened) -> bool:
    """The session is what was left of a damaged one, and goes on for the first time."""
    about = opened.journal.folder / "workspace.yaml"
    return opened.state.resumes == 0 and about.exists() and "salvaged_from:" in about.read_text()


def _workspace(opened: Opened, spec: TaskSpec) -> Path:
    return made_place(spec, opened.journal.folder) or Path(spec.workspace.path)


def _note(
    opened: Opened, spec: TaskSpec, sentences: Mapping[str, str], context: Mapping[str, Any]
) -> str:
    """A task that was done, or never asked for, is (another) task; anything else goes on."""
    state, old = opened.state, opened.state.spec
    if compaction_focus(spec.prompt) is not None:
        return spec.prompt
    if not state.main.messages or (state.result and state.result.get("subtype") == "success"):
        return spec.prompt
    parts = [sentences["resumed_after_end" if state.ended else "resumed_after_kill"]]
    if _is_salvaged(opened):
        parts.append(sentences["resumed_after_salvage"])
    if old is not None and old.prompt != spec.prompt:
        parts.append(spec.prompt)
    return "\n\n".join((*parts, *_news(opened, spec, sentences, context)))


def _agents_note(
    opened: Opened, spec: TaskSpec, sentences: Mapping[str, str], context: Mapping[str, Any]
) -> str | None:
    """The same for sub-agents that are open: what they are to do does not change."""
    if all(agent.ended for agent in opened.state.agents.values()):
        return None
    parts = (sentences["resumed_after_kill"], *_news(opened, spec, sentences, context))
    return "\n\n".join(parts)


def _news(
    opened: Opened, spec: TaskSpec, sentences: Mapping[str, str], context: Mapping[str, Any]
) -> list[str]:
    """What is not as it was: the workspace, its commit, the rules."""
    state, old, parts = opened.state, opened.state.spec, []
    workspace = _workspace(opened, spec)
    if _moved(state, workspace):
        parts.append(sentences["workspace_moved"].replace("{path}", str(workspace)))
    if change := head_change(state, context):
        told = sentences["head_changed"].replace("{before}", change[0])
        parts.append(told.replace("{after}", change[1]))
    if old is not None and (more := widened(old, spec)):
        parts.append(sentences["rules_changed"].replace("{changes}", "; ".join(more)))
    return parts


def _journal(folder: Path, spec: TaskSpec, world: World, *, reopen: bool) -> FileJournal:
    if reopen and not (folder / LOG).exists():
        raise SessionError(f"session {folder.name} has no log in {folder}")
    return FileJournal(
        folder,
        clock=world.clock,
        new_id=world.new_id,
        durability=spec.limits.durability,
        reopen=reopen,
    )


def _copy(source: Path, target: Path) -> Path:
    """A copy of a session under another id; the original is only read."""
    if target.exists():
        raise SessionExists(f"session {target.name} is already there, in {target}")
    draft = target.with_name(f".{target.name}.part")
    try:
        _discard(draft)  # of a fork that was killed
        draft.mkdir(mode=0o700)
        shutil.copyfile(source / LOG, draft / LOG)
        (draft / LOG).chmod(0o600)
        for name in CARRIED:
            if (source / name).exists():
                copy_tree(source / name, draft / name)
        draft.rename(target)
    except OSError as error:
        raise SessionError(f"cannot copy session {source.name} to {target}: {error}") from error
    finally:
        _discard(draft)
    return target


def _discard(draft: Path) -> None:
    with suppress(OSError):
        remove_tree(draft)
