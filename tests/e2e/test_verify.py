"""Green means done: the runner runs the checks of the spec itself."""

from __future__ import annotations

import os

import pytest

from tests.e2e.desk import Desk
from tests.servers import D, T, X

pytestmark = pytest.mark.warm

FIXED = "test -e fixed.txt"
WRITE = ("Write", {"file_path": "fixed.txt", "content": "yes\n"})
READ = ("Read", {"file_path": "README.md"})
EDITS = {"permission_mode": "acceptEdits"}


def test_checks_that_pass_make_the_completion_stand(desk: Desk) -> None:
    """The start is recorded before the checks run, the outcome before the call is accepted."""
    played = desk.play([X(WRITE), D("done")], verify=[FIXED], **EDITS)
    assert played.exit_code == 0
    verification = played.result["verification"]
    assert (verification["status"], verification["attempts"]) == ("passed", 1)
    assert [(c["name"], c["passed"], c["exit_code"]) for c in verification["checks"]] == [
        (FIXED, True, 0)
    ]
    assert played.of("runner.verify_start") == [{"attempt": 1, "commands": [FIXED]}]
    types = played.types
    order = [types.index(f"runner.verify_{what}") for what in ("start", "complete")]
    assert order == sorted(order)
    assert order[1] < types.index("session.task_complete")


def test_a_failed_check_goes_back_to_the_model(desk: Desk) -> None:
    """The call gets the end of the output, the completion is recorded as rejected, work goes on."""
    check = {"run": f"echo looking for it; {FIXED}", "name": "is it fixed"}
    played = desk.play([D("done"), X(WRITE), D("now done")], verify=[check], **EDITS)
    assert (played.exit_code, played.result["result"]) == (0, "now done")
    assert played.result["verification"]["attempts"] == 2
    answer = played.of("tool.execution_complete")[0]
    assert answer["success"] is False
    for words in ("`is it fixed`: exit code 1", "looking for it", "never the check"):
        assert words in answer["error"]["message"]
    said = [(f["success"], f["outcome"]) for f in played.of("session.task_complete")]
    assert said == [(False, "continue"), (True, "completed")]
    assert played.of("session.task_complete")[0]["reason"] == "Checks failed: `is it fixed`"


def test_checks_fail_as_often_as_they_may(desk: Desk) -> None:
    """Three attempts, then exit 8; a rejected completion costs no continue."""
    played = desk.play([D("done")] * 5, verify=[FIXED], max_autopilot_continues=0)
    assert (played.exit_code, played.result["error_type"]) == (8, "check_failed")
    assert played.result["subtype"] == "error_verification_failed"
    assert played.result["verification"]["status"] == "failed"
    assert played.types.count("runner.verify_complete") == 3
    assert played.result["task_completed"] is False


def test_the_number_of_attempts_is_the_specs(desk: Desk) -> None:
    """`limits.max_verify_attempts: 1`: the first failure is the end."""
    played = desk.play([D("done")] * 2, verify=["false"], limits={"max_verify_attempts": 1})
    assert (played.exit_code, played.types.count("runner.verify_start")) == (8, 1)


def test_without_autopilot_a_failed_check_is_said_by_the_user(desk: Desk) -> None:
    """The answer is checked; the failure is the next message, and the model works on."""
    played = desk.play([T("done"), X(WRITE), T("now")], verify=[FIXED], autopilot=False, **EDITS)
    assert (played.exit_code, played.result["result"]) == (0, "now")
    said = played.of("user.message")[1]
    assert said["source"] == "verify"
    assert FIXED in said["content"]


@pytest.mark.parametrize(("check", "status"), [("true", "passed"), ("false", "failed")])
def test_a_cap_stays_the_ending_and_the_work_is_judged(desk: Desk, check: str, status: str) -> None:
    """The turns run out: the checks run once more, and the result says what they found."""
    played = desk.play([X(READ)] * 3, verify=[check], max_turns=1)
    assert (played.exit_code, played.result["verification"]["status"]) == (3, status)
    assert played.types.count("runner.verify_start") == 1


def test_when_the_time_is_up_the_checks_get_the_grace_alone(desk: Desk) -> None:
    """A check that hangs is killed, both times: exit 9, and failed."""
    played = desk.play(
        [D("done")], verify=["sleep 30"], timeout="500ms", limits={"shutdown_grace": "200ms"}
    )
    assert (played.exit_code, played.result["verification"]["status"]) == (9, "failed")
    assert played.result["verification"]["checks"][0].get("exit_code") is None


def test_a_check_that_takes_too_long_fails(desk: Desk) -> None:
    """`timeout` of a check: killed, told as timed out."""
    check = {"run": "sleep 30", "timeout": "200ms"}
    played = desk.play([D("done")], verify=[check], limits={"max_verify_attempts": 1})
    assert played.exit_code == 8
    assert "timed out" in played.of("tool.execution_complete")[0]["error"]["message"]


def test_a_missing_program_is_found_before_anything_is_paid(desk: Desk) -> None:
    """The first word of a check is looked up: exit 78, and the name of what is missing."""
    played = desk.play([D("done")], verify=["no-such-program-here --all"])
    assert (played.exit_code, played.result["error_type"]) == (78, "preflight")
    assert "no-such-program-here" in played.result["errors"][0]
    assert "assistant.turn_start" not in played.types


BUILT = [X(("Bash", {"command": "printf '#!/bin/sh\n' > app && chmod +x app"})), D("done")]
BUILDS = {"verify": ["./app"], "allowed_tools": ["Bash"]}


def test_a_check_that_is_not_there_yet_is_found_before_anything_runs(desk: Desk) -> None:
    """A program that the agent would write itself proves nothing: exit 78, nothing is asked."""
    played = desk.play(BUILT, **BUILDS)
    assert (played.exit_code, played.types.count("assistant.turn_start")) == (78, 0)
    assert "app is no program that can run, and `./app` needs it" in played.stderr


def test_a_program_that_is_built_first_can_be_a_check(desk: Desk) -> None:
    """Once the spec says so, by lifting it from the protected paths."""
    assert desk.play(BUILT, protected_paths=["!app"], **BUILDS).exit_code == 0


def test_checks_see_the_environment_of_tools(desk: Desk) -> None:
    """What `env.set` gives is there."""
    played = desk.play(
        [D("done")], verify=['test "$CHECKED" = yes'], env={"set": {"CHECKED": "yes"}}
    )
    assert played.exit_code == 0


def test_without_checks_nothing_is_verified(desk: Desk) -> None:
    """No `verify`: the result says so."""
    played = desk.play([D("done")])
    assert played.result["verification"] == {"status": "not_configured", "checks": []}


def test_a_check_is_run_by_no_shell_that_the_agent_made(desk: Desk) -> None:
    """Not even where the search path leads into the workspace, as in a virtual environment."""
    fake = desk.write(".venv/bin/bash", "#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    path = f"{fake.parent}:{os.environ['PATH']}"
    played = desk.play(
        [D("done"), D("done"), D("done")], **EDITS, verify=["false"], env={"set": {"PATH": path}}
    )
    assert played.exit_code == 8
