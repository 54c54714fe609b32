"""The checks of the spec: when they are due, what their outcome means, how it is told."""

from __future__ import annotations

from typing import Any

from runner.core.endings import Ending, ErrorType
from runner.core.events import (
    Persisted,
    RunnerVerifyComplete,
    RunnerVerifyStart,
    SessionTaskComplete,
    UserMessage,
    VerifyCheck,
)
from runner.core.fold import FAILED_CHECKS
from runner.core.spec import TaskSpec
from runner.core.state import State
from runner.core.steps import Finish, Say, Step, Verify

MAX_REPORT_CHARS = 24_000
"""About how much of the outputs of failed checks the model is told, all together."""

MAX_REPORTED = 20


def unchecked(state: State) -> bool:
    """The spec has checks, and none has judged the work as it is now."""
    return has_checks(state.need) and state.judged is None


def has_checks(spec: TaskSpec) -> bool:
    """Something has to hold before the work counts as done: commands, or what changed."""
    return bool(spec.verify or spec.require_changes or spec.forbid_changes)


def check(state: State) -> Step:
    """Run the checks. A start without an outcome does not count: the checks simply run again."""
    commands = tuple(one.run for one in state.need.verify)
    start = RunnerVerifyStart(attempt=state.verify_attempts + 1, commands=commands)
    return Verify(start=start)


def rejected(state: State) -> bool:
    """The checks were run on the work as it is now, and one failed."""
    return state.judged is not None and not state.judged.passed


def rejection(state: State) -> str:
    """What the model is told of the checks that failed."""
    assert state.judged is not None  # rejected
    sentence = state.sentences.get("checks_failed", "{report}")
    return sentence.replace("{report}", _report(state.judged))


def rejected_completion(state: State) -> SessionTaskComplete:
    """The fact that a completion did not stand; the run goes on."""
    assert state.judged is not None  # rejected
    return SessionTaskComplete(success=False, outcome="continue", reason=_reason(state.judged))


def in_doubt(state: State) -> bool:
    """Nobody can say that the work passes: it was not judged as it is, or it failed."""
    return unchecked(state) or rejected(state)


def send_back(state: State) -> Step:
    """The failure is the next thing the user says; a completion no longer stands."""
    events: tuple[Persisted, ...] = (UserMessage(content=rejection(state), source=FAILED_CHECKS),)
    return Say(events=(rejected_completion(state), *events))


def given_up(state: State) -> bool:
    """The checks failed as often as they may."""
    last = state.verified
    most = state.need.limits.max_verify_attempts
    return last is not None and not last.passed and last.attempt >= most


def give_up(state: State) -> Step:
    """Finish: the work did not pass its checks."""
    assert state.verified is not None  # given_up
    made, most = state.verified.attempt, state.need.limits.max_verify_attempts
    message = f"{_reason(state.verified)} (attempt {made} of {most})"
    kind = _error_type(state.verified)
    return Finish(
        ending=Ending(subtype="error_verification_failed", error_type=kind, message=message)
    )


def summary(state: State) -> dict[str, Any]:
    """What the result says: `status`, and of the last verification each check.

    The status is that of the work as it is; `before` is what the checks said of it earlier, when
    something was done since then and nothing was checked again.
    """
    if state.spec is None or not has_checks(state.spec):
        return {"status": "not_configured", "checks": []}
    last = state.verified
    if last is None:
        return {"status": "not_run", "checks": [], "attempts": state.verify_attempts}
    checks = [
        {
            "name": one.name,
            "passed": one.passed,
            "exit_code": one.exit_code,
            "duration_ms": one.duration_ms,
        }
        for one in last.checks
    ]
    status = "passed" if last.passed else "failed"
    judged = state.judged is not None and bool(state.judged.checks)
    told = {"status": status} if judged else {"status": "not_run", "before": status}
    return {**told, "checks": checks, "attempts": state.verify_attempts}


def _reason(outcome: RunnerVerifyComplete) -> str:
    failed = ", ".join(f"`{one.name}`" for one in outcome.checks if not one.passed)
    return f"Checks failed: {failed}"


def _error_type(outcome: RunnerVerifyComplete) -> ErrorType:
    """A command that failed comes first: it says more than what did or did not change."""
    failed = [one for one in outcome.checks if not one.passed]
    if any(one.gate is None for one in failed):
        return "check_failed"
    return failed[0].gate or "check_failed"


def _report(outcome: RunnerVerifyComplete) -> str:
    """Each failed check with the end of its output, all of them together within a bound."""
    failed = [one for one in outcome.checks if not one.passed]
    share = MAX_REPORT_CHARS // min(len(failed), MAX_REPORTED)
    told = [f"`{one.name}`: {_how(one)}\n{_end(one.output, share)}" for one in failed]
    if len(failed) > MAX_REPORTED:
        told[MAX_REPORTED:] = [f"{len(failed) - MAX_REPORTED} more checks failed."]
    return "\n\n".join(told)


def _how(one: VerifyCheck) -> str:
    if one.gate is not None:
        return "not met"
    return "timed out" if one.exit_code is None else f"exit code {one.exit_code}"


def _end(output: str, most: int) -> str:
    return output if len(output) <= most else f"[...]{output[-most:]}"
