"""Tell whether a session is what its run wrote: log, result and named files. Only reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from runner.adapters.journal import RESULT, SessionError
from runner.adapters.log_reader import LOG, LogDamaged, LogReader
from runner.adapters.spill import check
from runner.core.events import RunnerResult, SessionResume, ToolExecutionComplete

ResultStatus = Literal["equal", "recovered", "none", "missing", "differs", "unknown"]
"""`recovered`: made afterwards from a log without a result, and from all of it. `none`: neither
file nor log has one. `missing`: only the log has. `unknown`: the log is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The first line that is not what was written, and the byte it begins at."""

    line: int
    offset: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """A file that a line names and that is missing or holds something else."""

    line: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """What was found. `lines` are those before the damage or the tear, `head` is the last one's
    SHA-256, `bytes` is the size of the file and `valid_bytes` where those lines end."""

    session_id: str
    log: str
    lines: int
    bytes: int
    valid_bytes: int
    head: str | None
    torn_bytes: int
    damage: Damage | None
    result: ResultStatus
    files_named: int
    file_problems: tuple[FileProblem, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is not as it should be, a word or two each; empty when all is whole."""
        found = {
            "damaged": self.damage is not None,
            "torn": self.torn_bytes > 0,
            "result missing": self.result == "missing",
            "result differs": self.result == "differs",
            "files wrong": bool(self.file_problems),
        }
        return tuple(name for name, there in found.items() if there)


def check_log(folder: Path) -> LogReport:
    """Read a session once, line by line; memory does not grow with its log.

    Raises `SessionError` without a log that can be read.
    """
    reader, seen = LogReader(folder), _Seen(folder)
    damage, size = None, 0
    try:
        size = reader.path.stat().st_size
        for record in reader:
            seen.note(reader.seq, record.event)
    except LogDamaged as error:
        damage = Damage(line=error.line, offset=error.offset, problem=error.problem)
    except OSError as error:
        raise SessionError(f"cannot read {folder / LOG}: {error.strerror}") from error
    return LogReport(
        session_id=folder.name,
        log=str(reader.path),
        lines=reader.seq,
        bytes=size,
        valid_bytes=reader.valid_bytes,
        head=reader.head,
        torn_bytes=reader.torn_bytes,
        damage=damage,
        result="unknown" if damage else _compare(folder, seen.result, reader.head),
        files_named=len(seen.files),
        file_problems=tuple(seen.problems),
    )


class _Seen:
    """What the lines said that has to be compared with the rest of the folder."""

    def __init__(self, folder: Path) -> None:
        self.result: Mapping[str, Any] | None = None
        self.files: set[str] = set()
        self.problems: list[FileProblem] = []
        self._folder = folder

    def note(self, line: int, event: object) -> None:
        """Keep the result that stands, and look at each file once."""
        match event:
            case RunnerResult(result=result):
                self.result = result
            case SessionResume():
                self.result = None  # the part that follows has its own
            case ToolExecutionComplete(output_file=str(name)) if name not in self.files:
                self.files.add(name)
                try:
                    check(name, self._folder)
                except (OSError, ValueError) as error:
                    self.problems.append(FileProblem(line=line, problem=str(error)))


def _compare(folder: Path, logged: Mapping[str, Any] | None, head: str | None) -> ResultStatus:
    try:
        saved = json.loads((folder / RESULT).read_bytes())
    except FileNotFoundError:
        return "none" if logged is None else "missing"
    except (OSError, ValueError):
        return "differs"
    if logged is not None:
        return "equal" if saved == logged else "differs"
    return "recovered" if isinstance(saved, dict) and saved.get("log_head") == head else "differs"
