"""Stopping from outside: signals, the clock, and what is left alive afterwards."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from pathlib import Path

import pytest

from runner.adapters import leftovers
from tests.e2e.desk import Desk, Running
from tests.mcp_servers import ODD
from tests.servers import D, Step, T, X

READ = ("Read", {"file_path": "README.md"})
FAMILY = "sleep 300 & echo $! > pids; setsid sleep 300 & echo $! >> pids; echo $$ >> pids; wait"
BUSY = X(("Bash", {"command": FAMILY}), ("Bash", {"command": "touch later"}))
LONG = "x" * 4000


def pids(running: Running) -> list[int]:
    """The processes the command has started, its shell included; waits until all have."""
    file = running.workspace / "pids"
    running.wait_until(lambda: file.exists() and len(file.read_text().split()) == 3, "children")
    return [int(pid) for pid in file.read_text().split()]


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


SIGNALS = [
    (signal.SIGINT, 130, "cancelled", "user_initiated"),
    (signal.SIGTERM, 143, "terminated", "remote_command"),
    (signal.SIGHUP, 143, "terminated", "remote_command"),
]


@pytest.mark.parametrize(("number", "code", "error_type", "reason"), SIGNALS)
def test_a_signal_stops_a_command_with_all_its_children(
    desk: Desk, number: signal.Signals, code: int, error_type: str, reason: str
) -> None:
    """Rows 38, 42, 53: nothing it started is alive, the log says why, and the result is printed."""
    with desk.started([BUSY], "--output-format", "stream-json") as running:
        children = pids(running)
        assert all(map(alive, children))
        running.send(number)
        played = running.finish_checked()
    assert not any(map(alive, children))
    assert (played.exit_code, played.result["error_type"]) == (code, error_type)
    assert played.result["subtype"] == "error_during_execution"
    assert played.of("abort") == [{"reason": reason, "cause": number.name}]
    codes = [done["error"]["code"] for done in played.of("tool.execution_complete")]
    assert codes == ["cancelled", "cancelled"]
    assert desk.read("later") is None
    assert played.types.count("user.message") == 1
    assert played.stream[-1] == played.result
    down = [m for m in played.stream if m.get("subtype") == "worker_shutting_down"]
    assert len(down) == (0 if number == signal.SIGINT else 1)
    assert number.name in played.result["errors"][0]


def test_the_clock_stops_a_running_command(desk: Desk) -> None:
    """`timeout`: the children are dead, exit 9, and the result says which limit it was."""
    with desk.started([BUSY], "--output-format", "json", timeout="3s") as running:
        children = pids(running)
        played = running.finish_checked()
    assert not any(map(alive, children))
    assert (played.exit_code, played.result["subtype"]) == (9, "error_timeout")
    assert played.result["errors"] == ["Reached the time limit (3 s)"]
    assert played.of("abort") == [{"reason": "user_abort", "cause": "timeout"}]
    assert played.stream == [played.result]


def test_the_clock_stops_a_slow_model(desk: Desk) -> None:
    """A reply that would come too late is not waited for."""
    played = desk.play([X(READ), Step(text="late", delay_s=60)], timeout="2s")
    assert (played.exit_code, played.result["num_llm_calls"]) == (9, 1)


def test_a_limit_on_the_command_line_stops_too(desk: Desk) -> None:
    """`--timeout 1s` is the spec's key by another name."""
    played = desk.play([Step(text="late", delay_s=60)], "--timeout", "1s")
    assert played.exit_code == 9


def test_a_tool_has_a_clock_of_its_own(desk: Desk) -> None:
    """`limits.tool` ends the call and not the run."""
    played = desk.play([BUSY, D("done")], limits={"tool": "1s"})
    assert played.exit_code == 0
    assert "timed out after 1 s" in played.tool_errors()[0]
    assert desk.read("later") == ""


def test_a_call_leaves_nothing_behind(desk: Desk) -> None:
    """What a command put into the background is dead when the next one runs."""
    quick = "(sleep 300 & echo $! > pid; setsid sleep 300 & echo $! >> pid) ; echo started"
    check = "for pid in $(cat pid); do kill -0 $pid 2>/dev/null && echo alive; done; true"
    steps = [X(("Bash", {"command": quick})), X(("Bash", {"command": check})), D("done")]
    played = desk.play(steps)
    contents = [d["result"]["content"] for d in played.of("tool.execution_complete")]
    assert "alive" not in contents[1]
    assert contents[1] == "(no output)"


def test_sighup_is_ignored_under_nohup(desk: Desk) -> None:
    """A signal the parent ignores stays ignored: the run goes on to its end."""
    desk.environ["AUTOPILOT_HOME"] = str(desk.home)
    wait = ("Bash", {"command": "touch here; until [ -e go ]; do sleep 0.05; done"})
    inherit = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    with desk.started([X(wait), D("done")], streams=inherit) as running:
        running.wait_until((desk.workspace / "here").exists, "the command")
        running.send(signal.SIGHUP)
        desk.write("go", "")
        played = running.finish_checked()
    assert (played.exit_code, "abort" in played.types) == (0, False)


def test_a_second_signal_does_not_wait(desk: Desk) -> None:
    """A reader that reads no more holds the end up; the result is on disk, the code is kept."""
    read, write = os.pipe()
    steps = [X(*[("Bash", {"command": f"echo {LONG}"})] * 30), X(("Bash", {"command": "sleep 60"}))]
    options = ("--output-format", "events")
    with desk.started(steps, *options, streams={"stdout": write}) as running:
        os.close(write)
        running.wait_for("assistant.turn_start", 2)
        running.send(signal.SIGINT)
        running.wait_until(lambda: (running.folder / "result.json").exists(), "the result")
        running.send(signal.SIGINT)
        played = running.finish_checked()
    os.close(read)
    assert (played.exit_code, played.result["error_type"]) == (130, "cancelled")


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGUSR1])
def test_any_other_signal_is_a_kill(desk: Desk, number: signal.Signals) -> None:
    """It has its default action: there is no result, and the log ends where it was."""
    with desk.started([BUSY]) as running:
        pids(running)
        running.send(number)
        assert running.process.wait(20) == -number
        assert not (running.folder / "result.json").exists()
        assert running.of("abort") == []
    leftovers.sweep(running.folder.name)  # what the command left


def test_a_run_that_was_stopped_says_what_it_did(desk: Desk) -> None:
    """The patch and the result are there on every ending; what was changed is in both."""
    write = ("Write", {"file_path": "new.txt", "content": "hello\n"})
    with desk.started([X(write), BUSY, T("never")]) as running:
        pids(running)
        running.send(signal.SIGTERM)
        played = running.finish_checked()
    patch = (played.folder / "patch.diff").read_text()
    assert "+++ b/new.txt" in patch
    assert "new.txt" in [file["path"] for file in played.result["workspace_diff"]["files"]]
    assert played.of("session.shutdown")[0]["codeChanges"]["linesAdded"] >= 1


def test_all_that_is_slow_after_the_time_is_up_shares_one_grace(desk: Desk) -> None:
    """A check, a hook of the end and a server that does not go each wait for what is left of it."""
    lingering = f"trap '' TERM; {sys.executable} {ODD}; sleep 60"
    played = desk.play(
        [BUSY],
        timeout="10s",
        limits={"shutdown_grace": "2s"},
        verify=["sleep 60"],
        hooks={"SessionEnd": [{"hooks": [{"type": "command", "command": "sleep 60"}]}]},
        mcp_servers={"odd": {"command": "bash", "args": ["-c", lingering]}},
    )
    (stopped,) = [event["timestamp"] for event in played.log if event["type"] == "abort"]
    took = datetime.fromisoformat(played.log[-1]["timestamp"]) - datetime.fromisoformat(stopped)
    assert (played.exit_code, played.result["verification"]["status"]) == (9, "failed")
    assert [end["success"] for end in played.of("hook.end")] == [False]
    assert took.total_seconds() < 4
