"""Verification over a fake sandbox: what is run, for how long, and what a stop does to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runner.core.endings import Ending
from runner.core.events import RunnerVerifyComplete
from runner.core.spec import LimitsSpec, VerifySpec
from runner.engine import loop
from runner.engine.engine import Bench
from tests.fakes import FakeSandbox, call, done, reply
from tests.logs import task
from tests.stage import Stage, play_out, set_stage
from tests.virtual_time import run_virtual

CHECK = VerifySpec(run="make test", timeout=60.0)


def staged(sandbox: FakeSandbox, *answers: object, **spec: object) -> Stage:
    stage = set_stage(answers or [done()] * 3, spec=task(verify=(CHECK,), **spec))  # type: ignore[arg-type]
    stage.engine.bench = Bench(sandbox=sandbox, workspace=Path("/work"), env={"A": "b"})
    return stage


def test_a_check_runs_in_the_workspace_with_the_environment_of_tools() -> None:
    """One bash, its own time limit, its whole output kept in a file of its own."""
    sandbox = FakeSandbox(exit_codes=[0])
    stage = play_out(staged(sandbox))
    (request,) = sandbox.requests
    assert stage.ending == Ending(subtype="success")
    assert (request.argv[-1], request.cwd, request.timeout_s) == ("make test", Path("/work"), 60)
    assert request.env == {"A": "b"}
    assert request.spill_file == stage.engine.files_dir / "verify-1-0.txt"


def test_a_shell_that_cannot_be_started_is_a_failed_check() -> None:
    """It never counts as passed."""
    stage = play_out(staged(FakeSandbox(exit_codes=[None])))
    assert stage.ending is not None
    assert stage.ending.error_type == "check_failed"
    (check,) = stage.events(RunnerVerifyComplete)[0].checks
    assert (check.exit_code, check.passed) == (127, False)


def test_after_the_time_is_up_the_checks_get_the_grace() -> None:
    """All of them together; the ending stays the timeout."""
    sandbox = FakeSandbox(exit_codes=[0])
    limits = LimitsSpec(shutdown_grace=3.0)
    stage = staged(sandbox, timeout=0.5, limits=limits)

    async def run() -> None:
        await stage.run(asyncio.get_running_loop().time() + 0.5)

    run_virtual(run())
    assert [request.timeout_s for request in sandbox.requests] == [60, 3]
    assert stage.result is not None
    assert (stage.result["subtype"], stage.result["verification"]["status"]) == (
        "error_timeout",
        "passed",
    )


def test_a_signal_cuts_the_last_checks_short() -> None:
    """The run had timed out; now it ends at once, and says that the checks did not run."""
    stage = staged(FakeSandbox(exit_codes=[0]), timeout=0.5)

    async def run() -> None:
        steps = asyncio.ensure_future(stage.steps(asyncio.get_running_loop().time() + 0.5))
        await asyncio.sleep(1)
        stage.interruption.cause = "SIGTERM"
        steps.cancel()
        stage.ending = await steps
        stage.finish()

    run_virtual(run())
    assert stage.result is not None
    assert (stage.result["subtype"], stage.result["verification"]["status"]) == (
        "error_timeout",
        "not_run",
    )


def test_a_cancelled_task_without_a_cause_stays_cancelled() -> None:
    """Nobody said why: it is not ours to swallow, in the last checks either."""
    stage = staged(FakeSandbox(exit_codes=[0]), timeout=0.5)

    async def run() -> bool:
        steps = asyncio.ensure_future(stage.steps(asyncio.get_running_loop().time() + 0.5))
        await asyncio.sleep(1)
        steps.cancel()
        await asyncio.wait([steps])
        return steps.cancelled()

    assert run_virtual(run())


def test_a_stop_leaves_no_time_for_the_checks() -> None:
    """When only bookkeeping is left, they are recorded as left out."""
    read = reply("", call("Read"))
    stage = staged(FakeSandbox(exit_codes=[0]), read, read, max_turns=1, timeout=60.0)
    run_virtual(stage.steps())
    assert stage.result is None
    before = len(stage.events(RunnerVerifyComplete))
    loop.abort(stage.engine.recorder, "timeout")
    assert loop.wind_down(stage.engine.recorder).subtype == "error_timeout"
    assert len(stage.events(RunnerVerifyComplete)) == before
