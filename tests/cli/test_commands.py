"""Commands that look, check and print: their answers, and their exit codes."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from runner import __version__
from runner.cli import EXIT_CODES, cli
from runner.core.endings import EXIT_ROWS
from tests.sample_run import SESSION_ID, start, tidy_run, write_session

SPEC = "name: tidy\nprompt: Tidy up.\nmodel: scripted:replies.yaml\n"


def called(*arguments: str, stdin: str = "", home: Path | None = None) -> Result:
    """A command that was run with these arguments."""
    env = {"AUTOPILOT_HOME": str(home) if home else "/nonexistent"}
    return CliRunner(env=env).invoke(cli, arguments, input=stdin)


def outcome(result: Result) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec that is in order."""
    (tmp_path / "replies.yaml").write_text("replies: []\n")
    path = tmp_path / "task.yaml"
    path.write_text(SPEC)
    return path


def commands(group: click.Group = cli, *path: str) -> Iterator[tuple[str, ...]]:
    """The words that name each command."""
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_help_has_an_example(words: tuple[str, ...]) -> None:
    """`--help` of each command shows a whole command line to copy."""
    code, text, _ = outcome(called(*words, "--help"))
    assert code == 0
    assert f"  autopilot {' '.join(words)}" in text


def test_help_lists_every_exit_code() -> None:
    """The codes of the table and the codes of `--help` are the same."""
    listed = {int(word) for word in EXIT_CODES.split() if word.isdigit()}
    assert listed == {row.code for row in EXIT_ROWS}
    assert "Exit codes:" in called("--help").stdout


def test_version_is_one_line() -> None:
    """`--version` prints name and version."""
    assert outcome(called("--version")) == (0, f"autopilot {__version__}\n", "")


@pytest.mark.parametrize("option", ["--home", "--artifacts"])
def test_an_empty_folder_is_code_2_and_not_the_current_one(spec: Path, option: str) -> None:
    """The variable of `--home "$DIR"` may be unset: nothing is put where nobody asked for it."""
    before = sorted(spec.parent.iterdir())
    code, out, err = outcome(called("run", str(spec), option, ""))
    assert (code, out) == (2, "")
    assert err.endswith(f"Error: Invalid value for '{option}': the path is empty\n")
    assert sorted(spec.parent.iterdir()) == before


def test_an_empty_session_to_resume_is_code_2_and_not_a_new_one(spec: Path, tmp_path: Path) -> None:
    """`--resume "$ID"` with nothing in it starts no run that somebody pays for."""
    code, out, err = outcome(called("run", str(spec), "--resume", "", home=tmp_path / "home"))
    assert (code, out) == (2, "")
    assert "no session ``" in err


def test_a_current_folder_that_is_gone_is_code_2(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job whose folder was cleaned away gets a sentence, whatever the command."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for arguments in (["run", str(spec)], ["validate", str(spec)], ["sessions"]):
        assert outcome(called(*arguments)) == (
            2,
            "",
            "Error: the current folder cannot be used (No such file or directory): "
            "start from another one\n",
        )
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["show"], ["run"], ["exit-codes", "--format", "xml"], ["run", "x", "-q"]],
)
def test_a_bad_command_line_is_code_2(arguments: list[str]) -> None:
    """Unknown commands, missing arguments and unknown options say so on stderr."""
    code, out, err = outcome(called(*arguments))
    assert (code, out) == (2, "")
    assert "Error: " in err


def test_exit_codes_are_a_table_or_json() -> None:
    """Every row is printed for people, and as an object for machines."""
    rows = json.loads(called("exit-codes", "--format", "json").stdout)
    text = called("exit-codes").stdout
    assert [row["code"] for row in rows] == [row.code for row in EXIT_ROWS]
    assert rows[3] == {
        "code": 3,
        "subtype": "error_max_turns",
        "error_types": [],
        "meaning": "the turn cap was reached",
        "advice": "raise `max_turns` or split the task",
    }
    assert text.splitlines()[6:8] == [
        "  3  error_max_turns",
        "     the turn cap was reached: raise `max_turns` or split the task",
    ]


@pytest.mark.parametrize(
    ("what", "title"),
    [
        ([], "A task for autopilot"),
        (["task"], "A task for autopilot"),
        (["event"], "An event of a run"),
        (["result"], "The result of a run"),
    ],
)
def test_schemas_are_printed(what: list[str], title: str) -> None:
    """The schema of a task is the default."""
    assert json.loads(called("schema", *what).stdout)["title"] == title


# -- validate ------------------------------------------------------------------------------------


def test_a_good_spec_is_ok(spec: Path) -> None:
    """Code 0 and one line a spec."""
    assert outcome(called("validate", str(spec), str(spec))) == (
        0,
        f"{spec}: ok\n{spec}: ok\n",
        "",
    )


def test_every_problem_of_every_spec_is_told_with_its_place(spec: Path) -> None:
    """Code 2, all problems on stderr, the good spec still reported as ok."""
    bad = spec.with_name("bad.yaml")
    bad.write_text(SPEC + "max_turn: 3\ntimeout: soon\n")
    code, out, err = outcome(called("validate", str(bad), str(spec)))
    assert (code, out) == (2, f"{spec}: ok\n")
    assert f"{bad}:4: max_turn: unknown key\nhint: did you mean `max_turns`?\n" in err
    assert f"{bad}:5: timeout: " in err


def test_a_spec_comes_from_stdin_only_when_it_is_named_so(spec: Path) -> None:
    """`-` reads stdin; any other path leaves it alone."""
    text = SPEC.replace("replies.yaml", str(spec.with_name("replies.yaml")))
    assert outcome(called("validate", "-", stdin=text)) == (0, "-: ok\n", "")
    assert outcome(called("validate", str(spec), stdin="nonsense: [")) == (0, f"{spec}: ok\n", "")


def test_resolved_is_the_whole_spec_with_what_the_command_line_changed(spec: Path) -> None:
    """Defaults and `--set` are in the YAML that is printed."""
    text = called("validate", str(spec), "--resolved", "--set", "limits.tool=5m").stdout
    assert "max_autopilot_continues: 5\n" in text
    assert "  tool: 5m\n" in text


def test_a_setting_that_is_wrong_is_told_by_its_flag(spec: Path) -> None:
    """The problem names what was typed, not a line of the file."""
    code, _, err = outcome(called("validate", str(spec), "--set", "max_turns=many"))
    assert code == 2
    assert err.startswith("--set max_turns=many: max_turns: expected ")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["a"], "`a` is not of the form NAME=TEXT or NAME=@FILE"),
        (["=a"], "`=a` is not of the form NAME=TEXT or NAME=@FILE"),
        (["a=1", "a=2"], "the input `a` is given twice"),
    ],
)
def test_an_input_that_cannot_be_meant_is_code_2(
    spec: Path, inputs: list[str], message: str
) -> None:
    """Malformed and repeated inputs are refused before anything else."""
    flags = [word for text in inputs for word in ("--input", text)]
    code, _, err = outcome(called("validate", str(spec), *flags))
    assert code == 2
    assert message in err


def test_a_check_that_nobody_can_protect_is_a_warning(spec: Path) -> None:
    """Its files are known to the shell alone; with `--strict` it is an error."""
    loose = ("validate", str(spec), "--set", 'verify=["bash $CHECK"]')
    code, out, err = outcome(called(*loose))
    assert (code, out) == (0, f"{spec}: ok\n")
    assert "warning: `verify`: what `bash $CHECK` runs" in err
    assert called(*loose, "--strict").exit_code == 2
    named = called(*loose, "--strict", "--set", "protected_paths=[ci/]")
    assert (named.exit_code, named.stderr) == (0, "")


def test_text_of_a_spec_cannot_command_the_ci_system(tmp_path: Path) -> None:
    """A key that is a workflow command is shown inert."""
    spec = tmp_path / "task.yaml"
    spec.write_text(SPEC + '"##vso[task.complete]": 1\n')
    err = called("validate", str(spec)).stderr
    assert "##vso[" not in err
    assert "unknown key" in err


# -- show ----------------------------------------------------------------------------------------


def test_a_run_is_shown_by_a_beginning_of_its_id(tmp_path: Path) -> None:
    """Header first, then the turns; the home comes from the variable or the option."""
    write_session(tmp_path, tidy_run())
    code, out, err = outcome(called("show", "5d0c", home=tmp_path))
    assert (code, err) == (0, "")
    assert out.startswith("tidy: success, exit code 0\n")
    assert "  Read  a.py  (ok, 0.2s)\n" in out
    assert called("show", "5d0c", "--home", str(tmp_path)).stdout == out


def test_a_run_can_be_looked_into_at_a_line(tmp_path: Path) -> None:
    """`--at` gives the state there and the rule that decides next."""
    write_session(tmp_path, tidy_run(), finished=False)
    out = called("show", SESSION_ID, "--at", "8", home=tmp_path).stdout
    assert "  next       run the next batch (rule `tools_pending`: the reply asks for tools)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "no session `nope`"),
        (["5d0c", "--at", "99"], "has fewer than 99 lines"),
        (["5d0c", "--at", "0"], "0 is not in the range"),
    ],
)
def test_what_is_not_there_is_code_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    """An unknown id and a line past the end are the caller's mistakes."""
    write_session(tmp_path, tidy_run())
    code, out, err = outcome(called("show", *arguments, home=tmp_path))
    assert (code, out) == (2, "")
    assert message in err


def test_a_damaged_log_is_shown_up_to_the_damage(tmp_path: Path) -> None:
    """What can be read is told, then the line that cannot, with code 1."""
    folder = write_session(tmp_path, start(), finished=False)
    with (folder / "events.jsonl").open("a") as file:
        file.write("not json\n")
    code, out, err = outcome(called("show", "5d", home=tmp_path))
    assert code == 1
    assert "    Tidy up.\n" in out
    assert "events.jsonl:6: " in err


def test_text_of_the_agent_cannot_command_the_terminal(tmp_path: Path) -> None:
    """Control characters in a log are shown, not obeyed."""
    write_session(tmp_path, tidy_run(prompt="\x1b[2J::error::x\u202e"))
    assert r"    \x1b[2J::error::x\u202e" in called("show", "5d", home=tmp_path).stdout


# -- sessions ------------------------------------------------------------------------------------


def test_sessions_are_listed(tmp_path: Path) -> None:
    """Id, time, ending, cost and task, one line a session."""
    write_session(tmp_path, tidy_run())
    assert outcome(called("sessions", home=tmp_path)) == (
        0,
        f"{SESSION_ID}  2026-01-02 03:04:05  success                     $0.0212  tidy\n",
        "",
    )


def test_no_sessions_is_no_error(tmp_path: Path) -> None:
    """stdout is empty, stderr says where was looked."""
    assert outcome(called("sessions", home=tmp_path)) == (0, "", f"no sessions in {tmp_path}\n")


def test_sessions_are_removed_by_id(tmp_path: Path) -> None:
    """What was removed is printed, and gone."""
    folder = write_session(tmp_path, tidy_run())
    assert outcome(called("sessions", "rm", "5d0c", home=tmp_path)) == (
        0,
        f"removed {SESSION_ID}\n",
        "",
    )
    assert not folder.exists()


def test_a_wrong_id_removes_nothing(tmp_path: Path) -> None:
    """One unknown id among several leaves all of them."""
    folder = write_session(tmp_path, tidy_run())
    code, out, err = outcome(called("sessions", "rm", "5d0c", "nope", home=tmp_path))
    assert (code, out) == (2, "")
    assert "no session `nope`" in err
    assert folder.exists()


def test_only_old_sessions_are_pruned(tmp_path: Path) -> None:
    """Age is that of the last line of the log."""
    folder = write_session(tmp_path, tidy_run())
    assert outcome(called("sessions", "prune", "--older-than", "1h", home=tmp_path)) == (0, "", "")
    os.utime(folder / "events.jsonl", (0, 0))
    assert called("sessions", "prune", "--older-than", "30d", home=tmp_path).stdout == (
        f"removed {SESSION_ID}\n"
    )
    assert not folder.exists()


def test_a_running_session_is_not_pruned(tmp_path: Path) -> None:
    """A session whose lock is held stays, however old its last line."""
    folder = write_session(tmp_path, tidy_run(), finished=False)
    os.utime(folder / "events.jsonl", (0, 0))
    with (folder / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = called("sessions", "--home", str(tmp_path), "prune", "--older-than", "1s")
    assert outcome(result) == (0, "", "")
    assert folder.exists()


@pytest.mark.parametrize("age", ["30", "d", "-1d", "1 day"])
def test_an_age_that_is_none_is_code_2(tmp_path: Path, age: str) -> None:
    """The message shows how to write one."""
    code, _, err = outcome(called("sessions", "prune", f"--older-than={age}", home=tmp_path))
    assert code == 2
    assert "write it like 12h, 30d or 8w" in err
