"""Runs that are killed at any moment lose nothing that was acknowledged, and come to their end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.adapters.journal import read_log
from runner.core.events import to_json

TURNS = 12
KILLED = -signal.SIGKILL


def test_a_run_killed_at_any_moment_keeps_every_event_it_has_shown(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """What was on stdout before the kill is in the log, no Bash ran twice, and the task is done."""
    kills = request.config.getoption("--crash-rounds")
    command = [sys.executable, "-m", "tests.crash.at_random", str(tmp_path), str(kills), "20260102"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120 + 10 * kills)
    assert done.returncode == 0, done.stderr
    children = [json.loads(line) for line in done.stdout.splitlines()]
    ends = [child["status"] for child in children]
    assert (ends.count(KILLED), set(ends)) == (kills, {0, KILLED}), done.stdout
    sessions = sorted({child["session"] for child in children})
    logs = {name: log_of(tmp_path / "home" / "session-state" / name) for name in sessions}
    acknowledged = 0
    for number, child in enumerate(children):
        for event in shown(tmp_path / f"shown-{number}.jsonl"):
            acknowledged += 1
            assert logs[child["session"]][event["seq"]] == event
    assert acknowledged > kills
    for number, name in enumerate(sessions):
        check_effects(logs[name], tmp_path / f"counter-{number}")


def log_of(folder: Path) -> list[dict[str, Any]]:
    """The events of a log, each link of its chain checked."""
    return [json.loads(json.dumps(to_json(record))) for record in read_log(folder)]


def shown(path: Path) -> list[dict[str, Any]]:
    """The persisted events that were printed; a line that the kill cut is none."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    events = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [event for event in events if not event.get("ephemeral")]


def check_effects(log: list[dict[str, Any]], counter: Path) -> None:
    """Each Bash had its effect once, or at most once and a doubt that was said."""
    outcomes = [e["data"] for e in log if e["type"] == "tool.execution_complete"]
    codes = [o.get("error", {}).get("code") for o in outcomes if o["toolName"] == "Bash"]
    counted = [int(line) for line in counter.read_text().split()]
    assert len(codes) == TURNS
    assert len(set(counted)) == len(counted)
    assert {n for n, code in enumerate(codes) if code is None} <= set(counted)
    assert set(codes) <= {None, "interrupted"}
