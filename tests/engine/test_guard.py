"""Comparing what is protected, over a fake guard: what is recorded, and when checks are run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from runner.core.events import (
    ProtectedChange,
    RunnerProtection,
    RunnerProtectionCheck,
    RunnerVerifyComplete,
    SessionError,
    VerifyCheck,
)
from runner.core.spec import VerifySpec
from runner.engine import loop
from runner.engine.engine import Bench
from runner.ports import Sight
from tests.fakes import FakeSandbox, done
from tests.logs import task
from tests.stage import Stage, play_out, set_stage

START = RunnerProtection(entries={"check.sh": "file 0755 aa"}, scripts=("check.sh",))
SAME = Sight(there=START.entries, writes={"check.sh": "1"})
TOUCHED = Sight(there=START.entries, writes={"check.sh": "2"})
CHANGED = Sight(there={"check.sh": "file 0755 zz"}, writes={"check.sh": "3"})


@dataclass(slots=True, kw_only=True)
class FakeGuard:
    """Sees one thing after the other, then the last one again; takes its time."""

    sights: list[Sight]
    takes_s: float = 0.0
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def look(self, known: tuple[str, ...]) -> Sight:
        """The next sight."""
        self.asked.append(known)
        await asyncio.sleep(self.takes_s)
        return self.sights.pop(0) if len(self.sights) > 1 else self.sights[0]


def staged(
    *sights: Sight, takes_s: float = 0.0, verify: Iterable[str] = ("make test",)
) -> tuple[Stage, FakeSandbox]:
    spec = task(verify=tuple(VerifySpec(run=one) for one in verify))
    stage = set_stage([done()], spec=spec)
    sandbox = FakeSandbox(exit_codes=[0])
    stage.engine.bench = Bench(sandbox=sandbox, workspace=Path("/work"), env={})
    stage.engine.guard = FakeGuard(sights=list(sights), takes_s=takes_s)
    stage.engine.recorder.record(START)
    return stage, sandbox


def changes(stage: Stage) -> list[tuple[ProtectedChange, ...]]:
    return [event.changes for event in stage.events(RunnerProtectionCheck)]


def test_what_is_protected_is_compared_before_and_after_the_checks() -> None:
    """Nothing changed: a success, without a third look."""
    stage, sandbox = staged(SAME)
    assert play_out(stage).ending is not None
    assert stage.ending is not None
    assert (stage.ending.subtype, changes(stage)) == ("success", [(), ()])
    assert len(sandbox.requests) == 1


def test_with_a_change_no_check_is_run() -> None:
    """The script that a check would run is not the user's any more."""
    stage, sandbox = staged(CHANGED)
    play_out(stage)
    assert stage.ending is not None
    assert (stage.ending.error_type, sandbox.requests) == ("check_tampered", [])
    assert stage.events(RunnerVerifyComplete) == []


def test_what_was_written_during_the_checks_is_a_change() -> None:
    """Though it is as it was."""
    stage, _ = staged(SAME, TOUCHED)
    play_out(stage)
    assert stage.ending is not None
    assert stage.ending.error_type == "check_tampered"
    assert [len(found) for found in changes(stage)] == [0, 1]


def test_a_look_that_takes_too_long_proves_nothing() -> None:
    """It is recorded as a change."""
    stage, _ = staged(SAME, takes_s=100.0)
    play_out(stage)
    assert stage.ending is not None
    assert stage.ending.subtype == "error_policy_violation"
    assert "could not be compared within 60 s" in stage.ending.message


def test_without_anybody_to_look_that_is_said() -> None:
    """The run does not hang over it."""
    stage, _ = staged(SAME, verify=())
    stage.engine.guard = None
    play_out(stage)
    assert [event.skipped for event in stage.events(RunnerProtectionCheck)] == ["nobody can look"]


def test_a_wind_down_leaves_no_time_to_look() -> None:
    """That is recorded, and the ending stands."""
    stage, _ = staged(SAME)
    stage.engine.recorder.record(SessionError(error_type="internal", message="a bug"))
    assert loop.wind_down(stage.engine.recorder).error_type == "internal"
    (found,) = stage.events(RunnerProtectionCheck)
    assert found.skipped == "no time was left"


def test_gates_are_checks_with_a_limit_of_their_own() -> None:
    """They stand beside the commands."""
    stage, _ = staged(SAME)
    limits: list[float] = []

    async def gates(limit_s: float) -> tuple[VerifyCheck, ...]:
        limits.append(limit_s)
        return (VerifyCheck(name="require_changes", passed=True, duration_ms=1, output=""),)

    stage.engine.gates = gates
    play_out(stage)
    (complete,) = stage.events(RunnerVerifyComplete)
    assert [one.name for one in complete.checks] == ["make test", "require_changes"]
    assert limits == [60.0]
