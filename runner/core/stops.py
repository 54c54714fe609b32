"""What stops a run whatever is going on: signals, caps, failures, fatal denials."""

from __future__ import annotations

from runner.core import hook_steps, protection, verification
from runner.core.endings import Ending, error_type_of
from runner.core.events import (
    SessionError,
    SessionWarning,
)
from runner.core.limits import budget_reached, turns_left
from runner.core.state import State
from runner.core.steps import Finish, Say, Step

_CANCELLERS = {"interrupt": "the program that has it run"}

CAPPED = frozenset({"error_max_turns", "error_max_budget_usd", "error_timeout"})


def stop(state: State) -> Ending | None:
    """The ending that a recorded abort, cap or failure asks for, in order of precedence."""
    done = accepted(state) and not verification.in_doubt(state)
    if interrupted(state) and state.abort is not None:
        return _cancelled(state.abort.cause)
    if (violated := protection.violated(state)) is not None:
        return violated
    if state.failure is not None and state.failure.error_type == "hook_stopped":
        return _failed(state.failure)
    if done and not (state.abort and hook_steps.stop_unvouched(state)):
        return None  # a limit that trips after an accepted completion does not undo it
    if state.tripped is not None and state.tripped.warning_type == "error_max_budget_usd":
        return Ending(subtype="error_max_budget_usd", message=state.tripped.message)
    if state.abort is not None:
        message = f"Reached the time limit ({state.need.timeout:g} s)"
        return Ending(subtype="error_timeout", message=message)
    if state.tripped is not None:
        return Ending(subtype="error_max_turns", message=state.tripped.message)
    if state.failure is not None:
        return _failed(state.failure)
    return None


def _failed(failure: SessionError) -> Ending:
    return Ending(
        subtype="error_during_execution",
        error_type=error_type_of(failure.error_type),
        message=failure.message,
    )


def _cancelled(cause: str) -> Ending:
    return Ending(
        subtype="error_during_execution",
        error_type="cancelled" if cause in ("SIGINT", "interrupt") else "terminated",
        message=f"Cancelled by {_CANCELLERS.get(cause, cause)}",
    )


def interrupted(state: State) -> bool:
    """A signal is the ending."""
    return state.abort is not None and state.abort.cause != "timeout"


def capped(state: State) -> bool:
    """A cap is the ending, and there is work to judge."""
    ending = stop(state)
    return ending is not None and ending.subtype in CAPPED and state.main.turns_started > 0


def stopping(state: State) -> bool:
    """Something recorded stops the run whatever is going on."""
    return stop(state) is not None


def finish_stopped(state: State) -> Step:
    """Finish with what stopped the run."""
    ending = stop(state)
    assert ending is not None  # the rule's condition
    return Finish(ending=ending)


def denied_fatally(state: State) -> bool:
    """A call was denied, and the spec makes that an ending."""
    return state.need.on_denied == "fail" and bool(state.denials)


def finish_denied(state: State) -> Step:
    """Finish because of a denial."""
    first = state.denials[0]["tool_name"]
    count = len(state.denials)
    message = f"{count} denied, the first of {first}; `on_denied: fail` makes that the ending"
    return Finish(ending=Ending(subtype="error_permission_denied", message=message))


def spent_out(state: State) -> bool:
    """Spending reached the cap, and no stop is recorded yet."""
    return (
        state.tripped is None
        and not accepted(state)
        and state.ledger.spent_usd > 0
        and budget_reached(state)
    )


def trip_budget(state: State) -> Step:
    """Record that the budget is used up."""
    spent, cap = state.ledger.spent_usd.normalize(), state.need.max_budget_usd
    message = f"Reached maximum budget (${cap}; spent ${spent:f})"
    return Say(events=(budget_spent(message),))


def budget_spent(message: str) -> SessionWarning:
    """The fact that the budget does not pay for more, in these words."""
    return SessionWarning(warning_type="error_max_budget_usd", message=message)


def over_turns(state: State) -> bool:
    """A reply asks for tools beyond the cap on turns."""
    # Results are of a turn that was paid for, unless a kill interrupted the refusal of its calls.
    asks = bool(state.main.pending_tools) and (not state.main.results or state.main.refused)
    return state.tripped is None and asks and turns_left(state) == 0


def trip_turns(state: State) -> Step:
    """Record that the turns are used up."""
    message = f"Reached maximum number of turns ({state.need.max_turns})"
    return Say(events=(SessionWarning(warning_type="error_max_turns", message=message),))


def accepted(state: State) -> bool:
    """A completion was accepted."""
    return state.completion is not None and state.completion.success
