"""An agent that bends what judges it never passes: the tampering is the ending, and is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.desk import Desk, Played
from tests.servers import D, T, X

pytestmark = pytest.mark.warm

CHECK = "#!/bin/sh\ntest -e fixed.txt\n"


def bash(command: str) -> tuple[str, dict[str, str]]:
    """A call of Bash."""
    return "Bash", {"command": command}


def checked(desk: Desk) -> Desk:
    """A repository with a check script, a pinned test, a conftest and a hook."""
    desk.write("check.sh", CHECK).chmod(0o755)
    desk.write("tests/test_it.py", "def test(): assert False\n")
    desk.write("conftest.py", "")
    desk.write(".github/workflows/ci.yml", "on: push\n")
    subprocess.run(["git", "init", "-q"], cwd=desk.workspace, check=True)
    desk.defaults |= {
        "verify": ["./check.sh"],
        "protected_paths": ["tests/", "conftest.py"],
    }
    return desk


def violated(played: Played, path: str, error_type: str = "protected_path_changed") -> None:
    """It ended as a policy violation that names the path; nothing was declared done."""
    assert (played.exit_code, played.result["error_type"]) == (11, error_type)
    assert played.result["subtype"] == "error_policy_violation"
    assert path in played.result["errors"][0]
    assert "result" not in played.result


TAMPERING = {
    "rewrites the check": ("printf 'exit 0' > check.sh", "check.sh has other content"),
    "makes the check another kind": ("rm check.sh; mkdir check.sh", "was a file and is a folder"),
    "links the check elsewhere": ("ln -sf /bin/true check.sh", "was a file and is a link"),
    "changes its mode": ("chmod 700 check.sh", "had mode 0755 and has 0700"),
    "removes a pinned test": ("rm tests/test_it.py", "tests/test_it.py is gone"),
    "renames the folder above": ("mv tests old", "tests/test_it.py is gone"),
    "swaps the folder for a link": ("mv tests old; ln -s old tests", "tests is new"),
    "adds a test": ("touch tests/test_more.py", "tests/test_more.py is new"),
    "rewrites conftest.py": ("echo 'import os' > conftest.py", "conftest.py has other content"),
    "adds a conftest.py below": ("mkdir a; touch a/conftest.py", "a/conftest.py is new"),
    "configures git": ("git config core.fsmonitor /bin/true", ".git/config has other content"),
    "adds a hook": ("touch .git/hooks/pre-push", ".git/hooks/pre-push is new"),
    "adds a workflow": ("touch .github/workflows/x.yml", ".github/workflows/x.yml is new"),
    "replaces the repository": ("mv .git g; cp -r g .git; rm -rf .git/hooks", "is gone"),
    "edits the task": ("echo >> ../task.yaml", "task.yaml has other content"),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_tampering_ends_the_run(desk: Desk, how: str) -> None:
    """Whatever the agent did with Bash, the checks are not even run."""
    command, told = TAMPERING[how]
    script = [X(bash(f"touch fixed.txt; {command}")), D("done")]
    played = checked(desk).play(script)
    is_check = "check.sh" in command
    violated(played, told, "check_tampered" if is_check else "protected_path_changed")
    assert "runner.verify_start" not in played.types
    (found,) = [one for one in played.of("runner.protection_check") if one["changes"]]
    assert all({"path", "change", "isCheck"} == one.keys() for one in found["changes"])


def test_what_edits_during_the_checks_is_found_though_it_is_put_back(desk: Desk) -> None:
    """Code of the agent that a check runs: it bends the check script and mends it again."""
    desk.write("check.sh", "#!/bin/sh\nsh app.sh\n").chmod(0o755)
    evil = "cp -p check.sh keep; echo 'exit 0' > check.sh; sleep 0.1; cat keep > check.sh; exit 0"
    played = desk.play([X(bash(f"echo '{evil}' > app.sh")), D("done")], verify=["./check.sh"])
    assert desk.read("check.sh") == "#!/bin/sh\nsh app.sh\n"
    violated(played, "check.sh was written while the checks ran", "check_tampered")


SWAPS = {
    "within a check": ["sh build.sh; sh tests/run.sh"],
    "from one check to the next": ["sh build.sh", "sh tests/run.sh"],
}


@pytest.mark.parametrize("checks", SWAPS.values(), ids=SWAPS)
def test_a_folder_that_is_swapped_while_the_checks_run_is_found(
    desk: Desk, checks: list[str]
) -> None:
    """The folder of a pinned test is moved away and back, which leaves no mark on the test."""
    desk.write("tests/run.sh", "exit 1\n")
    fake = "rm -rf tests; mv kept tests; exit 0"
    evil = f'mv tests kept; mkdir tests; echo "{fake}" > tests/run.sh'
    played = desk.play([X(bash(f"echo '{evil}' > build.sh")), D("done")], verify=checks)
    violated(played, "tests/", "check_tampered")


def test_what_a_linked_file_says_cannot_be_swapped_either(desk: Desk) -> None:
    """The link is as it was all the time; what it leads to is not."""
    desk.write("real.cfg", "strict\n")
    (desk.workspace / "pinned.cfg").symlink_to("real.cfg")
    lines = ("sh app.sh", "grep -q lax pinned.cfg; e=$?", "echo strict > real.cfg; exit $e")
    desk.write("check.sh", "\n".join(lines))
    script = [X(bash("echo 'echo lax > real.cfg' > app.sh")), D("done")]
    played = desk.play(script, verify=["sh check.sh"], protected_paths=["/pinned.cfg"])
    violated(played, "pinned.cfg was written while the checks ran")


def test_a_background_process_gains_nothing(desk: Desk) -> None:
    """What a call left running is gone with the call; what a check starts is seen after it."""
    desk.write("check.sh", "#!/bin/sh\n(setsid sh -c 'echo >> check.sh' &) ; sleep 0.3\n").chmod(
        0o755
    )
    violated(desk.play([D("done")], verify=["./check.sh"]), "check.sh", "check_tampered")


def test_an_ending_without_checks_is_compared_too(desk: Desk) -> None:
    """No `verify`: right before the success."""
    played = desk.play([X(bash("git init -q .")), D("done")])
    violated(played, ".git/config is new")
    assert played.types.count("runner.protection_check") == 1


def test_a_cap_is_no_way_out(desk: Desk) -> None:
    """Tampering is worse than running out of turns."""
    played = checked(desk).play([X(bash("echo > check.sh")), X(bash("true"))], max_turns=1)
    violated(played, "check.sh", "check_tampered")


def test_giving_up_is_no_way_out(desk: Desk) -> None:
    """Nor is stopping without completion."""
    script = [X(bash("echo > conftest.py")), T("enough")]
    violated(checked(desk).play(script, max_autopilot_continues=0), "conftest.py")


def test_file_tools_refuse_and_say_why(desk: Desk) -> None:
    """Write and Edit: a denial that is counted, and the run goes on."""
    write = ("Write", {"file_path": ".git/hooks/pre-push", "content": "x"})
    read = ("Read", {"file_path": "tests/test_it.py"})
    edit = (
        "Edit",
        {"file_path": "tests/test_it.py", "old_string": "False", "new_string": "True"},
    )
    script = [X(write, read), X(edit), X(bash("touch fixed.txt")), D("done")]
    played = checked(desk).play(script, allowed_tools=["Bash", "Write", "Edit"])
    assert played.exit_code == 0
    answers = [one["error"]["message"] for one in played.of("tool.execution_complete")[:3:2]]
    assert ".git/hooks/pre-push is protected (by default" in answers[0]
    assert "tests/test_it.py is protected (by `protected_paths`" in answers[1]
    assert [one["tool_name"] for one in played.result["permission_denials"]] == ["Write", "Edit"]


def test_what_the_spec_lifts_may_be_changed(desk: Desk) -> None:
    """`!pattern`, for a default and for the check itself."""
    lifted = ["!.github/workflows/", "!check.sh", "!.git/config"]
    command = "touch fixed.txt .github/workflows/x.yml; git config a.b c; echo exit 0 > check.sh"
    played = checked(desk).play([X(bash(command)), D("done")], protected_paths=lifted)
    assert played.exit_code == 0


def test_a_resumed_run_is_held_to_the_first_state(desk: Desk) -> None:
    """Killed after the tampering, resumed: the end comes before anything is paid."""
    checked(desk)
    script = [X(bash("echo exit 0 > check.sh; touch fixed.txt")), T("x")]
    with desk.started([*script, D("done")], max_turns=1, max_autopilot_continues=3) as running:
        running.wait_for("tool.execution_complete")
        running.process.kill()
        running.finish()
    before = len(running.of("assistant.turn_start"))
    session = next((desk.home / "session-state").iterdir()).name
    done = desk.call("run", "task.yaml", "--resume", session)
    assert done.returncode == 11, done.stderr
    assert len(running.of("assistant.turn_start")) == before


def test_the_task_may_be_edited_between_two_parts(desk: Desk) -> None:
    """A cap ended the run unharmed: the spec is changed, and the session goes on."""
    checked(desk)
    look = X(("Read", {"file_path": "README.md"}))
    first = desk.play([look, look, X(bash("touch fixed.txt")), D("done")], max_turns=1)
    assert first.exit_code == 3
    session = next((desk.home / "session-state").iterdir()).name
    spec: Path = desk.spec(max_turns=9)
    done = desk.call("run", str(spec), "--resume", session)
    assert done.returncode == 0, done.stderr


def test_a_hostile_repository_never_runs_anything_of_its_own(desk: Desk) -> None:
    """fsmonitor, filters, textconv, external diff and hooks are there: none is ever run."""
    checked(desk)
    spy = desk.write("spy.sh", f"#!/bin/sh\ntouch {desk.folder}/canary\ncat\n")
    spy.chmod(0o755)
    settings = (
        "core.fsmonitor",
        "diff.external",
        "filter.spy.clean",
        "filter.spy.smudge",
        "filter.spy.process",
        "diff.spy.textconv",
        "core.hooksPath",
    )
    for name in settings:
        subprocess.run(["git", "config", name, str(spy)], cwd=desk.workspace, check=True)
    desk.write(".gitattributes", "* filter=spy diff=spy\n")
    desk.write(".git/hooks/post-checkout", spy.read_text()).chmod(0o755)
    played = desk.play([X(bash("touch fixed.txt")), D("done")])
    assert (played.exit_code, (desk.folder / "canary").exists()) == (0, False)
    assert [one["path"] for one in played.result["workspace_diff"]["files"]] == ["fixed.txt"]


def test_a_sandbox_keeps_a_check_from_being_changed(desk: Desk) -> None:
    """Where the sandbox can, it is prevented, and the run goes on to an honest end."""
    checked(desk)
    try_it = X(bash("echo exit 0 > check.sh; mv check.sh x; rm -f tests/test_it.py"))
    sandbox = {"mode": "namespaces"}
    played = desk.play([try_it, X(bash("touch fixed.txt")), D("done")], sandbox=sandbox)
    if played.exit_code == 78:
        pytest.skip("this machine has no pid namespaces for us")
    assert played.exit_code == 0, played.result
    assert (desk.read("check.sh"), desk.read("x")) == (CHECK, None)
    assert desk.read("tests/test_it.py") is not None
