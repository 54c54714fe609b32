"""Going on with a session from the command line: `--resume`, `--continue`, `--fork`."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.app.scene import hash_of
from tests.e2e.desk import Desk, Played
from tests.e2e.papers import check_calls, check_chain, check_claude_stream, check_readers
from tests.e2e.wires import flat
from tests.servers import D, Step, T, X
from tests.servers.script import ScriptStep

READ = ("Read", {"file_path": "README.md"})
WAIT = ("Bash", {"command": "echo ran >> counter; touch here; sleep 300"})


def go(desk: Desk, steps: list[ScriptStep], *options: str, **keys: Any) -> Played:
    """Run the command to its end, whatever the log holds already."""
    with desk.started(steps, *options, **keys) as running:
        return running.finish()


def session(desk: Desk, name: str) -> Path:
    """The folder of a session."""
    return desk.home / "session-state" / name


def log_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of a session's log."""
    return [json.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]


def check_log(folder: Path) -> None:
    """A whole chain that everybody can read, each call with its outcome."""
    lines = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    events = [json.loads(line) for line in lines]
    check_chain(lines, events, folder.name)
    check_calls(events)
    check_readers(events, folder)


def kill(desk: Desk, steps: list[ScriptStep], *options: str, **keys: Any) -> None:
    """Start a run and SIGKILL it inside its command."""
    with desk.started(steps, *options, **keys) as running:
        running.wait_until((desk.workspace / "here").exists, "the command")
        running.send(signal.SIGKILL)
        assert running.finish().exit_code == -signal.SIGKILL


# -- what goes on ----------------------------------------------------------------------------


def test_the_model_is_given_everything_that_was_said(desk: Desk) -> None:
    """Row 44: request 1 of the resumed run is request 2 of the old one, its reply, and the note."""
    desk.wire = "openai"
    steps: list[ScriptStep] = [X(READ), T("half"), D("done")]
    first = go(desk, steps, "--session-id", "s", max_autopilot_continues=0, max_turns=5)
    assert (first.exit_code, len(first.requests)) == (6, 2)
    second = go(desk, [D("all of it")], "--resume", "s")
    assert (second.exit_code, len(second.requests)) == (0, 1)
    said, again = flat(first.requests[1]), flat(second.requests[0])
    assert again[: len(said)] == said
    reply, note = again[len(said) :]
    assert (reply["role"], reply["text"]) == ("assistant", "half")
    assert (note["role"], note["text"][:50]) == (
        "user",
        "The run had stopped at a limit or an error and goe",
    )
    assert [m["role"] for m in again].count("user") == 2
    check_log(session(desk, "s"))


@pytest.mark.parametrize("output", ["events", "stream-json"])
def test_the_stream_is_that_of_this_run_alone(desk: Desk, output: str) -> None:
    """Row 46: no line of run 1 comes again, and it has a beginning and an end of its own."""
    script: list[ScriptStep] = [X(READ), X(READ, text="I look"), D("done")]
    options = ("--output-format", output, "--include-partial-messages")
    first = go(desk, script, "--session-id", "s", *options, max_turns=1)
    old = {line.get("id") or line["uuid"] for line in first.stream}
    second = go(desk, script, "--resume", "s", *options)
    new = [line.get("id") or line["uuid"] for line in second.stream]
    assert (first.exit_code, second.exit_code, old & set(new)) == (3, 0, set())
    if output == "events":
        types = [line["type"] for line in second.stream]
        assert (types[0], types.count("session.idle"), types[-1]) == (
            "session.resume",
            1,
            "session.idle",
        )
    else:
        check_claude_stream(second.stream)
        assert {line["session_id"] for line in second.stream} == {"s"}
        assert "I look" not in second.stdout


def test_a_run_killed_in_a_command_goes_on(desk: Desk) -> None:
    """Row 51: the command is ended, doubted and not repeated; its effect is there once."""
    steps: list[ScriptStep] = [X(WAIT), X(READ), D("done")]
    kill(desk, steps, "--session-id", "s")
    before = (session(desk, "s") / "events.jsonl").read_bytes()
    played = go(desk, steps, "--resume", "s", "--output-format", "json")
    after = (session(desk, "s") / "events.jsonl").read_bytes()
    assert (played.exit_code, played.stream[0]["num_llm_calls"]) == (0, 3)
    assert (after.startswith(before), desk.read("counter")) == (True, "ran\n")
    outcomes = played.of("tool.execution_complete")
    assert [o.get("error", {}).get("code", "ok") for o in outcomes] == ["interrupted", "ok", "ok"]
    survivors = played.result["survivors"]
    assert [s.partition(" ")[2] for s in survivors if "sleep" in s.split("(")[1][:5]] == [
        "(sleep 300)"
    ]
    check_log(session(desk, "s"))


def test_a_running_session_is_refused_and_goes_on(desk: Desk) -> None:
    """Row 54: exit 75, not a byte of its log changes, and it comes to its end."""
    wait = ("Bash", {"command": "touch here; until [ -e go ]; do sleep 0.05; done"})
    steps: list[ScriptStep] = [X(wait), D("done")]
    with desk.started(steps, "--session-id", "s") as running:
        running.wait_until((desk.workspace / "here").exists, "the command")
        before = (session(desk, "s") / "events.jsonl").read_bytes()
        for option in (["--resume", "s"], ["--continue"]):
            refused = desk.call("run", "task.yaml", *option, "--output-format", "json")
            assert (refused.returncode, json.loads(refused.stdout)["error_type"]) == (75, "locked")
            assert "session s is being written by another run" in refused.stderr
        assert (session(desk, "s") / "events.jsonl").read_bytes() == before
        desk.write("go", "")
        assert running.finish_checked().exit_code == 0


# -- which one -------------------------------------------------------------------------------


def test_continue_takes_the_newest_session_of_the_same_folder(desk: Desk) -> None:
    """Row 49: no older one of this workspace, and no newer one of another, or of another task."""
    script: list[ScriptStep] = [T("half"), D("done")]
    for name in ("old", "new"):
        go(desk, script, "--session-id", name, max_autopilot_continues=0)
    (desk.folder / "other").mkdir()
    go(desk, script, "--session-id", "other", max_autopilot_continues=0, workspace="other")
    go(desk, script, "--session-id", "task", max_autopilot_continues=0, name="another")
    before = {name: log_of(session(desk, name)) for name in ("old", "other", "task")}
    assert go(desk, script, "--continue", "--output-format", "json").exit_code == 0
    assert {name: log_of(session(desk, name)) for name in before} == before
    assert [e["type"] for e in log_of(session(desk, "new"))].count("session.resume") == 1


def test_a_fork_has_an_id_of_its_own(desk: Desk) -> None:
    """Row 48: the original, named by a beginning of its id, keeps every byte."""
    script: list[ScriptStep] = [T("half"), D("done")]
    go(desk, script, "--session-id", "original", max_autopilot_continues=0)
    original = session(desk, "original")
    before = hash_of(original)
    forked = go(desk, script, "--resume", "orig", "--fork", "--output-format", "json")
    name = forked.stream[0]["session_id"]
    assert (forked.exit_code, name == "original", hash_of(original)) == (0, False, before)
    old = log_of(original)
    assert log_of(session(desk, name))[: len(old)] == old


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--resume", "nobody"], "no session `nobody` in"),
        (["--resume", "ab"], "`ab` is the beginning of 2 ids: abc-1, abd-1"),
        (["--resume", "../abc-1"], "no session `../abc-1` in"),
        (["--continue"], "no session of the task `task` in the workspace"),
        (["--resume", "abc-1", "--continue"], "exclude each other"),
        (["--fork"], "--fork needs --resume or --continue"),
        (["--resume", "abc-1", "--session-id", "x"], "leave it out, or add --fork"),
    ],
)
def test_a_session_that_cannot_be_meant_is_a_usage_error(
    desk: Desk, options: list[str], words: str
) -> None:
    """Row 50: exit 2 before anything runs; the candidates are named and nothing is written."""
    for name in ("abc-1", "abd-1"):
        session(desk, name).mkdir(parents=True)
    desk.script([D("done")])
    desk.spec()
    refused = desk.call("run", "task.yaml", *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert words in " ".join(refused.stderr.split())
    is_about_options = words.startswith(("exclude", "--fork", "leave"))
    assert ("Usage:" in refused.stderr) == is_about_options  # else the mistake is elsewhere
    assert [path for path in desk.home.rglob("*") if path.is_file()] == []


# -- what it comes to ------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["text", "stream-json"])
def test_a_result_that_was_lost_is_given_again(desk: Desk, output: str) -> None:
    """The recorded exit code and result, without a model call or a line more."""
    first = go(desk, [D("42")], "--session-id", "s", "--output-format", output)
    folder = session(desk, "s")
    before = (folder / "events.jsonl").read_bytes()
    (folder / "result.json").unlink()
    again = go(desk, [], "--resume", "s", "--output-format", output)
    assert (again.exit_code, (folder / "events.jsonl").read_bytes()) == (0, before)
    assert (folder / "result.json").exists()
    assert again.stdout.splitlines() == first.stdout.splitlines()[-1:]


def test_a_crash_loop_ends_by_itself(desk: Desk) -> None:
    """`limits.max_resumes`: a loop that resumes until it works is told to stop, exit 78."""
    script: list[ScriptStep] = [Step(text="never", delay_s=300)]
    keys: dict[str, Any] = {"limits": {"max_resumes": 1}}
    options = ["--session-id", "s"]
    for count in (1, 2):
        with desk.started(script, *options, **keys) as running:
            running.wait_for("assistant.turn_start", count)
            running.send(signal.SIGKILL)
            running.finish()
        options = ["--resume", "s"]
    stopped = go(desk, script, *options, **keys)
    assert stopped.exit_code == 78
    assert "killed 2 times in a row; `limits.max_resumes` allows 1" in stopped.stderr
    assert len(stopped.of("assistant.turn_start")) == 2


def test_the_loop_a_pipeline_would_write_comes_to_an_end(desk: Desk) -> None:
    """`run --session-id`, killed, then `run --continue` in a plain shell: done, exit 0."""
    steps: list[ScriptStep] = [X(WAIT), D("done")]
    kill(desk, steps, "--session-id", "s")
    line = " ".join(desk.command("run", "task.yaml", "--continue"))
    shell = subprocess.run(
        ["sh", "-c", f"until {line}; do echo again; done"],
        cwd=desk.folder,
        env=desk.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (shell.returncode, shell.stdout, desk.read("counter")) == (0, "done\n", "ran\n")
