"""The sessions on a machine: found by a beginning, listed newest first, removed safely."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.adapters.journal import SessionError, SessionLocked
from runner.adapters.sessions import (
    default_home,
    find_session,
    list_sessions,
    newest_session,
    read_result,
    remove_session,
)


def make(
    home: Path,
    name: str,
    *,
    created_at: str = "2026-01-01T00:00:00.000Z",
    subtype: str | None = "success",
) -> Path:
    """A session folder with the files a run leaves."""
    folder = home / "session-state" / name
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    (folder / "events.jsonl").write_text("{}\n")
    about = f"id: {name}\ncwd: /src\nname: task-{name}\ncreated_at: '{created_at}'\n"
    (folder / "workspace.yaml").write_text(about)
    if subtype is not None:
        (folder / "result.json").write_text(json.dumps({"subtype": subtype}))
    return folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the session's lock, as a run does."""
    descriptor = os.open(folder / "lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"AUTOPILOT_HOME": "/h", "XDG_STATE_HOME": "/x", "HOME": "/u"}, "/h"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/u"}, "/x/autopilot"),
        ({"HOME": "/u"}, "/u/.local/state/autopilot"),
        ({}, "/.local/state/autopilot"),
    ],
)
def test_home_is_the_variable_else_the_state_folder(environ: dict[str, str], home: str) -> None:
    """`AUTOPILOT_HOME` wins, then the platform's folder for state."""
    assert default_home(environ) == Path(home)


def test_sessions_are_listed_newest_first_with_their_ending(tmp_path: Path) -> None:
    """Finished, running and killed sessions are told apart."""
    make(tmp_path, "a", created_at="2026-01-01T00:00:00.000Z")
    killed = make(tmp_path, "b", created_at="2026-01-03T00:00:00.000Z", subtype=None)
    running = make(tmp_path, "c", created_at="2026-01-02T00:00:00.000Z", subtype=None)
    with locked(running):
        found = [(session.id, session.name, session.ending) for session in list_sessions(tmp_path)]
    assert found == [
        ("b", "task-b", "unfinished"),
        ("c", "task-c", "running"),
        ("a", "task-a", "success"),
    ]
    assert killed.exists()


def test_a_home_that_is_not_there_has_no_sessions(tmp_path: Path) -> None:
    """Nothing was run yet: that is no error."""
    assert list_sessions(tmp_path / "none") == []


def test_a_broken_session_does_not_hide_the_others(tmp_path: Path) -> None:
    """Unreadable papers are shown as unknown, next to sessions that are whole."""
    make(tmp_path, "good")
    broken = make(tmp_path, "broken")
    (broken / "workspace.yaml").write_text("{: [")
    (broken / "result.json").write_text("[]")
    (tmp_path / "session-state" / "empty").mkdir()
    (tmp_path / "session-state" / "not a session").mkdir()
    (tmp_path / "session-state" / "link").symlink_to(broken)
    found = {session.id: (session.name, session.ending) for session in list_sessions(tmp_path)}
    assert found == {
        "good": ("task-good", "success"),
        "broken": ("?", "unfinished"),
        "empty": ("?", "unfinished"),
    }


def test_a_session_is_found_by_its_id_or_by_a_beginning_only_it_has(tmp_path: Path) -> None:
    """An exact id wins over longer ones that begin with it."""
    for name in ("abc", "abcd", "xyz"):
        make(tmp_path, name)
    assert [find_session(tmp_path, wanted).name for wanted in ("abc", "abcd", "x")] == [
        "abc",
        "abcd",
        "xyz",
    ]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("a", "`a` is the beginning of 2 ids: abc, abd"),
        ("zzz", "no session `zzz` in HOME/session-state"),
        ("", "no session `` in HOME/session-state"),
        ("../abc", "no session `../abc` in HOME/session-state"),
    ],
)
def test_a_wrong_id_is_refused_with_a_reason(tmp_path: Path, wanted: str, message: str) -> None:
    """Ambiguous, unknown, empty and path-like ids name what is wrong."""
    make(tmp_path, "abc")
    make(tmp_path, "abd")
    with pytest.raises(SessionError) as caught:
        find_session(tmp_path, wanted)
    assert str(caught.value) == message.replace("HOME", str(tmp_path))


def test_removing_takes_the_whole_folder(tmp_path: Path) -> None:
    """Log, files and the copy of the workspace are gone."""
    folder = make(tmp_path, "abc")
    (folder / "workspace").mkdir()
    remove_session(folder)
    assert not folder.exists()


def test_a_session_that_is_being_written_is_not_removed(tmp_path: Path) -> None:
    """A held lock refuses the removal and leaves everything as it is."""
    folder = make(tmp_path, "abc", subtype=None)
    with locked(folder), pytest.raises(SessionLocked):
        remove_session(folder)
    assert (folder / "events.jsonl").exists()


def test_a_session_without_a_lock_file_can_be_removed(tmp_path: Path) -> None:
    """A folder nobody ever wrote in is removed like any other."""
    folder = make(tmp_path, "abc")
    (folder / "lock").unlink()
    remove_session(folder)
    assert not folder.exists()


def test_a_home_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A file in the place of the folder is not taken for an empty list."""
    (tmp_path / "session-state").write_text("")
    with pytest.raises(SessionError, match=r"cannot read .*session-state: Not a directory"):
        list_sessions(tmp_path)


def test_a_result_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """A missing or torn result is none."""
    folder = make(tmp_path, "abc")
    assert read_result(folder) == {"subtype": "success"}
    (folder / "result.json").write_text('{"subtype": "succ')
    assert read_result(folder) is None
    (folder / "result.json").unlink()
    assert read_result(folder) is None


def test_the_newest_session_is_one_of_the_same_task(tmp_path: Path) -> None:
    """Another task's session in the same folder is never gone on with; it is named instead."""
    for number, (name, cwd) in enumerate((("a", "/w"), ("a", "/w"), ("b", "/w"), ("a", "/v"))):
        folder = tmp_path / "session-state" / f"s{number}"
        folder.mkdir(parents=True)
        about = f"id: s{number}\ncwd: {cwd}\nname: {name}\ncreated_at: '2026-01-0{number + 1}'\n"
        (folder / "workspace.yaml").write_text(about)
    assert newest_session(tmp_path, Path("/w"), "a").id == "s1"
    with pytest.raises(SessionError, match=r"`c` in the workspace /w .*sessions of `a`, `b`, to"):
        newest_session(tmp_path, Path("/w"), "c")
    with pytest.raises(SessionError, match=r"`a` in the workspace /u in [^;]*$"):
        newest_session(tmp_path, Path("/u"), "a")
