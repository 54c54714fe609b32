"""`autopilot doctor`: what this machine can do, for people and for programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.e2e.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk with a spec whose script is readable."""
    desk = Desk(folder=tmp_path / "desk")
    desk.script([])
    return desk


def test_a_machine_is_looked_at_without_a_spec(desk: Desk) -> None:
    """Home, disk, programs, keys and the sandbox, each with what was found; code 0, and no
    session is left."""
    done = desk.call("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line.split()[1] for line in done.stdout.split("\n\n")[0].splitlines()]
    assert names == ["home", "disk", "git", "ripgrep", "keys", "sandbox"]
    assert "  holds     own session" in done.stdout
    assert done.stdout.endswith("\nready\n")
    assert list((desk.home / "session-state").iterdir()) == []


def test_a_spec_that_would_not_start_is_code_78_with_the_cure(desk: Desk) -> None:
    """The failed check is marked and counted; the others are told too."""
    spec = desk.spec(model="anthropic/claude-sonnet-4-5")
    done = desk.call("doctor", str(spec))
    assert done.returncode == 78
    assert "FAILED  key              ANTHROPIC_API_KEY is not set" in done.stdout
    assert "not ready: 1 of" in done.stdout


def test_the_answer_can_be_read_by_programs(desk: Desk) -> None:
    """`--format json`: one object, with the report of the sandbox as a run records it."""
    off = {"mode": "off", "reason": "a test"}
    done = desk.call("doctor", str(desk.spec(sandbox=off)), "--format", "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"]) == (0, True)
    assert found["sandbox"]["tier"] == "process"
    assert {"name": "sandbox", "ok": True, "detail": "process: no boundary (a test)"} in found[
        "checks"
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_cannot_be_written_is_named(desk: Desk) -> None:
    """Code 78, the folder, and how to name another."""
    done = desk.call("doctor", "--home", "/proc/no")
    assert done.returncode == 78
    assert "/proc/no" in done.stdout


def test_a_home_that_is_a_file_is_named(desk: Desk) -> None:
    """Code 78, the folder, and how to name another; the sandbox is not tried."""
    file = desk.write("file", "x")
    done = desk.call("doctor", "--home", str(file / "below"))
    assert done.returncode == 78
    assert f"FAILED  home             {file}/below/session-state" in done.stdout
    assert "--home" in done.stdout
    assert "holds" not in done.stdout


def test_a_bad_spec_is_code_2(desk: Desk) -> None:
    """Its mistakes are told as everywhere."""
    done = desk.call("doctor", str(desk.spec(nonsense=1)))
    assert done.returncode == 2
    assert "nonsense" in done.stderr
