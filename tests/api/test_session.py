"""`runner.Session`: several prompts in one log, each with its caps; stops, limits, listeners."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from copilot.generated.session_events import SessionEvent, SessionEventType

from runner import Result, Session, SessionError, events, load_spec
from tests.e2e.desk import Desk
from tests.servers import Step, Tool

LOOK = Step(tools=(Tool(name="Read", arguments={"file_path": "README.md"}),))


def bash(command: str) -> Step:
    """A reply that asks for one command."""
    return Step(tools=(Tool(name="Bash", arguments={"command": command}),))


def done(summary: str = "done") -> Step:
    """A reply that completes the task."""
    return Step(tools=(Tool(name="task_complete", arguments={"summary": summary}),))


def session(desk: Desk, *steps: Step, **keys: Any) -> Session:
    """A session on this desk, whose model says this."""
    desk.script(steps)
    return Session(load_spec(desk.spec(**keys)), home=desk.home, environ=desk.environment())


def names(told: Session) -> list[str]:
    """The types of the log, in order."""
    return [type(record.event).type for record in told.events()]


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def wait_for(path: Path) -> str:
    """The text of a file, once there is one."""
    ends_at = time.monotonic() + 30
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < ends_at, f"{path} did not appear"
        time.sleep(0.02)
    return path.read_text()


def test_each_prompt_has_a_turn_cap_of_its_own(desk: Desk) -> None:
    """Two prompts use one tool each under a cap of one, and both succeed, in one log."""
    with session(desk, LOOK, done("one"), LOOK, done("two"), max_turns=1) as talk:
        first, second = talk.send_and_wait(), talk.send_and_wait("And now the other half.")
    assert [(r.ok, r.text, r.num_tool_turns) for r in (first, second)] == [
        (True, "one", 1),
        (True, "two", 1),
    ]
    assert first.session_id == second.session_id == talk.id
    assert [name for name in names(talk) if name in ("session.start", "session.resume")] == [
        "session.start",
        "session.resume",
    ]
    said = [r.event.content for r in talk.events() if isinstance(r.event, events.UserMessage)]
    assert said == ["Do it.", "And now the other half."]


def test_a_prompt_that_hit_its_cap_does_not_stop_the_next(desk: Desk) -> None:
    """The cap is a value; the conversation goes on where it stopped, with a new cap."""
    with session(desk, LOOK, LOOK, LOOK, done(), max_turns=1) as talk:
        capped, after = talk.send("Look twice."), talk.send("Once more.")
    assert (capped.result().subtype, capped.result().exit_code) == ("error_max_turns", 3)
    assert capped.result().text is None
    assert capped.result().errors
    assert after.result().ok


def test_prompts_run_in_the_order_they_were_sent_and_idle_comes_once(desk: Desk) -> None:
    """What is sent while another runs waits; only with no prompt left the session is idle."""
    told: list[str] = []
    with session(desk, bash("sleep 0.2"), done("a"), done("b"), done("c")) as talk:
        talk.on(events.SessionTaskComplete, lambda event: told.append(event.summary))
        talk.on("session.idle", lambda event: told.append("idle"))
        futures = [talk.send(prompt) for prompt in ("x", "y", "z")]
        assert [future.result().text for future in futures] == ["a", "b", "c"]
        assert told == ["a", "b", "c", "idle"]


def test_abort_stops_the_tool_and_takes_back_what_waits(desk: Desk) -> None:
    """Nothing of the command is alive, the ending is a value, and the session can go on."""
    slow = bash("echo $$ > pid; sleep 300 & sleep 301")
    with session(desk, slow, done("after all")) as talk:
        idle: list[bool | None] = []
        talk.on(events.SessionIdle, lambda event: idle.append(event.aborted))
        running, waiting = talk.send(), talk.send("never")
        pid = int(wait_for(desk.workspace / "pid"))
        talk.abort()
        stopped = running.result(timeout=20)
        assert (stopped.error_type, stopped.exit_code) == ("cancelled", 130)
        assert stopped.errors == ("Cancelled by the program that has it run",)
        assert not is_alive(pid)
        assert waiting.cancelled()
        with pytest.raises(CancelledError):
            waiting.result()
        assert idle == [True]
        assert talk.send_and_wait("Go on.").text == "after all"
    causes = [r.event.cause for r in talk.events() if isinstance(r.event, events.Abort)]
    assert causes == ["interrupt"]


def test_abort_before_the_first_step_still_ends_with_a_result(desk: Desk) -> None:
    """A stop that comes at once is a recorded ending like any other."""
    with session(desk, done()) as talk:
        sent = talk.send()
        while not sent.running():
            time.sleep(0.001)
        talk.abort()
        assert sent.result(timeout=20).subtype in ("error_during_execution", "success")


def test_a_time_limit_stops_the_prompt_and_counts_the_waiting(desk: Desk) -> None:
    """Both end as `error_timeout`: the one that runs, and the one whose time went by before."""
    with session(desk, bash("sleep 60"), done("late")) as talk:
        first, second = talk.send("a", timeout_s=0.8), talk.send("b", timeout_s=0.8)
        assert (first.result().subtype, first.result().exit_code) == ("error_timeout", 9)
        assert second.result().subtype == "error_timeout"
        assert second.result().fields["num_llm_calls"] == 0
        assert talk.send_and_wait("c", timeout_s=60).text == "late"


def test_a_future_can_be_taken_back_before_its_turn(desk: Desk) -> None:
    """Cancelling it is like never having sent it."""
    with session(desk, bash("sleep 0.3"), done("one"), done("three")) as talk:
        one, two, three = (talk.send(prompt) for prompt in "123")
        assert two.cancel()
        assert [one.result().text, three.result().text] == ["one", "three"]


def test_a_listener_that_fails_harms_nothing_and_is_told_of(desk: Desk) -> None:
    """Its exception is in the result once; other listeners hear everything."""
    heard: list[str] = []

    def fail(event: object) -> None:
        raise ZeroDivisionError("mine")

    with session(desk, LOOK, done(), done()) as talk:
        stop = talk.on(events.AssistantTurnStart, fail)
        talk.on("assistant.turn_start", lambda event: heard.append(event.turn_id))
        result = talk.send_and_wait()
        assert result.ok
        assert heard == ["0", "1"]
        assert len(result.problems) == 1
        assert "ZeroDivisionError: mine" in result.problems[0]
        stop()
        stop()
        assert talk.send_and_wait("again").problems == ()


def test_a_listener_cannot_wait_for_itself(desk: Desk) -> None:
    """It is told so, instead of hanging."""
    with session(desk, done()) as talk:
        talk.on("user.message", lambda event: talk.send_and_wait("x"))
        (problem,) = talk.send_and_wait().problems
    assert "a listener cannot wait" in problem


@pytest.mark.parametrize(
    ("prompt", "timeout_s", "error"),
    [
        ({"prompt": "x"}, None, TypeError),
        ("", None, ValueError),
        (" \n", None, ValueError),
        ("a\ud800", None, ValueError),
        ("x", 0, ValueError),
        ("x", -1, ValueError),
        ("x", float("nan"), ValueError),
        ("x", float("inf"), ValueError),
        ("x", "5", TypeError),
    ],
)
def test_what_is_no_prompt_or_no_time_reaches_no_log(
    desk: Desk, prompt: Any, timeout_s: Any, error: type[Exception]
) -> None:
    """It is refused where it is sent, and the session works as before."""
    with session(desk, done("one")) as talk:
        with pytest.raises(error):
            talk.send(prompt, timeout_s=timeout_s)
        assert not desk.home.exists()
        assert talk.send_and_wait().text == "one"


FORGETFUL = """
import os, signal, sys, threading, time
from runner import Session, load_spec
session = Session(load_spec("task.yaml"), session_id="left")
session.send()
while not os.path.exists("work/on"):
    time.sleep(0.01)
if "interrupt" in sys.argv:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
"""


@pytest.mark.parametrize(("word", "ending"), [("wait", None), ("interrupt", "cancelled")])
def test_a_program_that_ends_without_waiting_still_ends_its_runs(
    desk: Desk, word: str, ending: str | None
) -> None:
    """They come to their own end, where thread pools are needed, or to that of Ctrl-C; either way
    there is a result, and nothing is alive."""
    desk.script([bash(f"echo $$ > on; sleep {1 if word == 'wait' else 300}"), done()])
    desk.spec(verify=["true"])
    ran = subprocess.run(
        [sys.executable, "-c", FORGETFUL, word],
        cwd=desk.folder,
        env={**desk.environment(), "AUTOPILOT_HOME": str(desk.home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    result = json.loads((desk.home / "session-state" / "left" / "result.json").read_text())
    assert result.get("error_type") == ending
    assert not is_alive(int(desk.read("on") or 0))


def _run_here(desk: Desk, answers: Any) -> None:
    answers.put(session(desk, done("in the fork")).send_and_wait().text)


def test_a_fork_of_the_host_runs_on_its_own_and_holds_nothing(desk: Desk, tmp_path: Path) -> None:
    """One made while a run is alive: it has no thread of ours, but the lock's descriptor."""
    forks, other = multiprocessing.get_context("fork"), Desk(folder=tmp_path / "other")
    answers = forks.Queue()
    with session(desk, bash("touch on; sleep 1"), done("one"), done("two")) as talk:
        first = talk.send()
        while not (desk.workspace / "on").exists():
            time.sleep(0.02)
        stays = forks.Process(target=time.sleep, args=(300,))
        works = forks.Process(target=_run_here, args=(other, answers))
        stays.start()
        works.start()
        try:
            assert answers.get(timeout=60) == "in the fork"
            assert first.result().text == "one"
            assert talk.send_and_wait("again").text == "two"
        finally:
            stays.kill()
            works.join()
            stays.join()


def test_a_wrong_kind_of_event_is_refused(desk: Desk) -> None:
    """With the names there are."""
    talk = session(desk)
    with pytest.raises(ValueError, match=r"no event is called `asistant.message`.*abort"):
        talk.on("asistant.message", print)
    with pytest.raises(ValueError, match="no event is called"):
        talk.on(Step, print)


def test_on_event_gets_every_record_with_its_envelope(desk: Desk) -> None:
    """What is on disk, whole and in order, and what is only shown."""
    desk.script([LOOK, done()])
    shown: list[Any] = []
    talk = Session(
        load_spec(desk.spec()), home=desk.home, environ=desk.environment(), on_event=shown.append
    )
    assert talk.send_and_wait().ok
    assert [record for record in shown if record.seq is not None] == list(talk.events())
    assert isinstance(shown[-1].event, events.SessionIdle)


def test_the_copilot_sdk_reads_the_log_of_a_session(desk: Desk) -> None:
    """Of several prompts, a stop and a cap: every line parses into a class that it knows."""
    with session(desk, LOOK, LOOK, done(), bash("touch on; sleep 60"), max_turns=1) as talk:
        talk.send_and_wait("one")
        talk.send_and_wait("two")
        stopped = talk.send("three")
        while not (desk.workspace / "on").exists():
            time.sleep(0.02)
        talk.abort()
    log = stopped.result().folder
    assert log is not None
    lines = [json.loads(line) for line in (log / "events.jsonl").read_text().splitlines()]
    assert len(lines) > 30
    for line in lines:
        known = SessionEvent.from_dict(line).type is not SessionEventType.UNKNOWN
        assert known != line["type"].startswith("runner."), line["type"]


def test_a_session_is_resumed_and_forked_by_its_id(desk: Desk) -> None:
    """By a beginning of it, too; the original of a fork stays as it is."""
    first = session(desk, done("one"), done("two"), done("three"))
    assert first.send_and_wait().ok
    spec = load_spec(desk.spec())
    where: dict[str, Any] = {"home": desk.home, "environ": desk.environment()}
    assert Session(spec, resume=first.id[:8], **where).send_and_wait("more").text == "two"
    before = list(first.events())
    copy = Session(spec, resume=first.id, fork=True, session_id="copy", **where)
    assert copy.send_and_wait("other").text == "three"
    assert (copy.id, list(first.events())) == ("copy", before)


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"resume": "nope"}, SessionError),
        ({"session_id": "../x"}, SessionError),
        ({"fork": True}, ValueError),
        ({"resume": "a", "session_id": "b"}, ValueError),
    ],
)
def test_a_session_that_cannot_be_is_refused_at_once(
    desk: Desk, keys: Mapping[str, Any], error: type[Exception]
) -> None:
    """Nothing is written for it."""
    desk.script([done()])
    spec = load_spec(desk.spec())
    with pytest.raises(error):
        Session(spec, home=desk.home, **keys)
    assert not desk.home.exists()


def test_a_home_that_cannot_be_written_is_an_ending(desk: Desk) -> None:
    """Whatever stops a run that was asked for is a value."""
    desk.home.write_text("a file")
    result = session(desk, done()).send_and_wait()
    assert (result.error_type, result.exit_code, result.folder) == ("preflight", 78, None)


def test_two_sessions_at_once_do_not_touch_each_other(desk: Desk, tmp_path: Path) -> None:
    """While both run commands, each keeps its own, and one is aborted without the other."""
    other = Desk(folder=tmp_path / "other")
    with (
        session(desk, bash("touch on; sleep 300")) as doomed,
        session(other, bash("touch on; sleep 1; echo whole"), done("whole")) as kept,
    ):
        ends, goes_on = doomed.send(), kept.send()
        for at in (desk, other):
            while not (at.workspace / "on").exists():
                time.sleep(0.02)
        doomed.abort()
        assert ends.result().error_type == "cancelled"
        assert goes_on.result().text == "whole"
    outputs = [
        record.event.result.content
        for record in kept.events()
        if isinstance(record.event, events.ToolExecutionComplete) and record.event.result
    ]
    assert outputs[0] == "whole"


def test_the_children_of_the_host_program_live_on(desk: Desk) -> None:
    """A process that the host starts while a tool runs is not the tool's, and stays alive."""
    with session(desk, bash("touch on; sleep 0.5"), done()) as talk:
        sent = talk.send()
        while not (desk.workspace / "on").exists():
            time.sleep(0.02)
        own = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        try:
            assert sent.result().ok
            assert own.poll() is None
        finally:
            own.communicate(b"\n")
        assert own.returncode == 0


def test_what_a_command_leaves_behind_is_ended_with_the_run(desk: Desk) -> None:
    """Also a daemon that left its session: it has the run's mark."""
    left = bash("setsid sh -c 'echo $$ > pid; exec sleep 300' & sleep 0.3")
    result: Result = session(desk, left, done()).send_and_wait()
    assert result.ok
    assert not is_alive(int((desk.workspace / "pid").read_text()))


def test_the_environment_of_the_run_can_be_given(desk: Desk) -> None:
    """Tools see what was given, not what this process has."""
    os.environ["LC_MINE"] = "host"
    try:
        desk.environ = {"LC_MINE": "given"}
        with session(desk, bash("echo $LC_MINE > seen"), done()) as talk:
            assert talk.send_and_wait().ok
    finally:
        del os.environ["LC_MINE"]
    assert desk.read("seen") == "given\n"
