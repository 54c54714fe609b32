"""Read a session's log line by line, checking that it is the one that was written.

A log is whole when every line ends with a newline and is one event, `seq` counts from 0 without a
gap, `prev` is the hash of the line before and `parentId` its id. What follows the last newline is a
torn tail: the write that a kill interrupted. Everything else that does not fit is damage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from runner.adapters.spill import MAX_LINE_BYTES, restore
from runner.core import events
from runner.core.events import Record

LOG = "events.jsonl"


class LogDamaged(Exception):
    """A line of a log is not what was written."""

    def __init__(self, path: Path, line: int, offset: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: at byte {offset}: {problem}")
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
            while line := file.readline(MAX_LINE_BYTES + 1):
                if not line.endswith(b"\n"):
                    self._end(file, line)
                    return
                record = self._check(line)
                self.valid_bytes += len(line)
                if record is not None:
                    yield record

    def _end(self, file: IO[bytes], line: bytes) -> None:
        """A piece without its newline is the torn tail, unless more lines follow it."""
        size = len(line)
        while piece := file.readline(MAX_LINE_BYTES + 1):
            if piece.endswith(b"\n"):
                raise self._damage(f"a line is longer than {MAX_LINE_BYTES} bytes")
            size += len(piece)
        self.torn_bytes = size

    def _check(self, line: bytes) -> Record | None:
        body = self._parse(line)
        for key, wanted in (("seq", self.seq), ("prev", self.head), ("parentId", self.last_id)):
            if body.get(key) != wanted:
                raise self._damage(f"`{key}` is {body.get(key)!r}, should be {wanted!r}")
        try:
            body["data"] = restore(body["data"], self._folder)
            record = events.from_json(body)
        except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:
            raise self._damage(f"not an event: {error}") from error
        self.seq += 1
        self.head = hashlib.sha256(line[:-1]).hexdigest()
        self.last_id = body["id"]
        return record

    def _parse(self, line: bytes) -> dict[str, Any]:
        if b"\0" in line:
            raise self._damage("the line holds NUL bytes")
        try:
            body = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._damage(f"not one JSON object: {error}") from error
        if not isinstance(body, dict):
            raise self._damage("not a JSON object")
        return body

    def _damage(self, problem: str) -> LogDamaged:
        return LogDamaged(self.path, self.seq + 1, self.valid_bytes, problem)
