"""The session folder and its log: one event, one ASCII JSON line, one durable write.

A line's `prev` is the SHA-256 of the line before it, without its newline.

Rules of this file: nothing is ever rewritten; a failed write or sync kills the journal and is
never retried; readers split on newline bytes and nothing else.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import select
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from runner.adapters.durable import sync_folder, write_pieces, write_whole
from runner.adapters.log_reader import LOG, LogDamaged, LogReader
from runner.adapters.spill import MAX_LINE_BYTES, shorten
from runner.core import events
from runner.core.events import Event, Persisted, Record, RunnerLogRecovered
from runner.core.spec import Durability
from runner.ports import Clock, JournalError

SESSIONS = "session-state"
RESULT = "result.json"
__all__ = [
    "LOG",
    "RESULT",
    "SESSIONS",
    "FileJournal",
    "LogDamaged",
    "SessionError",
    "SessionExists",
    "SessionLocked",
    "read_log",
    "session_dir",
]

SESSION_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
LOCK_TRIES, LOCK_WAIT_S = 5, 0.02
CHUNK_BYTES = 1024 * 1024
BARRIERS = ("assistant.turn_start", "tool.execution_start", "session.usage_checkpoint")
"""Events that are durable before what follows them, in durability `barrier`."""


class SessionError(Exception):
    """A session folder cannot be used; the message says which and why."""


class SessionLocked(SessionError):
    """Another run is writing this session."""


class SessionExists(SessionError):
    """A session of this id is already there."""


class FileJournal:
    """The `Journal` of a real run: holds the lock and the log of one session folder."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        durability: Durability = "event",
        reopen: bool = False,
    ) -> None:
        """Take the folder's lock and open its log: a new one, or with `reopen` the one that is
        there, which must be replayed before anything is appended. Raises `SessionError`, and
        `JournalError` when a log that is there cannot be written."""
        self.folder = folder
        self.files = folder / "files"
        self._clock = clock
        self._new_id = new_id
        self._durability = durability
        self._seq = 0
        self._head: str | None = None
        self._last_id: str | None = None
        self._broken: str | None = None
        self._size = 0
        self.torn: RunnerLogRecovered | None = None
        try:
            self._lock = _lock(folder)
        except OSError as error:
            raise SessionError(f"cannot write {folder}: {error.strerror}") from error
        try:
            self._log = _open(folder) if reopen else _create(folder)
            self._size = os.fstat(self._log).st_size
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def head(self) -> str | None:
        """SHA-256 of the last line written."""
        return self._head

    @property
    def lines(self) -> int:
        """How many lines the log has."""
        return self._seq

    def replay(self) -> Iterator[Record]:
        """The records that are there, streamed; afterwards the next line follows them.

        A torn tail is set aside first, see `torn`. Raises `LogDamaged`, and `JournalError` when
        the disk does not give the log, or does not let it be repaired.
        """
        reader = LogReader(self.folder)
        try:
            yield from reader
        except OSError as error:
            raise JournalError(f"cannot read {self.folder / LOG}: {error}") from error
        self._seq, self._head, self._last_id = reader.seq, reader.head, reader.last_id
        if reader.torn_bytes:
            self.torn = self._set_aside(reader.valid_bytes, reader.torn_bytes)

    def _set_aside(self, offset: int, size: int) -> RunnerLogRecovered:
        """Keep the piece of a line that a kill left, and cut it off. Raises `JournalError`."""
        name = f"torn/{offset}"
        try:
            (self.folder / "torn").mkdir(mode=0o700, exist_ok=True)
            with (self.folder / LOG).open("rb") as log:
                log.seek(offset)
                pieces = iter(partial(log.read, CHUNK_BYTES), b"")
                write_pieces(self.folder / name, pieces)  # a tail may be larger than memory
            os.ftruncate(self._log, offset)
            self._size = offset
            os.fsync(self._log)
        except OSError as error:
            raise JournalError(f"cannot repair {self.folder / LOG}: {error}") from error
        return RunnerLogRecovered(offset=offset, torn_bytes=size, torn_file=name)

    def retire_result(self) -> None:
        """Move the result of an earlier run out of the way: this one has none yet.

        Raises `JournalError`.
        """
        try:
            with suppress(FileNotFoundError):
                (self.folder / RESULT).rename(self._retired)
        except OSError as error:
            raise JournalError(f"cannot move {self.folder / RESULT}: {error}") from error

    @property
    def has_retired_result(self) -> bool:
        """Whether the result of the run that ended at this line was moved out of the way."""
        return self._retired.exists()

    @property
    def _retired(self) -> Path:
        return self.folder / f"result-{self._seq}.json"

    def append(self, event: Persisted, agent_id: str | None = None) -> Record:
        """Write one line, durably, and return it. Raises `JournalError`; `ValueError` for a NaN."""
        if self._broken is not None:
            raise JournalError(self._broken)
        record = Record(
            id=self._new_id(),
            timestamp=self._clock.now(),
            parent_id=self._last_id,
            agent_id=agent_id,
            seq=self._seq,
            prev=self._head,
            event=event,
        )
        try:
            line = self._line(record)
            written = os.write(self._log, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, f"short write, {written} of {len(line)} bytes")
            if self._must_sync(event.type):
                os.fdatasync(self._log)
            self._check_place(len(line))
        except OSError as error:
            self._broken = f"cannot write {self.folder / LOG}: {error}"
            raise JournalError(self._broken) from error
        self._seq += 1
        self._head = hashlib.sha256(line[:-1]).hexdigest()
        self._last_id = record.id
        return record

    def _check_place(self, written: int) -> None:
        """Raises `OSError` when somebody removed or cut the log under the run."""
        self._size += written
        now = os.fstat(self._log)
        if now.st_nlink == 0 or now.st_size != self._size:
            raise OSError(errno.EIO, "the log was removed or changed by somebody else")

    def stamp(self, event: Event, agent_id: str | None = None) -> Record:
        """The envelope of an ephemeral event; writes nothing."""
        return Record(
            id=self._new_id(),
            timestamp=self._clock.now(),
            parent_id=self._last_id,
            agent_id=agent_id,
            event=event,
        )

    def write_result(self, result: dict[str, Any]) -> None:
        """Put `result.json` there, whole or not at all. Raises `JournalError`."""
        try:
            write_whole(self.folder / RESULT, json.dumps(result, indent=2).encode() + b"\n")
        except OSError as error:
            raise JournalError(f"cannot write {self.folder / RESULT}: {error}") from error

    def write_workspace(self, *, session_id: str, cwd: Path, name: str) -> None:
        """Describe the session in `workspace.yaml`. Raises `SessionError`."""
        now = self._clock.now()
        about = {"id": session_id, "cwd": str(cwd), "name": name}
        text = yaml.safe_dump(about | {"created_at": now, "updated_at": now}, sort_keys=False)
        try:
            write_whole(self.folder / "workspace.yaml", text.encode())
        except OSError as error:
            raise SessionError(f"cannot write {self.folder}: {error.strerror}") from error

    def close(self) -> None:
        """Let go of log and lock."""
        os.close(self._log)
        fcntl.flock(self._lock, fcntl.LOCK_UN)  # closing it alone leaves it with forks of a host
        os.close(self._lock)

    def _line(self, record: Record) -> bytes:
        body = events.to_json(record)
        room = MAX_LINE_BYTES - len(json.dumps(body | {"data": None}))
        body["data"] = shorten(body["data"], self.files, room)
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"

    def _must_sync(self, event_type: str) -> bool:
        if self._durability == "barrier":
            return event_type in BARRIERS or event_type.startswith("runner.")
        return self._durability == "event"


def read_log(folder: Path) -> Iterator[Record]:
    """The records of a session, streamed and checked. Unknown event types are skipped.

    Raises `LogDamaged` at a line that is not what was written, `SessionError` without a log.
    """
    if not (folder / LOG).exists():
        raise SessionError(f"no log at {folder / LOG}")
    yield from LogReader(folder)


def session_dir(home: Path, session_id: str) -> Path:
    """The folder of a session. Raises `SessionError` when the id is not a safe name."""
    if not SESSION_ID.fullmatch(session_id):
        raise SessionError(
            f"`{session_id}` is no session id: letters, digits, `.`, `_`, `-`, not starting with "
            "a dot, at most 128"
        )
    return home / SESSIONS / session_id


def _lock(folder: Path) -> int:
    for parent in reversed((folder, *folder.parents)):  # `parents=True` has no mode for them
        if not parent.exists():
            parent.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(LOCK_TRIES):  # a command that only looks holds it for a moment
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        select.select([], [], [], LOCK_WAIT_S)
    os.close(descriptor)
    raise SessionLocked(f"session {folder.name} is being written by another run")


def _open(folder: Path) -> int:
    try:
        return os.open(folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except OSError as error:
        raise JournalError(f"cannot write {folder / LOG}: {error}") from error


def _create(folder: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        (folder / "files").mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(folder / LOG, flags, 0o600)
        sync_folder(folder)
    except FileExistsError:
        raise SessionExists(
            f"session {folder.name} is already there, in {folder}; give the new one another id"
        ) from None
    except OSError as error:
        raise SessionError(f"cannot write {folder}: {error.strerror}") from error
    return descriptor
