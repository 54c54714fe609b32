"""Command hooks as processes, what is found wrong with them early, and the key `hooks`."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from runner.adapters import configs
from runner.adapters.hooks import MAX_ANSWER_BYTES, CommandHooks, checks, script_files
from runner.adapters.local import LocalSandbox
from runner.core.hook_answers import HookRun
from runner.core.spec import HookGroup, HookSpec, TaskSpec, WorkspaceSpec
from tests.adapters.test_specfile import BASE, load, problems_of
from tests.hooked import hooks_of

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def run(tmp_path: Path, hook: HookSpec, timeout_s: float = 20.0, **payload: Any) -> HookRun:
    """One hook, in a folder that is its workspace."""
    hooks = CommandHooks(
        sandbox=LocalSandbox(), workspace=tmp_path, session=tmp_path / "s1", env=ENV
    )
    return asyncio.run(hooks.run(hook, {"hook_event_name": "Stop", **payload}, timeout_s))


def test_a_hook_reads_json_and_its_streams_are_kept_apart(tmp_path: Path) -> None:
    """What is particular to the event, and where it happens; any text survives."""
    ran = run(
        tmp_path, HookSpec(command="cat; echo oops >&2; exit 3"), prompt="ä \U0001f600 \ud800"
    )
    assert (ran.exit_code, ran.stderr) == (3, "oops\n")
    assert json.loads(ran.stdout) == {
        "session_id": "s1",
        "transcript_path": str(tmp_path / "s1" / "events.jsonl"),
        "cwd": str(tmp_path),
        "hook_event_name": "Stop",
        "prompt": "ä \U0001f600 \ud800",
    }


def test_a_payload_of_any_size_is_no_obstacle(tmp_path: Path) -> None:
    """Neither for a hook that reads it all nor for one that reads nothing."""
    big = "x" * 3_000_000
    assert run(tmp_path, HookSpec(command="wc -c"), prompt=big).stdout.strip() > "3000000"
    assert run(tmp_path, HookSpec(command="exit 2"), prompt=big).exit_code == 2


def test_a_hook_with_arguments_is_run_without_a_shell(tmp_path: Path) -> None:
    """Nothing in them is interpreted."""
    ran = run(tmp_path, HookSpec(command="printf", args=("%s", "$HOME; ls")))
    assert ran.stdout == "$HOME; ls"
    gone = run(tmp_path, HookSpec(command="no-such-program", args=()))
    assert gone.problem == "it could not be started: No such file or directory"


def test_a_hook_that_is_too_slow_is_killed_with_all_it_started(tmp_path: Path) -> None:
    """A daemon of it, too; nothing is left to write later."""
    command = "(setsid sh -c 'sleep 2; touch late' &) ; sleep 60"
    began = time.monotonic()
    ran = run(tmp_path, HookSpec(command=command), timeout_s=0.3)
    assert (ran.exit_code, ran.problem) == (None, None)
    assert time.monotonic() - began < 20
    time.sleep(2.2)
    assert not (tmp_path / "late").exists()


def test_a_flood_is_an_error(tmp_path: Path) -> None:
    """An answer has an end."""
    ran = run(tmp_path, HookSpec(command=f"head -c {MAX_ANSWER_BYTES + 1} /dev/zero"))
    assert ran.problem == f"it printed more than {MAX_ANSWER_BYTES} bytes"


# -- found before anything runs ------------------------------------------------------------------


def wrong(workspace: Path, *hooks: str | HookSpec) -> list[str]:
    """What the preflight finds wrong."""
    spec = TaskSpec(
        name="t",
        prompt="p",
        model="m",
        workspace=WorkspaceSpec(path=str(workspace)),
        hooks=hooks_of("Stop", *hooks),
    )
    return [check.detail for check in checks(spec, ENV) if not check.ok]


def test_what_only_a_shell_can_tell_is_left_to_it(tmp_path: Path) -> None:
    """Builtins, assignments, functions, expansions, subshells, quotes that do not match."""
    script = tmp_path / "ok.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "ok.py").touch()
    fine = (
        "test -e x || exit 2",
        "A=1 true",
        "f() { :; }; f",
        "$TOOL --now",
        "(cd x && ls)",
        "'unbalanced",
        "./ok.sh",
        '"$CLAUDE_PROJECT_DIR"/ok.sh --strict',
        "${AUTOPILOT_WORKSPACE}/ok.sh",
        str(script),
        "sh ok.sh",
        "sh -c 'exit 2'",
        "\n",
    )
    assert wrong(tmp_path, *fine) == []
    spec = TaskSpec(name="t", prompt="p", model="m", hooks=hooks_of("Stop", *fine))
    assert script_files(spec, tmp_path) == ("ok.sh",)


@pytest.mark.parametrize(
    ("hook", "detail"),
    [
        ("./gone.sh", "gone.sh is not there, and `./gone.sh` runs it"),
        ("./plain.sh -x", "plain.sh is not executable, and `./plain.sh -x` runs it; run chmod +x"),
        ("no-such-program", "`no-such-program` is not on PATH"),
        ("python3 gone.py", "gone.py is not there"),
        (HookSpec(command="gone", args=("a",)), "`gone` is not on PATH, and `gone a` needs it"),
    ],
)
def test_a_command_that_certainly_fails_is_named(
    tmp_path: Path, hook: str | HookSpec, detail: str
) -> None:
    """With its event, and what to do."""
    (tmp_path / "plain.sh").touch(mode=0o644)
    (found,) = wrong(tmp_path, hook)
    assert found.startswith("Stop: ")
    assert detail in found


# -- the key -------------------------------------------------------------------------------------


def test_hooks_are_written_as_in_claudes_settings(tmp_path: Path) -> None:
    """A number is seconds, as there; a duration works as everywhere else."""
    text = BASE + (
        "hooks:\n"
        "  PreToolUse:\n"
        "    - matcher: Edit|Write\n"
        "      hooks:\n"
        "        - {type: command, command: ./check, timeout: 5, if: Edit(src/**)}\n"
        "        - {command: lint, args: [-q], timeout: 1m, fail_closed: true}\n"
        "  Stop: [{hooks: [{command: 'true'}]}]\n"
    )
    assert load(tmp_path, text).hooks == {
        "PreToolUse": (
            HookGroup(
                matcher="Edit|Write",
                hooks=(
                    HookSpec(command="./check", timeout=5.0, if_="Edit(src/**)"),
                    HookSpec(command="lint", args=("-q",), timeout=60.0, fail_closed=True),
                ),
            ),
        ),
        "Stop": (HookGroup(hooks=(HookSpec(command="true"),)),),
    }


@pytest.mark.parametrize(
    ("hooks", "problem"),
    [
        ("{PreTooluse: []}", "no event is called PreTooluse"),
        ("{Stop: [{matcher: Bash, hooks: []}]}", "Stop takes no matcher"),
        ("{PreToolUse: [{matcher: bash, hooks: []}]}", "no tool is called bash"),
        ("{PreToolUse: [{matcher: '(', hooks: []}]}", "not a regular expression"),
        ("{PreToolUse: [{matcher: Bash}]}", "required, but missing"),
        ("{Stop: [{hooks: [{command: x, if: Bash}]}]}", "`if` is about tool calls, and Stop"),
        (
            "{SessionEnd: [{hooks: [{command: x, fail_closed: true}]}]}",
            "nothing can be blocked at SessionEnd",
        ),
        ("{Stop: [{hooks: [{type: http, command: x}]}]}", "http is not supported yet"),
        ("{Stop: [{hooks: [{command: x, async: true}]}]}", "not supported yet"),
        ("{Stop: [{hooks: [{command: x, timeout: 0}]}]}", "not between 0 and"),
        ("{Stop: [{hooks: [{command: x, timeout: soon}]}]}", "expected a duration"),
        ("{PreToolUse: [{hooks: [{command: x, if: 'Bash('}]}]}", "is no rule"),
        ("[]", "expected a map of events"),
        ("{Stop: {}}", "expected a list"),
    ],
)
def test_a_mistake_in_hooks_is_named(tmp_path: Path, hooks: str, problem: str) -> None:
    """With the line, and the path down to the hook."""
    found = problems_of(tmp_path, f"{BASE}hooks: {hooks}\n")
    assert len(found) == 1
    assert problem in found[0]
    assert found[0].startswith("task.yaml:")


def test_the_hooks_that_ship_with_us_load(tmp_path: Path) -> None:
    """As something to start from."""
    gates = configs.path("hooks") / "gates.yaml"
    hooks = load(tmp_path, f"{BASE}extends: {gates}\n").hooks
    assert set(hooks) == {"PreToolUse", "Stop", "SessionEnd"}
    assert all(hook.fail_closed for group in hooks["PreToolUse"] for hook in group.hooks)
