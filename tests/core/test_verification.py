"""The checks of the spec: what their outcome does to a run, and what the result says of it."""

from __future__ import annotations

from runner.core import verification
from runner.core.events import (
    Abort,
    RunnerVerifyComplete,
    RunnerVerifyStart,
    ToolExecutionComplete,
    VerifyCheck,
)
from runner.core.policy import next_step
from runner.core.spec import VerifySpec
from runner.core.state import State
from runner.core.steps import Finish, Say
from tests.fakes import call, done, reply
from tests.logs import Log, play, task, verified

CHECKS = (VerifySpec(run="make test"),)
TIMEOUT = Abort(reason="user_abort", cause="timeout")
SIGTERM = Abort(reason="remote_command", cause="SIGTERM")


def new(**spec: object) -> Log:
    return Log(task(verify=CHECKS, **spec))


def test_a_rejected_completion_is_an_error_and_the_run_goes_on() -> None:
    """The call's result tells what failed; the completion does not stand."""
    log = new().reply(done()).add(verified("boom"))
    step = next_step(log.state)
    assert isinstance(step, Say)
    answer = step.events[1]
    assert isinstance(answer, ToolExecutionComplete)
    assert answer.error is not None
    assert (answer.error.code, answer.error.message) == (
        "check_failed",
        "`make test`: exit code 1\nboom",
    )
    log.settle()
    assert (log.state.completion, log.rule) == (None, "ask")


def test_a_rejected_completion_costs_no_continue() -> None:
    """It has a cap of its own."""
    log = new(max_autopilot_continues=0).reply(done()).add(verified()).settle()
    assert (log.state.main.continues, log.rule) == (0, "ask")


def test_only_failed_checks_are_told() -> None:
    """A check that passed is not in the report; one that was killed is told as such."""
    killed, passed = verified("slow", None), verified("fine", 0)
    both = RunnerVerifyComplete(attempt=1, passed=False, checks=(*passed.checks, *killed.checks))
    log = new().reply(done()).add(both)
    assert verification.rejection(log.state) == "`make test`: timed out\nslow"


def test_checks_that_pass_let_the_completion_stand() -> None:
    """The run is a success, and the result says that it was checked."""
    played = play(new(), done())
    assert played.ending.subtype == "success"
    assert verification.summary(played.state) == {
        "status": "passed",
        "checks": [{"name": "make test", "passed": True, "exit_code": 0, "duration_ms": 5}],
        "attempts": 1,
    }


def test_an_unsound_completion_is_not_worth_a_check() -> None:
    """It is rejected for what it lacks."""
    assert new().reply(reply("", call("task_complete"))).rule == "control_pending"


def test_a_block_is_not_checked() -> None:
    """Nobody claims that the work is done."""
    blocked = call("task_blocked", reason="no network")
    assert new().reply(reply("", blocked)).rule == "control_pending"


def test_work_after_a_check_is_checked_again() -> None:
    """The outcome of the checks is of the work as it was then."""
    log = new().reply(done()).add(verified()).settle().reply(done())
    assert log.rule == "completion_unchecked"


def test_an_interrupted_verification_runs_again_under_the_same_number() -> None:
    """A start without an outcome is no attempt."""
    start = RunnerVerifyStart(attempt=1, commands=("make test",))
    log = new().reply(done()).add(start).resumes()
    assert log.rule == "completion_unchecked"
    assert verification.check(log.state) == verification.check(new().state)


def test_a_signal_leaves_the_work_unchecked() -> None:
    """Whoever cancels a run does not wait for its checks."""
    log = new().reply(reply("half")).ends().add(SIGTERM)
    assert (log.rule, verification.summary(log.state)["status"]) == ("stopped", "not_run")


def test_a_run_out_of_time_is_checked_once() -> None:
    """Then the cap is the ending, whatever the checks said."""
    log = new(timeout=5.0).reply(reply("half")).ends().add(TIMEOUT)
    assert log.rule == "capped_unchecked"
    log.add(verified())
    assert (log.rule, verification.summary(log.state)["status"]) == ("stopped", "failed")


def test_checks_that_were_left_out_count_for_nothing() -> None:
    """No attempt, and the result says that they did not run."""
    skipped = RunnerVerifyComplete(attempt=1, passed=False, checks=())
    log = new(timeout=5.0).reply(reply("half")).ends().add(TIMEOUT, skipped)
    assert (log.rule, verification.summary(log.state)) == (
        "stopped",
        {"status": "not_run", "checks": [], "attempts": 0},
    )


def test_an_ended_part_of_a_session_leaves_no_attempts_behind() -> None:
    """The next part has all of its attempts again."""
    log = new().reply(done()).add(verified()).settle().finishes().resumes()
    assert (log.state.verify_attempts, log.state.verified) == (0, None)


def test_without_checks_there_is_nothing_to_say() -> None:
    """Neither before the spec is known nor without the key."""
    nothing = {"status": "not_configured", "checks": []}
    assert verification.summary(State()) == nothing
    assert verification.summary(Log().state) == nothing


def gate(kind: str, *, passed: bool = False) -> VerifyCheck:
    """How a gate on what changed stands."""
    return VerifyCheck(name=kind, passed=passed, duration_ms=1, output="nothing", gate=kind)  # type: ignore[arg-type]


def judged(*checks: VerifyCheck, attempt: int = 3) -> RunnerVerifyComplete:
    return RunnerVerifyComplete(attempt=attempt, passed=False, checks=checks)


def test_a_gate_alone_is_a_check() -> None:
    """What must or must not change makes a verification due, without any command."""
    for spec in (task(require_changes=("**",)), task(forbid_changes=("a",))):
        log = Log(spec).reply(done())
        assert log.rule == "completion_unchecked"
        assert verification.summary(log.state)["status"] == "not_run"


def test_a_gate_is_told_as_not_met_and_gives_the_ending_its_name() -> None:
    """Unless a command failed too."""
    missing, failed = gate("required_changes_missing"), verified("boom").checks[0]
    log = new(require_changes=("**",)).reply(done()).add(judged(missing))
    assert verification.rejection(log.state) == "`required_changes_missing`: not met\nnothing"
    for checks, kind in (
        ((missing,), "required_changes_missing"),
        ((gate("forbidden_changes"),), "forbidden_changes"),
        ((missing, failed), "check_failed"),
        ((gate("forbidden_changes", passed=True), failed), "check_failed"),
    ):
        step = verification.give_up(new().reply(done()).add(judged(*checks)).state)
        assert isinstance(step, Finish)
        assert step.ending.error_type == kind


def test_a_report_of_many_checks_is_bounded() -> None:
    """Each keeps its end; what is beyond the twentieth is counted."""
    failed = VerifyCheck(name="c", passed=False, duration_ms=1, output="x" * 8_000, exit_code=1)
    log = new().reply(done()).add(judged(*[failed] * 30))
    report = verification.rejection(log.state)
    assert len(report) < verification.MAX_REPORT_CHARS + 2_000
    assert report.endswith("10 more checks failed.")
    assert report.startswith("`c`: exit code 1\n[...]xxx")


def test_a_second_completion_of_a_reply_is_answered_by_the_same_checks() -> None:
    """It is no attempt of its own; the next reply's is."""
    first, second = done().calls[0], call("task_complete", summary="again")
    log = new().reply(reply("", first, second)).add(verified())
    while log.rule == "control_pending":
        log.add(*next_step(log.state).events)  # type: ignore[union-attr]
    assert (log.rule, log.state.verify_attempts) == ("turn_open", 1)
    assert log.settle().reply(done()).rule == "completion_unchecked"


def test_what_the_checks_said_before_later_work_is_told_as_such() -> None:
    """Neither as the status of the work as it is, nor forgotten."""
    log = new().reply(done()).add(verified()).settle().reply(reply("", call("Bash")))
    log.runs(call("Bash")).ends().add(SIGTERM)
    found = verification.summary(log.state)
    assert (found["status"], found["before"], found["attempts"]) == ("not_run", "failed", 1)
    skipped = RunnerVerifyComplete(attempt=2, passed=False, checks=())
    assert verification.summary(log.add(skipped).state) == found
