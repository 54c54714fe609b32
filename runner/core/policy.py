"""What happens next: one ordered table of rules, the first that applies wins.

Rules of this file: pure and total; no rule looks at the world, only at the state; a cap, a
failure or an abort is a recorded fact before it is an ending. Adding a feature is adding a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from runner.core import verification
from runner.core.batching import next_batch
from runner.core.control import (
    accepted_control,
    answer,
    answer_control,
    claims_done,
    state_completion,
)
from runner.core.endings import Ending, ErrorType, error_type_of
from runner.core.events import (
    AssistantTurnEnd,
    ErrorCode,
    Persisted,
    SessionWarning,
    ToolError,
    UserMessage,
)
from runner.core.limits import budget_reached, continues_left, turns_left
from runner.core.messages import CONTROL_TOOLS
from runner.core.state import State
from runner.core.steps import AskModel, Finish, RunTools, Say, Step

MAX_SAME_TEXT = 3
MAX_MALFORMED = 3
CAPPED = frozenset({"error_max_turns", "error_max_budget_usd", "error_timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the decision table: a name, when it applies (in words and in code), a step."""

    name: str
    when: str
    applies: Callable[[State], bool]
    then: str
    step: Callable[[State], Step]


def next_step(state: State) -> Step:
    """The step of the first rule that applies; the last one always does."""
    return deciding_rule(state).step(state)


def deciding_rule(state: State) -> Rule:
    """The rule that decides here."""
    return next(rule for rule in RULES if rule.applies(state))


# -- endings that stop whatever is going on --------------------------------------------------


def stop(state: State) -> Ending | None:
    """The ending that a recorded abort, cap or failure asks for, in order of precedence."""
    done = state.completion is not None and state.completion.success
    signal = state.abort is not None and state.abort.cause != "timeout"
    if signal and state.abort is not None:
        return _cancelled(state.abort.cause)
    if done:
        return None  # a limit that trips after an accepted completion does not undo it
    if state.tripped is not None and state.tripped.warning_type == "error_max_budget_usd":
        return Ending(subtype="error_max_budget_usd", message=state.tripped.message)
    if state.abort is not None:
        message = f"Reached the time limit ({state.need.timeout:g} s)"
        return Ending(subtype="error_timeout", message=message)
    if state.tripped is not None:
        return Ending(subtype="error_max_turns", message=state.tripped.message)
    if state.failure is not None:
        return Ending(
            subtype="error_during_execution",
            error_type=error_type_of(state.failure.error_type),
            message=state.failure.message,
        )
    return None


def _cancelled(cause: str) -> Ending:
    return Ending(
        subtype="error_during_execution",
        error_type="cancelled" if cause == "SIGINT" else "terminated",
        message=f"Cancelled by {cause}",
    )


def _capped(state: State) -> bool:
    ending = stop(state)
    return ending is not None and ending.subtype in CAPPED and state.main.turns_started > 0


def _answered(state: State) -> bool:
    return not state.need.autopilot and _text_ending(state)


def _stopping(state: State) -> bool:
    return stop(state) is not None


def _finish_stopped(state: State) -> Step:
    ending = stop(state)
    assert ending is not None  # the rule's condition
    return Finish(ending=ending)


def _denied_fatally(state: State) -> bool:
    return state.need.on_denied == "fail" and bool(state.denials)


def _finish_denied(state: State) -> Step:
    first = state.denials[0]["tool_name"]
    count = len(state.denials)
    message = f"{count} denied, the first of {first}; `on_denied: fail` makes that the ending"
    return Finish(ending=Ending(subtype="error_permission_denied", message=message))


# -- caps ------------------------------------------------------------------------------------


def _spent_out(state: State) -> bool:
    return (
        state.tripped is None
        and not _accepted(state)
        and state.ledger.spent_usd > 0
        and budget_reached(state)
    )


def _trip_budget(state: State) -> Step:
    spent, cap = state.ledger.spent_usd.normalize(), state.need.max_budget_usd
    message = f"Reached maximum budget (${cap}; spent ${spent:f})"
    return Say(events=(SessionWarning(warning_type="error_max_budget_usd", message=message),))


def _over_turns(state: State) -> bool:
    # Results are of a turn that was paid for, unless a kill interrupted the refusal of its calls.
    asks = bool(state.main.pending_tools) and (not state.main.results or state.main.refused)
    return state.tripped is None and asks and turns_left(state) == 0


def _trip_turns(state: State) -> Step:
    message = f"Reached maximum number of turns ({state.need.max_turns})"
    return Say(events=(SessionWarning(warning_type="error_max_turns", message=message),))


# -- the open turn ---------------------------------------------------------------------------


def _close_calls(state: State) -> Step:
    events: list[Persisted] = []
    for call in state.main.pending:
        code: ErrorCode = "not_run" if state.abort is None else "cancelled"
        if code == "not_run" and call.id in state.main.started:
            code = "interrupted"  # it may have had its effect: never say that it was not run
        text = state.sentences.get(code, code)
        events += answer(state, call, ToolError(message=text, code=code))
    return Say(events=tuple(events))


def _end_turn(state: State) -> Step:
    turn_id = state.main.open_turn or ""
    return Say(events=(AssistantTurnEnd(turn_id=turn_id, model=state.model),))


def _run_tools(state: State) -> Step:
    return RunTools(calls=next_batch(state.main.pending_tools, state.read_only_tools))


# -- between turns ---------------------------------------------------------------------------


def _accepted(state: State) -> bool:
    return state.completion is not None and state.completion.success


def _blocked(state: State) -> bool:
    return state.completion is not None and not state.completion.success


def _finish_blocked(state: State) -> Step:
    reason = state.completion.reason if state.completion else ""
    return Finish(ending=Ending(subtype="error_task_blocked", message=f"Blocked: {reason}"))


def _incomplete(error_type: ErrorType, message: str) -> Callable[[State], Step]:
    ending = Ending(subtype="error_task_incomplete", error_type=error_type, message=message)
    return lambda state: Finish(ending=ending)


def _text_ending(state: State) -> bool:
    return state.main.reply is not None and not state.main.reply.calls


def _onlyanswer_control(state: State) -> bool:
    calls = state.main.reply.calls if state.main.reply else ()
    return bool(calls) and all(call.name in CONTROL_TOOLS for call in calls)


def _exhausted(state: State) -> bool:
    left = continues_left(state)
    return (_text_ending(state) and left <= 0) or (_onlyanswer_control(state) and left < 0)


def _finish_exhausted(state: State) -> Step:
    count = state.need.max_autopilot_continues
    message = f"The model stopped without completing the task ({count} continues allowed)"
    ending = Ending(
        subtype="error_task_incomplete", error_type="continues_exhausted", message=message
    )
    return Finish(ending=ending)


def _nudge(state: State) -> Step:
    message = UserMessage(
        content=state.sentences.get("nudge", ""),
        source="autopilot",
        agent_mode="autopilot",
        is_autopilot_continuation=True,
    )
    return Say(events=(message,))


def _say_note(state: State) -> Step:
    mode: Literal["autopilot"] | None = "autopilot" if state.need.autopilot else None
    return Say(events=(UserMessage(content=state.note or "", source="resume", agent_mode=mode),))


_MALFORMED = Ending(
    subtype="error_during_execution",
    error_type="malformed_replies",
    message=f"The model gave {MAX_MALFORMED} malformed replies in a row",
)

RULES: tuple[Rule, ...] = (
    Rule(
        name="budget_reached",
        when="a call brought spending to the cap",
        applies=_spent_out,
        then="record the trip",
        step=_trip_budget,
    ),
    Rule(
        name="turn_cap_reached",
        when="a reply asks for tools and the tool-use turns are used up",
        applies=_over_turns,
        then="record the trip",
        step=_trip_turns,
    ),
    Rule(
        name="stopping_with_open_calls",
        when="an abort, cap or failure is recorded and calls have no result",
        applies=lambda state: _stopping(state) and bool(state.main.pending),
        then="answer them as not run; those that had begun, as of unknown outcome",
        step=_close_calls,
    ),
    Rule(
        name="stopping_with_open_turn",
        when="an abort, cap or failure is recorded and the turn is open",
        applies=lambda state: _stopping(state) and state.main.open_turn is not None,
        then="end the turn",
        step=_end_turn,
    ),
    Rule(
        name="capped_unchecked",
        when="a cap is recorded and the checks have not judged the work as it is",
        applies=lambda state: _capped(state) and verification.unchecked(state),
        then="run the checks of the spec; the cap stays the ending",
        step=verification.check,
    ),
    Rule(
        name="stopped",
        when="an abort, cap or failure is recorded",
        applies=_stopping,
        then="finish with it: signal, budget, timeout, turns, provider",
        step=_finish_stopped,
    ),
    Rule(
        name="tools_pending",
        when="the reply asks for tools",
        applies=lambda state: bool(state.main.pending_tools),
        then="run the next batch",
        step=_run_tools,
    ),
    Rule(
        name="control_accepted",
        when="a control call was accepted and it is not recorded yet what that means",
        applies=lambda state: state.completion is None and accepted_control(state) is not None,
        then="record the completion, or the block",
        step=state_completion,
    ),
    Rule(
        name="completion_unchecked",
        when="the next call is a sound `task_complete` and the checks have not judged the work",
        applies=claims_done,
        then="run the checks of the spec",
        step=verification.check,
    ),
    Rule(
        name="control_pending",
        when="only control calls are left",
        applies=lambda state: bool(state.main.pending),
        then="answer the first: complete, blocked, or an error",
        step=answer_control,
    ),
    Rule(
        name="turn_open",
        when="everything the reply asked for is answered",
        applies=lambda state: state.main.open_turn is not None,
        then="end the turn",
        step=_end_turn,
    ),
    Rule(
        name="checks_given_up",
        when="the checks failed as often as they may",
        applies=verification.given_up,
        then="finish: error_verification_failed, check_failed",
        step=verification.give_up,
    ),
    Rule(
        name="completed_denied",
        when="a completion was accepted, but a call was denied and the spec makes that fatal",
        applies=lambda state: _accepted(state) and _denied_fatally(state),
        then="finish: error_permission_denied",
        step=_finish_denied,
    ),
    # stop hooks: asked here, once the run would really end as a success
    Rule(
        name="completed",
        when="a completion was accepted",
        applies=_accepted,
        then="finish: success",
        step=lambda state: Finish(ending=Ending(subtype="success")),
    ),
    Rule(
        name="blocked",
        when="the model said it is blocked",
        applies=_blocked,
        then="finish: error_task_blocked",
        step=_finish_blocked,
    ),
    Rule(
        name="refused",
        when="the last reply is a refusal",
        applies=lambda state: state.main.finish_reason == "content_filter" and _text_ending(state),
        then="finish: error_task_incomplete, refusal",
        step=_incomplete("refusal", "The model refused the task"),
    ),
    Rule(
        name="malformed",
        when="three malformed replies in a row",
        applies=lambda state: state.main.malformed_in_a_row >= MAX_MALFORMED,
        then="finish: error_during_execution, malformed_replies",
        step=lambda state: Finish(ending=_MALFORMED),
    ),
    # structured output: a missing or invalid object is asked for again here
    Rule(
        name="answer_denied",
        when="as below, but a call was denied and the spec makes that fatal",
        applies=lambda state: (
            not state.need.autopilot and _text_ending(state) and _denied_fatally(state)
        ),
        then="finish: error_permission_denied",
        step=_finish_denied,
    ),
    Rule(
        name="answer_unchecked",
        when="autopilot is off, the reply has no calls and the checks have not judged the work",
        applies=lambda state: _answered(state) and verification.unchecked(state),
        then="run the checks of the spec",
        step=verification.check,
    ),
    Rule(
        name="answer_sent_back",
        when="autopilot is off, the reply has no calls and a check failed",
        applies=lambda state: _answered(state) and verification.rejected(state),
        then="say what failed",
        step=verification.send_back,
    ),
    Rule(
        name="plain_answer",
        when="autopilot is off and the reply has no calls",
        applies=lambda state: not state.need.autopilot and _text_ending(state),
        then="finish: success",
        step=lambda state: Finish(ending=Ending(subtype="success")),
    ),
    Rule(
        name="continues_exhausted",
        when="the reply has no calls (or only rejected control calls) and no nudge is left",
        applies=_exhausted,
        then="finish: error_task_incomplete, continues_exhausted",
        step=_finish_exhausted,
    ),
    Rule(
        name="no_progress",
        when="three identical replies in a row without a call",
        applies=lambda state: state.main.same_text_in_a_row >= MAX_SAME_TEXT,
        then="finish: error_task_incomplete, no_progress",
        step=_incomplete("no_progress", f"The model gave the same reply {MAX_SAME_TEXT} times"),
    ),
    Rule(
        name="resumed",
        when="the session was resumed and the model has not been told",
        applies=lambda state: state.note is not None,
        then="say the note",
        step=_say_note,
    ),
    Rule(
        name="nudge",
        when="the reply has no calls",
        applies=_text_ending,
        then="say the nudge",
        step=_nudge,
    ),
    # compaction: a context above the threshold is summarised here, before the next call
    Rule(
        name="ask",
        when="otherwise",
        applies=lambda state: True,
        then="ask the model",
        step=lambda state: AskModel(),
    ),
)
