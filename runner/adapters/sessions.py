"""The sessions on this machine: find, list, remove.

Rules of this file: a session that is being written is never touched; what cannot be read is
listed as it is, never an error for the others.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runner.adapters.journal import LOG, RESULT, SESSION_ID, SESSIONS, SessionError, SessionLocked
from runner.adapters.trees import remove_tree
from runner.adapters.worktree_entry import unregister


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session. `result` is None while it runs and when it was killed.

    `ending` is the subtype of its result, else `running` or `unfinished`. `last_written_s` is in
    seconds since the epoch.
    """

    id: str
    folder: Path
    name: str
    workspace: str
    created_at: str
    ending: str
    result: Mapping[str, Any] | None
    last_written_s: float


def default_home(environ: Mapping[str, str]) -> Path:
    """`$AUTOPILOT_HOME`, else the platform's folder for the state of a user's programs."""
    if environ.get("AUTOPILOT_HOME"):
        return Path(environ["AUTOPILOT_HOME"])
    base = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or "/") / ".local" / "state"
    return Path(base) / "autopilot"


def list_sessions(home: Path) -> list[Session]:
    """Every session, newest first; none when the home is not there.

    Raises `SessionError` when the home cannot be read.
    """
    found = [read_session(folder) for folder in _folders(home)]
    return sorted(found, key=lambda session: (session.created_at, session.id), reverse=True)


def find_session(home: Path, wanted: str) -> Path:
    """The folder of a session by its id, or by a beginning that only one id has.

    Raises `SessionError` when there is none, or more than one.
    """
    folders = {folder.name: folder for folder in _folders(home)}
    if wanted in folders:
        return folders[wanted]
    matching = sorted(name for name in folders if wanted and name.startswith(wanted))
    if len(matching) == 1:
        return folders[matching[0]]
    if matching:
        raise SessionError(
            f"`{wanted}` is the beginning of {len(matching)} ids: {', '.join(matching[:5])}"
        )
    raise SessionError(f"no session `{wanted}` in {home / SESSIONS}")


def newest_session(home: Path, workspace: Path, name: str) -> Session:
    """The newest session of the task of this name in this workspace.

    Raises `SessionError` when there is none; it says which other tasks have one there.
    """
    there = [one for one in list_sessions(home) if one.workspace == str(workspace)]
    for session in there:
        if session.name == name:
            return session
    others = ", ".join(sorted({f"`{one.name}`" for one in there}))
    told = f"; there are sessions of {others}, to go on with by `--resume ID`" if others else ""
    raise SessionError(
        f"no session of the task `{name}` in the workspace {workspace} in {home / SESSIONS}{told}"
    )


def read_session(folder: Path) -> Session:
    """What is known of the session in this folder."""
    about, result = _about(folder), read_result(folder)
    return Session(
        id=folder.name,
        folder=folder,
        name=str(about.get("name", "?")),
        workspace=str(about.get("cwd", "")),
        created_at=str(about.get("created_at", "")),
        ending=str(result.get("subtype", "?")) if result else _unfinished(folder),
        result=result,
        last_written_s=_last_written_s(folder),
    )


def read_result(folder: Path) -> Mapping[str, Any] | None:
    """The result of a session, None without a readable one."""
    try:
        result = json.loads((folder / RESULT).read_bytes())
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None


def remove_session(folder: Path) -> None:
    """Remove a session with everything in it, its copy of the workspace included.

    Raises `SessionLocked` while it is being written, `SessionError` when it cannot be removed.
    """
    with locked(folder):
        try:
            unregister((folder / "workspace").resolve())  # if it is one
            remove_tree(folder)
        except OSError as error:
            raise SessionError(f"cannot remove {folder}: {error.strerror}") from error


def _folders(home: Path) -> list[Path]:
    try:
        with os.scandir(home / SESSIONS) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if SESSION_ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SessionError(f"cannot read {home / SESSIONS}: {error.strerror}") from error


def _about(folder: Path) -> Mapping[str, Any]:
    try:
        about = yaml.safe_load((folder / "workspace.yaml").read_bytes())
    except (OSError, yaml.YAMLError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def _unfinished(folder: Path) -> str:
    # The log is made after the lock was taken: before that there is nobody a probe could disturb.
    if not (folder / LOG).exists():
        return "unfinished"
    try:
        with locked(folder):
            return "unfinished"
    except SessionLocked:
        return "running"
    except SessionError:
        return "?"


def _last_written_s(folder: Path) -> float:
    for path in (folder / LOG, folder):
        try:
            return path.stat().st_mtime
        except OSError:
            continue
    return 0.0


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the session's lock. Raises `SessionLocked`, `SessionError`."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield  # nobody ever wrote here
        return
    except OSError as error:
        raise SessionError(f"cannot read {folder}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise SessionLocked(f"session {folder.name} is being written by a run") from None
    finally:
        os.close(descriptor)
