"""Verification: the checks of the spec, run by the runner and judged by their exit codes."""

from __future__ import annotations

from runner.core.events import RunnerVerifyComplete, RunnerVerifyStart, VerifyCheck
from runner.core.spec import VerifySpec
from runner.engine.engine import Bench, Engine
from runner.engine.guard import compare
from runner.ports import ExecRequest

OUTPUT_BYTES = 8_000
"""How much of a check's output is kept in the log and shown to the model: its end."""


async def verify(engine: Engine, start: RunnerVerifyStart) -> None:
    """Run every check, one after the other, and record how each ended.

    What is protected is compared before, between and after; with a change, no check is run. After
    the wall clock ran out all checks together get what is left of the grace. Cancelled: there is a
    start without an outcome. Raises `JournalError`.
    """
    bench, recorder = engine.bench, engine.recorder
    assert bench is not None, "a run with checks has a bench"
    spec = recorder.state.need
    sight = await compare(engine)
    if recorder.state.violation is not None:
        return
    recorder.record(start)
    checks = []
    for number, one in enumerate(spec.verify):
        engine.phase = f"verify: {one.name or one.run}"
        limit_s = engine.left_s(one.timeout)
        file = f"verify-{start.attempt}-{number}.txt"
        if number > 0:  # what the last check ran may have bent this one
            await compare(engine, since=sight)
        if recorder.state.violation is None:
            checks.append(await _check(engine, bench, one, limit_s, file))
    if engine.gates is not None:
        engine.phase = "changes"
        checks += await engine.gates(engine.left_s(spec.limits.start))
    await compare(engine, since=sight)
    # After a violation some were not run: what was left out did not pass.
    passed = engine.recorder.state.violation is None and all(check.passed for check in checks)
    recorder.record(
        RunnerVerifyComplete(attempt=start.attempt, passed=passed, checks=tuple(checks))
    )


async def _check(
    engine: Engine, bench: Bench, one: VerifySpec, limit_s: float, file: str
) -> VerifyCheck:
    began = engine.clock.monotonic()
    exit_code: int | None
    request = ExecRequest(
        argv=("bash", "--norc", "--noprofile", "-c", one.run),
        cwd=bench.workspace,
        timeout_s=limit_s,
        max_output_bytes=OUTPUT_BYTES,
        spill_file=engine.files_dir / file,
        env=bench.env,
    )
    try:
        result = await bench.sandbox.exec(request, lambda text: None)
    except OSError as error:
        exit_code, output = 127, f"bash could not be started: {error.strerror}"
    else:
        exit_code, output = result.exit_code, result.output
    return VerifyCheck(
        name=one.name or one.run,
        passed=exit_code == 0,
        exit_code=exit_code,
        duration_ms=round((engine.clock.monotonic() - began) * 1000),
        output=output.replace("\0", "\N{REPLACEMENT CHARACTER}").rstrip("\n"),
    )
