"""Gates on what changed: what must have changed, and what must not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.desk import Desk
from tests.servers import D, X

pytestmark = pytest.mark.warm

LOOK = ("Read", {"file_path": "README.md"})


def bash(command: str) -> tuple[str, dict[str, str]]:
    """A call of Bash."""
    return "Bash", {"command": command}


def test_work_that_changed_nothing_goes_back_to_the_model(desk: Desk) -> None:
    """`require_changes: true`: the completion is rejected, and stands once there is a change."""
    played = desk.play([D("done"), X(bash("touch new.txt")), D("now")], require_changes=True)
    assert (played.exit_code, played.result["result"]) == (0, "now")
    said = played.of("tool.execution_complete")[0]["error"]["message"]
    assert "`require_changes`: not met\nnothing has changed in the workspace" in said
    assert played.result["verification"]["status"] == "passed"


@pytest.mark.parametrize(
    ("keys", "command", "error_type", "told"),
    [
        ({"require_changes": True}, "true", "required_changes_missing", "nothing has changed"),
        (
            {"require_changes": ["src/", "CHANGELOG.md"]},
            "mkdir src; touch src/a",
            "required_changes_missing",
            "no changed file matches CHANGELOG.md",
        ),
        (
            {"require_changes": ["*.py", "!test_*"]},
            "touch test_a.py",
            "required_changes_missing",
            "no changed file matches *.py",
        ),
        ({"forbid_changes": True}, "touch a", "forbidden_changes", "a must not change"),
        (
            {"forbid_changes": ["/*", "!/docs/"]},
            "mkdir docs; touch docs/a; mv README.md docs/",
            "forbidden_changes",
            "README.md must not change",
        ),
        (
            {"forbid_changes": ["README.md"], "require_changes": ["b"]},
            "echo >> README.md; touch b",
            "forbidden_changes",
            "README.md must not change",
        ),
    ],
)
def test_a_gate_that_is_never_met_is_the_ending(
    desk: Desk, keys: dict[str, Any], command: str, error_type: str, told: str
) -> None:
    """Exit 8, after as many attempts as checks have."""
    played = desk.play([X(bash(command)), *[D("done")] * 3], **keys)
    assert (played.exit_code, played.result["error_type"]) == (8, error_type)
    assert played.result["subtype"] == "error_verification_failed"
    assert told in played.of("tool.execution_complete")[-1]["error"]["message"]


@pytest.mark.parametrize(
    ("keys", "command"),
    [
        ({"require_changes": ["src/"]}, "mkdir src; touch src/a"),
        ({"forbid_changes": ["/*", "!/docs/"]}, "mkdir docs; touch docs/a"),
        ({"forbid_changes": True}, "touch a; rm a"),
        ({"require_changes": False, "forbid_changes": []}, "touch a"),
        ({"require_changes": ["a"]}, "git init -q; git add a 2>/dev/null; touch a"),
    ],
)
def test_a_gate_that_is_met(desk: Desk, keys: dict[str, Any], command: str) -> None:
    """It is the difference from the start that counts, untracked files included."""
    played = desk.play([X(bash(command)), D("done")], protected_paths=["!.git/"], **keys)
    assert played.exit_code == 0, played.result


def test_a_failed_command_is_told_before_a_gate(desk: Desk) -> None:
    """Both failed: the ending is that of the command, the report has both."""
    limits = {"max_verify_attempts": 1}
    played = desk.play([D("done")], verify=["false"], require_changes=True, limits=limits)
    assert (played.exit_code, played.result["error_type"]) == (8, "check_failed")
    assert "`false`, `require_changes`" in played.result["errors"][0]


def test_a_gate_needs_git(desk: Desk) -> None:
    """Without it nothing is proved, so nothing is paid for."""
    (desk.folder / "empty").mkdir()
    for name in ("bash", "sh"):
        (desk.folder / "empty" / name).symlink_to(f"/bin/{name}")
    desk.environ["PATH"] = str(desk.folder / "empty")
    played = desk.play([D("done")], require_changes=True)
    assert (played.exit_code, played.result["error_type"]) == (78, "preflight")
    assert "`require_changes`" in played.result["errors"][0]


def test_two_completions_of_one_reply_are_one_attempt(desk: Desk) -> None:
    """The second is answered by what the first found."""
    twice = ("task_complete", {"summary": "done"})
    played = desk.play(
        [X(twice, twice), D("done")], verify=["false"], limits={"max_verify_attempts": 2}
    )
    assert (played.exit_code, played.types.count("runner.verify_start")) == (8, 2)


def test_a_blocked_run_does_not_say_that_its_work_passed(desk: Desk) -> None:
    """The checks failed once, then work was done, then the model gave up."""
    blocked = X(("task_blocked", {"reason": "no"}))
    played = desk.play([D("done"), X(bash("touch a")), blocked], verify=["test -e b"])
    found = played.result["verification"]
    assert (found["status"], found["before"], found["attempts"]) == ("not_run", "failed", 1)


def test_a_copy_is_compared_without_git(desk: Desk) -> None:
    """The patch, the lines and the gates, on a machine that has no git."""
    programs = desk.folder / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "touch"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    desk.environ["PATH"] = str(programs)
    played = desk.play(
        [X(bash("echo more >> README.md; touch b")), D("done")],
        workspace={"path": "work", "isolation": "copy"},
        require_changes=["b"],
    )
    assert played.exit_code == 0, played.result
    diff = played.result["workspace_diff"]
    assert ([one["path"] for one in diff["files"]], diff["lines_added"]) == (["README.md", "b"], 1)
    assert "+more" in (played.folder / "patch.diff").read_text()
    assert desk.read("b") is None
