"""Make what a killed run could not: its result, its patch, or a session that a damage ends.

Rules of this file: logs are only read, and a session that is being written is left alone; what is
written appears whole or not at all, and after everything it needs was read.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from runner.adapters import snapshot, workspace
from runner.adapters.durable import sync_folder, write_whole
from runner.adapters.journal import RESULT, SessionError, SessionExists, session_dir
from runner.adapters.log_reader import LOG, LogDamaged, LogReader
from runner.adapters.redact import NOTHING
from runner.adapters.redact_file import masked_changes
from runner.adapters.secret_values import mask_of
from runner.adapters.sessions import locked
from runner.adapters.spill import check
from runner.adapters.trees import copy_tree, remove_tree
from runner.adapters.workspace_diff import diff_json
from runner.core.endings import Ending
from runner.core.fold import apply
from runner.core.outcome import build_result, result_json
from runner.core.state import State
from runner.core.words import count

PATCH = "patch.diff"
CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a recovery found and wrote. `was_killed`: the log has no result of its own.

    `patch` says what became of the patch: how big it is, or why it was left or cannot be made.
    """

    lines: int
    torn_bytes: int
    was_killed: bool
    result: Mapping[str, Any]
    patch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """A new session that holds the lines before the damage of another."""

    folder: Path
    lines: int
    size_bytes: int
    damage: LogDamaged


async def recover(
    folder: Path, *, environ: Mapping[str, str], timeout_s: float = 60.0
) -> Recovered:
    """Write `patch.diff`, then `result.json`, from what the log says.

    The secrets that the run had are masked in the patch; there is none while one of them is not
    in `environ`.
    Raises `SessionLocked` while a run writes the session, `LogDamaged`, `SessionError` when its
    log cannot be read, `OSError` when one of the two cannot be written.
    """
    with locked(folder):
        reader = LogReader(folder)
        state, last = _fold(reader)
        diff, patch = None, f"{PATCH} is as the run left it"
        if state.result is None or not (folder / PATCH).exists():
            diff, patch = await _write_patch(folder, state, environ, timeout_s)
        result = state.result or _killed_result(folder.name, state, reader, last, diff)
        write_whole(folder / RESULT, json.dumps(result, indent=2).encode() + b"\n")
    return Recovered(
        lines=reader.seq,
        torn_bytes=reader.torn_bytes,
        was_killed=state.result is None,
        result=result,
        patch=patch,
    )


def salvage(folder: Path, new_id: str) -> Salvaged:
    """Make the session `new_id` beside a damaged one, out of everything before the damage.

    Raises `SessionLocked` while a run writes the session, `SessionExists`, and `SessionError` when
    there is nothing to salvage or the copy cannot be made; then there is no new session.
    """
    target = session_dir(folder.parent.parent, new_id)
    if target.exists():
        raise SessionExists(f"session {new_id} is already there, in {target}")
    with locked(folder):
        reader = LogReader(folder)
        damage = _damage(reader)
        if damage is None:
            raise SessionError(
                f"the log of {folder.name} is not damaged; `autopilot run SPEC --resume "
                f"{folder.name} --fork` goes on with a copy of it"
            )
        if reader.seq == 0:
            raise SessionError(f"nothing to salvage: line 1 is damaged: {damage.problem}")
        draft = target.with_name(f".{new_id}.part")
        try:
            _copy(folder, draft, reader.valid_bytes, new_id)
            draft.rename(target)
            sync_folder(target.parent)
        except (OSError, workspace.WorkspaceError) as error:
            raise SessionError(f"cannot copy {folder.name} to {target}: {error}") from error
        finally:
            _discard(draft)
    return Salvaged(folder=target, lines=reader.seq, size_bytes=reader.valid_bytes, damage=damage)


def _fold(reader: LogReader) -> tuple[State, str]:
    """The state at the end of the log, and the type of its last event."""
    state, last = State(), "nothing"
    try:
        for record in reader:
            state, last = apply(state, record), record.event.type
    except OSError as error:
        raise SessionError(f"cannot read {reader.path}: {error.strerror}") from error
    except ValueError as error:  # a spec that this version does not know
        raise SessionError(f"{reader.path}:{reader.seq}: {error}") from error
    return state, last


def _killed_result(
    session_id: str, state: State, reader: LogReader, last: str, diff: Mapping[str, Any] | None
) -> dict[str, Any]:
    ending = Ending(
        subtype="error_during_execution",
        error_type="terminated",
        message=f"The run was killed; its log ends after line {reader.seq} ({last}). "
        f"`autopilot run SPEC --resume {session_id}` goes on from there.",
    )
    result = build_result(
        state,
        ending,
        session_id=session_id,
        uuid=str(
            uuid.uuid5(uuid.NAMESPACE_OID, f"{session_id} {reader.head}")
        ),  # as often as asked
        log_head=reader.head,
        workspace_diff=diff,
    )
    return result_json(result)


async def _write_patch(
    folder: Path, state: State, environ: Mapping[str, str], timeout_s: float
) -> tuple[Mapping[str, Any] | None, str]:
    """The diff as it stands in a result, and what to say about it."""
    spec = state.spec
    missing = [name for name in spec.secrets if name not in environ] if spec else []
    if missing:
        return None, f"not made: set {', '.join(missing)}, to be masked in it, and recover again"
    mask = mask_of(spec, environ) if spec else NOTHING
    known = snapshot.reopen(folder / "git")
    if isinstance(known, snapshot.Unavailable):
        return None, known.reason
    own = (folder / "workspace").resolve()
    if own.is_dir() and own != known.workspace:  # a copy that was moved with its session
        checkout = own if known.checkout == known.workspace else known.checkout
        known = replace(known, workspace=own, checkout=checkout)
    if not known.workspace.is_dir():
        return None, f"the workspace {known.workspace} is not there"
    found, held_secrets = await masked_changes(
        known,
        folder / PATCH,
        mask,
        timeout_s=timeout_s,
        search_path=environ.get("PATH", os.defpath),
    )
    if isinstance(found, snapshot.Unavailable):
        return None, found.reason
    told = f"{count(len(found.files), 'file')}, +{found.lines_added} -{found.lines_removed}"
    note = "; secrets are masked in it, so it may not apply" if held_secrets else ""
    return mask.value(diff_json(found)), told + note


def _damage(reader: LogReader) -> LogDamaged | None:
    try:
        for _ in reader:
            pass
    except LogDamaged as damage:
        return damage
    except OSError as error:
        raise SessionError(f"cannot read {reader.path}: {error.strerror}") from error
    return None


def _copy(folder: Path, draft: Path, valid_bytes: int, new_id: str) -> None:
    """The session up to there, under another id: what a resumed run needs of it, and no more."""
    _discard(draft)  # of a salvage that was killed
    draft.mkdir(mode=0o700)
    _copy_log(folder / LOG, draft / LOG, valid_bytes)
    (draft / "files").mkdir(mode=0o700)
    for path in (folder / "files").glob("*"):
        with suppress(OSError, ValueError):  # a file that is not what its name says stays behind
            check(f"files/{path.name}", folder)
            shutil.copyfile(path, draft / "files" / path.name)
            (draft / "files" / path.name).chmod(0o600)
    if (folder / "git").is_dir():
        copy_tree(folder / "git", draft / "git")
    if (folder / "workspace").is_dir():
        workspace.prepare(folder / "workspace", "copy", draft / "workspace")
    try:
        about = yaml.safe_load((folder / "workspace.yaml").read_bytes())
    except (OSError, yaml.YAMLError, ValueError):
        about = None
    known = about if isinstance(about, dict) else {}
    text = yaml.safe_dump({**known, "id": new_id, "salvaged_from": folder.name}, sort_keys=False)
    write_whole(draft / "workspace.yaml", text.encode())


def _discard(draft: Path) -> None:
    with suppress(OSError):
        remove_tree(draft)


def _copy_log(source: Path, target: Path, size_bytes: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with source.open("rb") as old, os.fdopen(os.open(target, flags, 0o600), "wb") as new:
        while size_bytes > 0 and (piece := old.read(min(CHUNK_BYTES, size_bytes))):
            new.write(piece)
            size_bytes -= len(piece)
        new.flush()
        os.fsync(new.fileno())
