"""Sessions on disk that the real journal wrote, and their logs taken apart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from runner.adapters.journal import FileJournal
from runner.core.events import Event, Persisted
from runner.core.spec import Durability
from tests.fakes import FakeClock, counted_ids

ODD = "\x00\x1b[2J\r\n\u2028\u0085\ud83d é 🙂 ~/ \ud800"
"""Text that is hard to keep: NUL, controls, line ends that are none, halves of characters."""


def open_journal(folder: Path, durability: Durability = "off") -> FileJournal:
    """A journal of a new session, with counted ids and a clock that stands still."""
    return FileJournal(folder, clock=FakeClock(), new_id=counted_ids(), durability=durability)


def write_log(folder: Path, events: Iterable[Event]) -> Path:
    """The session that these events are, the ephemeral ones left out."""
    journal = open_journal(folder)
    for event in events:
        if isinstance(event, Persisted):
            journal.append(event)
    journal.close()
    return folder


def lines_of(log: bytes) -> list[bytes]:
    """The lines of a log, each with its newline; a torn piece comes last."""
    return [line for line in log.splitlines(keepends=True) if line]


def chained(bodies: Iterable[dict[str, Any]]) -> bytes:
    """A log of these objects, their `seq`, `prev` and `parentId` made to fit."""
    log, prev, parent = b"", None, None
    for seq, body in enumerate(bodies):
        fitted = {**body, "seq": seq, "prev": prev, "parentId": parent}
        line = json.dumps(fitted, separators=(",", ":")).encode()
        log += line + b"\n"
        prev, parent = hashlib.sha256(line).hexdigest(), body["id"]
    return log
