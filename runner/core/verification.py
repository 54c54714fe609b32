"""The checks of the spec: when they are due, what their outcome means, how it is told."""

from __future__ import annotations

from typing import Any

from runner.core.endings import Ending
from runner.core.events import (
    Persisted,
    RunnerVerifyComplete,
    RunnerVerifyStart,
    SessionTaskComplete,
    UserMessage,
)
from runner.core.state import State
from runner.core.steps import Finish, Say, Step, Verify


def unchecked(state: State) -> bool:
    """The spec has checks, and none has judged the work as it is now."""
    return bool(state.need.verify) and state.judged is None


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


def send_back(state: State) -> Step:
    """Without autopilot: the failure is the next thing the user says."""
    events: tuple[Persisted, ...] = (UserMessage(content=rejection(state), source="verify"),)
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
    ending = Ending(subtype="error_verification_failed", error_type="check_failed", message=message)
    return Finish(ending=ending)


def summary(state: State) -> dict[str, Any]:
    """What the result says: `status`, and of the last verification each check."""
    if state.spec is None or not state.spec.verify:
        return {"status": "not_configured", "checks": []}
    last = state.verified
    if last is None or not last.checks:
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
    return {"status": status, "checks": checks, "attempts": state.verify_attempts}


def _reason(outcome: RunnerVerifyComplete) -> str:
    failed = ", ".join(f"`{one.name}`" for one in outcome.checks if not one.passed)
    return f"Checks failed: {failed}"


def _report(outcome: RunnerVerifyComplete) -> str:
    told = []
    for one in outcome.checks:
        if one.passed:
            continue
        how = "timed out" if one.exit_code is None else f"exit code {one.exit_code}"
        told.append(f"`{one.name}`: {how}\n{one.output}")
    return "\n\n".join(told)
