"""The log as it is written: envelope, durability, size, modes, lock, names."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.adapters.journal import (
    LOG,
    SessionError,
    SessionExists,
    SessionLocked,
    read_log,
    session_dir,
)
from runner.adapters.spill import MAX_LINE_BYTES
from runner.core.events import (
    AssistantTurnEnd,
    AssistantTurnStart,
    Event,
    Persisted,
    RunnerResult,
    SessionIdle,
    SessionInfo,
    SessionResume,
    SessionUsageCheckpoint,
    ToolContent,
    ToolExecutionComplete,
    ToolExecutionStart,
)
from runner.core.spec import Durability
from runner.ports import JournalError
from tests.sample_run import ok, reply, tidy_run
from tests.written import ODD, lines_of, open_journal, write_log

Call = tuple[str, int]
INFO = SessionInfo(info_type="x", message="Hello.")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """The writes and syncs of this process, in order, each with its size or 0."""
    made: list[Call] = []

    def watch(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def called(descriptor: int, *arguments: Any) -> Any:
            made.append((name, len(arguments[0]) if arguments else 0))
            return real(descriptor, *arguments)

        return called

    for name in ("write", "fsync", "fdatasync"):
        monkeypatch.setattr(os, name, watch(name))
    return made


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """This process with another umask."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    """The permission bits of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


# -- lines ---------------------------------------------------------------------------------------


def test_every_line_is_chained_to_the_one_before(tmp_path: Path) -> None:
    """`seq` counts from 0; `prev` is the hash, `parentId` the id of the line before, null first."""
    lines = lines_of((write_log(tmp_path, tidy_run()) / LOG).read_bytes())
    bodies = [json.loads(line) for line in lines]
    hashes = [hashlib.sha256(line[:-1]).hexdigest() for line in lines]
    assert [body["seq"] for body in bodies] == list(range(len(lines)))
    assert [body["prev"] for body in bodies] == [None, *hashes[:-1]]
    assert [body["parentId"] for body in bodies] == [None, *(b["id"] for b in bodies[:-1])]


def test_the_envelope_is_the_documented_one(tmp_path: Path) -> None:
    """Id, time, parent, agent only for sub-agents, number, chain, type, data: and no more."""
    journal = open_journal(tmp_path)
    journal.append(INFO)
    journal.append(INFO, "agent-1")
    journal.close()
    first, second = lines_of((tmp_path / LOG).read_bytes())
    assert json.loads(second) == {
        "id": "00000000-0000-4000-8000-000000000002",
        "timestamp": "2026-01-02T03:04:05.000Z",
        "parentId": "00000000-0000-4000-8000-000000000001",
        "agentId": "agent-1",
        "seq": 1,
        "prev": hashlib.sha256(first[:-1]).hexdigest(),
        "type": "session.info",
        "data": {"infoType": "x", "message": "Hello."},
    }
    assert "agentId" not in json.loads(first)


def test_what_is_returned_is_what_was_written(tmp_path: Path) -> None:
    """The records that were folded are the records that are read, and `head` is the last hash."""
    journal = open_journal(tmp_path)
    written = [journal.append(INFO), journal.append(INFO, "agent-1")]
    last = lines_of((tmp_path / LOG).read_bytes())[-1][:-1]
    assert journal.head == hashlib.sha256(last).hexdigest()
    journal.close()
    assert list(read_log(tmp_path)) == written


def test_a_number_that_is_no_json_is_a_bug_and_not_a_full_disk(tmp_path: Path) -> None:
    """Nothing is written, and the log goes on: the bug can still be recorded."""
    journal = open_journal(tmp_path)
    event = SessionResume(
        session_id="s",
        resume_time="now",
        event_count=0,
        selected_model="m",
        carries=True,
        note="",
        context={"share": float("nan")},
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append(event)
    journal.append(replace(event, context=None))
    journal.close()
    assert [line["seq"] for line in map(json.loads, lines_of((tmp_path / LOG).read_bytes()))] == [0]


def test_an_event_that_is_only_shown_is_not_written(tmp_path: Path, calls: list[Call]) -> None:
    """It hangs on the last line by its parent, has no number, and leaves the disk alone."""
    journal = open_journal(tmp_path)
    record = journal.append(INFO)
    calls.clear()
    shown = journal.stamp(SessionIdle())
    journal.close()
    assert (shown.parent_id, shown.seq, shown.prev) == (record.id, None, None)
    assert calls == []


def test_any_text_is_one_ascii_line_and_reads_back(tmp_path: Path) -> None:
    """Line ends of every kind, NUL, controls and halves of characters stay inside the line."""
    event = SessionInfo(info_type="x", message=ODD)
    log = (write_log(tmp_path, [event, event]) / LOG).read_bytes()
    assert log.isascii()
    assert len(log.splitlines()) == log.count(b"\n") == 2
    assert [record.event for record in read_log(tmp_path)] == [event, event]


# -- durability ----------------------------------------------------------------------------------

ALL: list[Event] = [*reply(0, "Hi.", ("c", "Read", {})), *ok("c", "Read", {}, "x", 0)]
SYNCED: dict[Durability, set[type]] = {
    "event": {type(event) for event in ALL} | {AssistantTurnEnd, RunnerResult},
    "barrier": {AssistantTurnStart, SessionUsageCheckpoint, ToolExecutionStart, RunnerResult},
    "off": set(),
}


@pytest.mark.parametrize("durability", SYNCED)
def test_an_event_is_one_write_and_at_most_one_sync(
    tmp_path: Path, calls: list[Call], durability: Durability
) -> None:
    """The whole line in one write, then one fdatasync when the level asks for it."""
    write_log(tmp_path / "all", ALL)
    sizes = [len(line) for line in lines_of((tmp_path / "all" / LOG).read_bytes())]
    journal = open_journal(tmp_path / durability, durability)
    done = [record.event for record in read_log(tmp_path / "all")]
    calls.clear()
    for event in done:
        assert isinstance(event, Persisted)
        journal.append(event)
    wanted: list[Call] = []
    for event, size in zip(done, sizes, strict=True):
        wanted.append(("write", size))
        wanted += [("fdatasync", 0)] * (type(event) in SYNCED[durability])
    assert calls == wanted
    journal.close()


def test_a_moved_text_is_durable_before_the_line_that_names_it(
    tmp_path: Path, calls: list[Call]
) -> None:
    """Its file is synced, then its folder, and only then the line is written."""
    journal = open_journal(tmp_path, "event")
    calls.clear()
    journal.append(SessionInfo(info_type="x", message="x" * MAX_LINE_BYTES))
    journal.close()
    assert [name for name, _ in calls] == ["fsync", "fsync", "write", "fdatasync"]


# -- size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 260_000, 262_144, 262_145, 5_000_000])
@pytest.mark.parametrize("unit", ["x", "🙂", "\ud800", "\n"], ids=ascii)
def test_no_line_is_longer_than_the_cap(tmp_path: Path, unit: str, size: int) -> None:
    """Whatever the text, the line is short enough, and the text reads back exactly."""
    text = unit * (size // len(json.dumps(unit)[1:-1]))
    events: list[Event] = [
        SessionInfo(info_type="x", message=text),
        ToolExecutionComplete(
            tool_call_id="c",
            tool_name="Bash",
            success=True,
            turn_id="0",
            result=ToolContent(content=text, detailed_content=text + "!"),
        ),
    ]
    log = (write_log(tmp_path, events) / LOG).read_bytes()
    assert max(len(line) for line in lines_of(log)) <= MAX_LINE_BYTES
    assert [record.event for record in read_log(tmp_path)] == events


def test_a_result_with_ten_thousand_changed_files_is_written(tmp_path: Path) -> None:
    """No text in it is long; the list moves to a file, and the result reads back whole."""
    files = [{"path": f"src/generated/module_{n}.py", "status": "added"} for n in range(10_000)]
    result = {"type": "result", "workspace_diff": {"files": files}}
    log = (write_log(tmp_path, [RunnerResult(result=result)]) / LOG).read_bytes()
    assert len(log) < 2000
    assert [record.event for record in read_log(tmp_path)] == [RunnerResult(result=result)]


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_session_is_its_users_alone(tmp_path: Path, mask: int) -> None:
    """Folders are 0700 and files 0600, whatever the umask leaves out."""
    folder = tmp_path / "home" / "session-state" / "s1"
    with umask(mask):
        journal = open_journal(folder)
        journal.append(SessionInfo(info_type="x", message="x" * MAX_LINE_BYTES))
        journal.write_workspace(session_id="s1", cwd=tmp_path, name="x")
        journal.write_result({"type": "result"})
        journal.close()
    found = {path.relative_to(folder).as_posix(): mode(path) for path in folder.rglob("*")}
    (spilled,) = (folder / "files").iterdir()
    assert mode(folder) == 0o700
    assert found == {
        "events.jsonl": 0o600,
        "files": 0o700,
        f"files/{spilled.name}": 0o600,
        "lock": 0o600,
        "result.json": 0o600,
        "workspace.yaml": 0o600,
    }


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The error says which folder and why."""
    (tmp_path / "home").write_text("a file")
    folder = tmp_path / "home" / "session-state" / "s1"
    with pytest.raises(SessionError, match=f"cannot write {folder}: Not a directory"):
        open_journal(folder)


# -- one writer ----------------------------------------------------------------------------------


def test_a_session_has_one_writer(tmp_path: Path) -> None:
    """A second one is refused while the first is there, and the log stays as it is."""
    journal = open_journal(tmp_path / "s1")
    journal.append(INFO)
    before = (tmp_path / "s1" / LOG).read_bytes()
    with pytest.raises(SessionLocked, match="session s1 is being written by another run"):
        open_journal(tmp_path / "s1")
    assert (tmp_path / "s1" / LOG).read_bytes() == before
    journal.append(INFO)
    journal.close()
    assert len(list(read_log(tmp_path / "s1"))) == 2


def test_a_finished_session_is_not_begun_again(tmp_path: Path) -> None:
    """Its id is taken, and its log stays as it is."""
    folder = write_log(tmp_path / "s1", [INFO])
    before = (folder / LOG).read_bytes()
    with pytest.raises(SessionExists, match="session s1 is already there"):
        open_journal(folder)
    assert (folder / LOG).read_bytes() == before


def test_a_child_that_outlives_the_run_does_not_hold_the_lock(tmp_path: Path) -> None:
    """What a tool started has neither the lock nor the log open."""
    journal = open_journal(tmp_path / "s1")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        opened = [str(link.readlink()) for link in Path(f"/proc/{child.pid}/fd").iterdir()]
        journal.close()
        assert [path for path in opened if str(tmp_path) in path] == []
        with pytest.raises(SessionExists):  # not: locked
            open_journal(tmp_path / "s1")
    finally:
        child.communicate(b"\n")


def test_a_run_of_another_session_is_not_in_the_way(tmp_path: Path) -> None:
    """Two sessions of one home are written side by side."""
    first, second = open_journal(tmp_path / "s1"), open_journal(tmp_path / "s2")
    for journal in (first, second, first):
        journal.append(INFO)
    first.close()
    second.close()
    assert [len(list(read_log(tmp_path / name))) for name in ("s1", "s2")] == [2, 1]


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("session_id", ["a", "5d0c-1", "a.b", "-", "x" * 128, "_1"])
def test_a_safe_name_is_a_session_id(tmp_path: Path, session_id: str) -> None:
    """Letters, digits, dots, dashes and underscores."""
    assert session_dir(tmp_path, session_id) == tmp_path / "session-state" / session_id


@pytest.mark.parametrize(
    "session_id", ["", ".", "..", ".a", "a/b", "/a", "a b", "é", "a\n", "x" * 129, "a\0", "a:b"]
)
def test_any_other_name_is_none(tmp_path: Path, session_id: str) -> None:
    """A name that could lead anywhere else is refused, with the rule."""
    with pytest.raises(SessionError, match="is no session id: letters, digits"):
        session_dir(tmp_path, session_id)


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, lambda log: log.write_bytes(b""), lambda log: log.write_bytes(b"x" * 9999)],
    ids=["removed", "emptied", "written over"],
)
def test_a_log_that_somebody_takes_away_stops_the_run(
    spoil: Callable[[Path], object], tmp_path: Path
) -> None:
    """The next fact is not taken for durable when the log is no longer the one that was written."""
    journal = open_journal(tmp_path / "s1")
    journal.append(INFO)
    spoil(tmp_path / "s1" / LOG)
    with pytest.raises(JournalError, match="removed or changed by somebody else"):
        journal.append(INFO)
    with pytest.raises(JournalError):
        journal.append(INFO)
    journal.close()
