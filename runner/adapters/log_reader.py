"""Read a session's log line by line, checking that it is the one that was written.

A log is whole when every line ends with a newline and is one event in printable ASCII, `seq` counts
from 0 without a gap, `prev` is the hash of the line before and `parentId` its id. What follows the
last newline is a torn tail: the write that a kill interrupted. Everything else that does not fit is
damage. A line counts only after the next one has vouched for it by its `prev`; behind the last one
there is nothing that could.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NoReturn

from runner.adapters.spill import MAX_LINE_BYTES, restore
from runner.core import events
from runner.core.events import EPHEMERAL_TYPES, Record

LOG = "events.jsonl"

_UNWRITTEN = re.compile(rb"[^\x20-\x7f]")
"""Bytes that no line holds as it is written."""


class LogDamaged(Exception):
    """A line of a log is not what was written: which, where it begins, and what to do."""

    def __init__(self, path: Path, line: int, offset: int, problem: str) -> None:
        home, session_id = shlex.quote(str(path.parent.parent.parent)), path.parent.name
        super().__init__(
            f"{path}:{line}: at byte {offset}: {problem}\n"
            f"hint: `autopilot log recover {session_id} --salvage NEW_ID --home {home}` copies "
            "what stands before it into a new session"
        )
        self.line = line
        self.offset = offset
        self.problem = problem


class LogReader:
    """Iterates the records of one log; afterwards says where it ends.

    `seq` is the number of the next line, `head` the hash and `last_id` the id of the last one,
    `valid_bytes` where the last whole line ends, `torn_bytes` what follows it. Memory does not
    grow with the log.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG
        self.seq = 0
        self.head: str | None = None
        self.last_id: str | None = None
        self.valid_bytes = 0
        self.torn_bytes = 0
        self._folder = folder

    def __iter__(self) -> Iterator[Record]:
        """The records in order, unknown types left out.

        Raises `LogDamaged` at the first line that does not fit, `OSError` without a log.
        """
        with self.path.open("rb") as file:
            line = _Line.read(file)
            while line.is_whole:
                body = self._checked(line)
                record = self._record(body)
                following = _Line.read(file)
                self._hear(line, following, file)
                self.seq += 1
                self.head = line.digest
                self.last_id = body["id"]
                self.valid_bytes += len(line.raw)
                if record is not None:
                    yield record
                line = following
            self._end(file, len(line.raw))

    def _checked(self, line: _Line) -> dict[str, Any]:
        """The line's object, if it follows the one before."""
        body = line.body
        if body is None:
            self._refuse(line.problem)
        for key, wanted in (("seq", self.seq), ("prev", self.head), ("parentId", self.last_id)):
            if body.get(key) != wanted:
                self._refuse(f"`{key}` is {body.get(key)!r}, should be {wanted!r}")
        return body

    def _record(self, body: dict[str, Any]) -> Record | None:
        try:
            if not isinstance(body["id"], str) or not isinstance(body["type"], str):
                raise ValueError("`id` and `type` are no texts")
            if body["type"] in EPHEMERAL_TYPES:
                raise ValueError(f"{body['type']} is never written to a log")
            datetime.fromisoformat(body["timestamp"])
            return events.from_json(body | {"data": restore(body["data"], self._folder)})
        except (LookupError, TypeError, AttributeError, ValueError, OSError) as error:
            self._refuse(f"not an event: {error}")

    def _hear(self, line: _Line, following: _Line, file: IO[bytes]) -> None:
        """Refuse the line if the next one was written after another."""
        body = following.body
        if body is None or body.get("seq") != self.seq + 1 or body.get("prev") == line.digest:
            return
        # One of the two was changed: the next one, if the one behind it does not know it either.
        last = _Line.read(file)
        if last.body is None or last.body.get("prev") == following.digest:
            self._refuse("the line is not the one that the next line names in `prev`")

    def _end(self, file: IO[bytes], size: int) -> None:
        """A piece without its newline is the torn tail, unless more lines follow it."""
        while piece := file.readline(MAX_LINE_BYTES + 1):
            if piece.endswith(b"\n"):
                self._refuse(f"a line is longer than {MAX_LINE_BYTES} bytes")
            size += len(piece)
        self.torn_bytes = size

    def _refuse(self, problem: str) -> NoReturn:
        raise LogDamaged(self.path, self.seq + 1, self.valid_bytes, problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line as it stands there; `body` is None when it is no JSON object, see `problem`."""

    raw: bytes
    digest: str
    body: dict[str, Any] | None
    problem: str

    @classmethod
    def read(cls, file: IO[bytes]) -> _Line:
        """The next line, or the first piece of one that is too long."""
        raw = file.readline(MAX_LINE_BYTES + 1)
        body, problem = _parse(raw[:-1]) if raw.endswith(b"\n") else (None, "")
        digest = hashlib.sha256(raw[:-1]).hexdigest()
        return cls(raw=raw, digest=digest, body=body, problem=problem)

    @property
    def is_whole(self) -> bool:
        return self.raw.endswith(b"\n")


def _parse(text: bytes) -> tuple[dict[str, Any] | None, str]:
    if b"\0" in text:
        return None, "the line holds NUL bytes"
    if found := _UNWRITTEN.search(text):
        return None, f"the line holds the byte 0x{found[0].hex()}, which is never written"
    try:
        body = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return None, f"not one JSON object: {error}"
    return (body, "") if isinstance(body, dict) else (None, "not a JSON object")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
