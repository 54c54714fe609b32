"""`autopilot log`: what is told about a session, and what is made of one that was killed."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from runner.adapters.log_reader import LogReader
from runner.cli import main
from runner.core.endings import Ending
from runner.core.events import RunnerResult, SessionResume
from runner.core.fold import fold
from runner.core.outcome import build_result, result_json
from tests.cli.test_commands import called, outcome
from tests.sample_run import start
from tests.written import lines_of, write_log

REPLIES = [
    {"tools": [{"name": "Write", "arguments": {"file_path": "b", "content": "one\ntwo\n"}}]},
    {"tools": [{"name": "Bash", "arguments": {"command": "seq 1 2000"}}]},
    {"tools": [{"name": "task_complete", "arguments": {"summary": "Done."}}]},
]
ZEROS = "0" * 64
Tree = dict[str, bytes]


@pytest.fixture
def session(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    """The folder of a run that wrote a file in a copy of its workspace and had a long output."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("hello\n")
    (tmp_path / "replies.yaml").write_text(json.dumps({"replies": REPLIES}))
    spec = {
        "name": "tidy",
        "prompt": "Tidy up.",
        "model": "scripted:replies.yaml",
        "workspace": {"path": "work", "isolation": "copy"},
        "permission_mode": "acceptEdits",
        "allowed_tools": ["Bash"],
        "limits": {"max_tool_output_bytes": 2000},
    }
    (tmp_path / "task.yaml").write_text(json.dumps(spec))
    home = tmp_path / "home"
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path / "task.yaml"), "--home", str(home), "--session-id", "s1"])
    capfd.readouterr()
    assert ended.value.code == 0
    return home / "session-state" / "s1"


def log_command(session: Path, *arguments: str) -> Result:
    """`autopilot log ARGUMENTS` in the home of this session."""
    return called("log", *arguments, home=session.parent.parent)


def report(session: Path) -> dict[str, Any]:
    """What `log check --format json` says."""
    told: dict[str, Any] = json.loads(
        log_command(session, "check", "s1", "--format", "json").stdout
    )
    return told


def tree(folder: Path) -> Tree:
    """Every file below, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def kill_after(session: Path, lines: int, torn: bytes = b"") -> bytes:
    """Leave the session as a kill would have left it then; the log as it is now."""
    log = b"".join(lines_of((session / "events.jsonl").read_bytes())[:lines]) + torn
    (session / "events.jsonl").write_bytes(log)
    for name in ("result.json", "patch.diff"):
        (session / name).unlink()
    return log


def rewrite(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the lines of a log."""
    path.write_bytes(b"".join(change(lines_of(path.read_bytes()))))


# -- check ---------------------------------------------------------------------------------------


def test_a_whole_session_is_code_0(session: Path) -> None:
    """Log, result and files are as the run left them, and the head is the anchor to keep."""
    reader = LogReader(session)
    lines = len(list(reader))
    size = (session / "events.jsonl").stat().st_size
    assert outcome(log_command(session, "check", "s")) == (
        0,
        "s1: whole\n"
        f"  log      {session / 'events.jsonl'}\n"
        f"  lines    {lines}, in {size} of {size} bytes\n"
        f"  head     {reader.head}\n"
        "  result   result.json is the log's\n"
        "  files    1 named, 0 wrong\n",
        "",
    )


def test_a_check_has_a_form_for_machines(session: Path) -> None:
    """One object with the same facts."""
    reader = LogReader(session)
    lines = len(list(reader))
    size = (session / "events.jsonl").stat().st_size
    assert report(session) == {
        "session_id": "s1",
        "log": str(session / "events.jsonl"),
        "problems": [],
        "lines": lines,
        "bytes": size,
        "valid_bytes": size,
        "head": reader.head,
        "torn_bytes": 0,
        "damage": None,
        "result": "equal",
        "files_named": 1,
        "file_problems": [],
    }


def test_a_check_changes_nothing(session: Path) -> None:
    """No file is made, written or removed."""
    before = tree(session)
    log_command(session, "check", "s1")
    assert tree(session) == before


def spoil_tail(session: Path) -> None:
    with (session / "events.jsonl").open("ab") as log:
        log.write(b'{"id":')


def spoil_line(session: Path) -> None:
    rewrite(session / "events.jsonl", lambda lines: [*lines[:4], *lines[5:]])


def spoil_result(session: Path) -> None:
    (session / "result.json").write_text('{"subtype": "success"}')


def remove_result(session: Path) -> None:
    (session / "result.json").unlink()


def change_file(session: Path) -> None:
    (path,) = (session / "files").iterdir()
    path.write_text("something else")


def remove_file(session: Path) -> None:
    (path,) = (session / "files").iterdir()
    path.unlink()


@pytest.mark.parametrize(
    ("spoil", "problem", "told"),
    [
        (spoil_tail, "torn", "  torn     6 bytes of a line that was not finished\n"),
        (spoil_line, "damaged", "`seq` is 5, should be 4\n"),
        (spoil_result, "result differs", "  result   result.json is not the log's\n"),
        (remove_result, "result missing", "  result   the log has one, result.json is missing\n"),
        (change_file, "files wrong", " holds something else: its SHA-256 is "),
        (remove_file, "files wrong", " is missing\n"),
    ],
)
def test_what_is_not_whole_is_code_1_and_named(
    session: Path, spoil: Callable[[Path], None], problem: str, told: str
) -> None:
    """The first line says what is wrong, a line of its own says more."""
    spoil(session)
    code, out, err = outcome(log_command(session, "check", "s1"))
    assert (code, err) == (1, "")
    assert out.startswith(f"s1: not whole: {problem}\n")
    assert told in out
    assert report(session)["problems"] == [problem]


def test_damage_comes_with_its_place_and_the_command_that_salvages(session: Path) -> None:
    """Line, byte, problem; and what to do about it, to be copied as it is."""
    lines = lines_of((session / "events.jsonl").read_bytes())
    spoil_line(session)
    offset = sum(map(len, lines[:4]))
    out = log_command(session, "check", "s1").stdout
    home = session.parent.parent
    assert f"  damage   line 5, byte {offset}: `seq` is 5, should be 4\n" in out
    assert f"  to do    `autopilot log recover s1 --salvage NEW_ID --home {home}` copies" in out
    assert report(session)["damage"] == {
        "line": 5,
        "offset": offset,
        "problem": "`seq` is 5, should be 4",
    }


def test_a_killed_run_is_whole_without_a_result(session: Path) -> None:
    """Nothing is wrong with a log that has no end yet."""
    kill_after(session, 12)
    assert log_command(session, "check", "s1").exit_code == 0
    assert report(session)["result"] == "none"


def test_the_result_of_an_earlier_part_does_not_stand(tmp_path: Path) -> None:
    """After a session was resumed its old result is not its result any more."""
    old = {"type": "result", "subtype": "success"}
    resume = SessionResume(
        session_id="s1", resume_time="x", event_count=6, selected_model="x", carries=True, note="x"
    )
    home = tmp_path / "session-state"
    session = write_log(home / "s1", [*start(), RunnerResult(result=old), resume])
    assert report(session)["result"] == "none"
    (session / "result.json").write_text(json.dumps(old))
    assert report(session)["result"] == "differs"


@pytest.mark.parametrize("command", ["check", "recover"])
def test_an_unknown_or_ambiguous_id_is_code_2(session: Path, command: str) -> None:
    """The candidates are named."""
    (session.parent / "s2").mkdir()
    code, out, err = outcome(log_command(session, command, "nope"))
    assert (code, out) == (2, "")
    assert "no session `nope`" in err
    code, out, err = outcome(log_command(session, command, "s"))
    assert (code, out) == (2, "")
    assert "`s` is the beginning of 2 ids: s1, s2" in err


@pytest.mark.parametrize("command", ["check", "recover"])
def test_a_session_without_a_log_is_code_1(session: Path, command: str) -> None:
    """The message names the file."""
    (session / "events.jsonl").unlink()
    code, out, err = outcome(log_command(session, command, "s1"))
    assert (code, out) == (1, "")
    assert f"cannot read {session / 'events.jsonl'}: No such file or directory" in err


# -- recover -------------------------------------------------------------------------------------


def test_a_killed_run_gets_its_result_and_patch(session: Path) -> None:
    """The result is the fold of the log and says that the run was killed; the log stays."""
    patch = (session / "patch.diff").read_bytes()
    ended = json.loads((session / "result.json").read_bytes())
    log = kill_after(session, 12)
    last = json.loads(lines_of(log)[-1])["type"]
    reader = LogReader(session)
    state = fold(reader)
    assert outcome(log_command(session, "recover", "s1")) == (
        0,
        "s1\n"
        "  log      12 lines: left as they are\n"
        "  result   written: error_during_execution, exit code 143: the run was killed\n"
        "  patch    1 file, +2 -0\n",
        "",
    )
    result = json.loads((session / "result.json").read_bytes())
    ending = Ending(
        subtype="error_during_execution",
        error_type="terminated",
        message=f"The run was killed; its log ends after line 12 ({last}). "
        "`autopilot run SPEC --resume s1` goes on from there.",
    )
    wanted = build_result(
        state,
        ending,
        session_id="s1",
        uuid=result["uuid"],
        log_head=reader.head,
        workspace_diff=ended["workspace_diff"],
    )
    assert result == json.loads(json.dumps(result_json(wanted)))
    assert (session / "patch.diff").read_bytes() == patch
    assert (session / "events.jsonl").read_bytes() == log
    assert stat.S_IMODE((session / "result.json").stat().st_mode) == 0o600
    assert (report(session)["problems"], report(session)["result"]) == ([], "recovered")


def test_recovering_twice_gives_the_same(session: Path) -> None:
    """The second time nothing is different, the id of the result included."""
    kill_after(session, 12)
    log_command(session, "recover", "s1")
    before = tree(session)
    assert log_command(session, "recover", "s1").exit_code == 0
    assert tree(session) == before


def test_a_result_that_the_log_has_is_written_exactly(session: Path) -> None:
    """A kill between the two leaves the run's own result to be found; its patch is not redone."""
    before = tree(session)
    (session / "result.json").unlink()
    (session / "workspace" / "later").write_text("changed after the run\n")
    code, out, _ = outcome(log_command(session, "recover", "s1"))
    assert (code, "success, exit code 0: as the log has it" in out) == (0, True)
    assert "  patch    patch.diff is as the run left it\n" in out
    assert tree(session) == before | {"workspace/later": b"changed after the run\n"}


def test_a_torn_tail_stays_where_it_is(session: Path) -> None:
    """The result is that of the whole lines; the piece is left for the run that goes on."""
    log = kill_after(session, 12, torn=b'{"id":"0')
    out = log_command(session, "recover", "s1").stdout
    assert "  log      12 lines, and 8 bytes of a torn one: left as they are\n" in out
    assert (session / "events.jsonl").read_bytes() == log
    assert report(session)["problems"] == ["torn"]


@pytest.mark.parametrize("lines", [0, 1, 2, 5])
def test_a_run_killed_at_its_very_start_gets_a_result(session: Path, lines: int) -> None:
    """Even of an empty log there is an honest one."""
    kill_after(session, lines)
    assert log_command(session, "recover", "s1").exit_code == 0
    result = json.loads((session / "result.json").read_bytes())
    assert (result["error_type"], result["num_llm_calls"]) == ("terminated", 0)
    assert report(session)["result"] == "recovered"


def test_the_copy_of_a_moved_session_is_what_the_patch_is_made_of(session: Path) -> None:
    """A session folder that was taken to another place has its workspace with it."""
    patch = (session / "patch.diff").read_bytes()
    kill_after(session, 12)
    moved = session.parent.parent.with_name("elsewhere") / "session-state" / "s1"
    moved.parent.mkdir(parents=True)
    session.rename(moved)
    assert "  patch    1 file, +2 -0\n" in log_command(moved, "recover", "s1").stdout
    assert (moved / "patch.diff").read_bytes() == patch


def test_without_a_snapshot_there_is_a_result_and_no_patch(session: Path) -> None:
    """Why there is none is told, and the result claims no diff."""
    kill_after(session, 12)
    (session / "git" / "baseline.json").unlink()
    code, out, _ = outcome(log_command(session, "recover", "s1"))
    assert code == 0
    assert f"  patch    no snapshot in {session / 'git'}: " in out
    assert not (session / "patch.diff").exists()
    assert "workspace_diff" not in json.loads((session / "result.json").read_bytes())


# -- what is refused -----------------------------------------------------------------------------


@pytest.fixture
def held(session: Path) -> Iterator[None]:
    """A run that is writing the session."""
    descriptor = os.open(session / "lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("more", [[], ["--salvage", "s2"]])
def test_a_session_that_is_being_written_is_code_75(session: Path, more: list[str]) -> None:
    """Nothing is changed, whatever is asked for."""
    kill_after(session, 12)
    spoil_line(session)
    before = tree(session.parent)
    code, out, err = outcome(log_command(session, "recover", "s1", *more))
    assert (code, out) == (75, "")
    assert "session s1 is being written by a run" in err
    assert tree(session.parent) == before


def test_a_damaged_log_is_code_1_with_its_place_and_the_way_out(session: Path) -> None:
    """Line and byte and command are named, and not one byte on the disk is changed."""
    offset = sum(map(len, lines_of((session / "events.jsonl").read_bytes())[:4]))
    spoil_line(session)
    before = tree(session.parent)
    code, out, err = outcome(log_command(session, "recover", "s1"))
    assert (code, out) == (1, "")
    assert f"{session / 'events.jsonl'}:5: at byte {offset}: `seq` is 5, should be 4\n" in err
    assert f"`autopilot log recover s1 --salvage NEW_ID --home {session.parent.parent}`" in err
    assert tree(session.parent) == before


def test_a_result_that_cannot_be_written_is_code_74(session: Path) -> None:
    """The folder is named, and no draft is left behind."""
    kill_after(session, 12)
    (session / "result.json").mkdir()
    before = sorted(path.name for path in session.iterdir())
    code, out, err = outcome(log_command(session, "recover", "s1"))
    assert (code, out) == (74, "")
    assert f"cannot write {session}: Is a directory" in err
    assert sorted(path.name for path in session.iterdir()) == sorted([*before, "patch.diff"])


# -- salvage -------------------------------------------------------------------------------------


def test_salvage_makes_a_session_that_ends_before_the_damage(session: Path) -> None:
    """The lines before it, the files and the workspace are copied; the old session stays."""
    lines = lines_of((session / "events.jsonl").read_bytes())
    rewrite(session / "events.jsonl", lambda lines: [*lines[:20], b"\0\0\n", *lines[20:]])
    before, valid = tree(session), b"".join(lines[:20])
    assert outcome(log_command(session, "recover", "s1", "--salvage", "s2")) == (
        0,
        "s2\n"
        f"  log      20 lines, {len(valid)} bytes, copied from s1\n"
        f"  left     from line 21, byte {len(valid)}: the line holds NUL bytes\n"
        "  beware   what the run did from line 21 on is done, but not in this log: look at the "
        "workspace before going on\n"
        f"  to do    `autopilot run SPEC --resume s2 --home {session.parent.parent}` goes on from "
        "there\n",
        "",
    )
    assert tree(session) == before
    new = session.with_name("s2")
    assert tree(new) == {
        **{name: content for name, content in before.items() if name.startswith(CARRIED)},
        "events.jsonl": valid,
        "workspace.yaml": before["workspace.yaml"].replace(b"id: s1", b"id: s2", 1)
        + b"salvaged_from: s1\n",
    }
    modes = {name: stat.S_IMODE((new / name).stat().st_mode) for name in ("", "events.jsonl")}
    assert modes == {"": 0o700, "events.jsonl": 0o600}
    assert log_command(session, "check", "s2").exit_code == 0


CARRIED = ("files/", "git/", "workspace/")


def test_a_file_that_is_not_what_its_name_says_is_not_carried_over(session: Path) -> None:
    """What a later run would take for the content it is named by stays behind."""
    change_file(session)
    (session / "files" / ZEROS).write_text("x")
    spoil_line(session)
    log_command(session, "recover", "s1", "--salvage", "s2")
    assert list((session.with_name("s2") / "files").iterdir()) == []


@pytest.mark.parametrize(
    ("new_id", "code", "message"),
    [
        ("s1", 2, "session s1 is already there"),
        ("a/b", 2, "is no session id"),
        ("s2", 1, "the log of s1 is not damaged"),
    ],
)
def test_a_salvage_that_makes_no_sense_leaves_nothing(
    session: Path, new_id: str, code: int, message: str
) -> None:
    """A taken id, a name that is none, a log that is whole."""
    before = tree(session.parent)
    got, out, err = outcome(log_command(session, "recover", "s1", "--salvage", new_id))
    assert (got, out) == (code, "")
    assert message in err
    assert tree(session.parent) == before
    assert [path.name for path in session.parent.iterdir()] == ["s1"]


def test_a_log_that_is_damaged_from_the_start_has_nothing_to_salvage(session: Path) -> None:
    """No session of no lines is made."""
    rewrite(session / "events.jsonl", lambda lines: lines[1:])
    code, out, err = outcome(log_command(session, "recover", "s1", "--salvage", "s2"))
    assert (code, out) == (1, "")
    assert "nothing to salvage: line 1 is damaged: `seq` is 1, should be 0" in err
    assert [path.name for path in session.parent.iterdir()] == ["s1"]
