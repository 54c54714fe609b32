"""What happens next: one ordered table of rules, the first that applies wins.

Rules of this file: pure and total; no rule looks at the world, only at the state; a cap, a
failure or an abort is a recorded fact before it is an ending. Adding a feature is adding a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runner.core import (
    compaction,
    hook_steps,
    protection,
    spawning,
    stops,
    structured,
    turns,
    verification,
)
from runner.core.control import (
    accepted_control,
    answer_control,
    claims_done,
    state_completion,
)
from runner.core.endings import Ending
from runner.core.state import State
from runner.core.steps import AskModel, Finish, Step


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


def _ends_uncompared(state: State) -> bool:
    """What the other rules say is the end. Whoever cancels a run does not wait for a look."""
    if not protection.uncompared(state) or stops.interrupted(state):
        return False
    deciding = next(rule for rule in RULES[1:] if rule.applies(state))
    return isinstance(deciding.step(state), Finish)


RULES: tuple[Rule, ...] = (
    Rule(
        name="ends_uncompared",
        when="the rules below would finish, and the protected paths were not compared since the "
        "last effect",
        applies=_ends_uncompared,
        then="compare them with what they were at the start",
        step=protection.compare,
    ),
    Rule(
        name="budget_reached",
        when="a call brought spending to the cap",
        applies=stops.spent_out,
        then="record the trip",
        step=stops.trip_budget,
    ),
    Rule(
        name="turn_cap_reached",
        when="a reply asks for tools and the tool-use turns are used up",
        applies=stops.over_turns,
        then="record the trip",
        step=stops.trip_turns,
    ),
    Rule(
        name="hook_stop",
        when="a hook wants the run to end",
        applies=hook_steps.stopped_unrecorded,
        then="record it as the failure that ends the run",
        step=hook_steps.record_stop,
    ),
    Rule(
        name="stopping_with_open_agents",
        when="an abort, cap or failure is recorded and a sub-agent is open",
        applies=lambda state: stops.stopping(state) and spawning.has_open(state),
        then="close what is open of it, the innermost first, and record it as failed",
        step=spawning.close,
    ),
    Rule(
        name="agent_left_open",
        when="a sub-agent is open and the call that started it is answered",
        applies=spawning.is_left_open,
        then="close it like that",
        step=spawning.close,
    ),
    Rule(
        name="stopping_with_open_calls",
        when="an abort, cap or failure is recorded and calls have no result",
        applies=lambda state: stops.stopping(state) and bool(state.main.pending),
        then="answer them as not run; those that had begun, as of unknown outcome",
        step=turns.close_calls,
    ),
    Rule(
        name="stopping_with_open_turn",
        when="an abort, cap or failure is recorded and the turn is open",
        applies=lambda state: stops.stopping(state) and state.main.open_turn is not None,
        then="end the turn",
        step=turns.end_turn,
    ),
    Rule(
        name="stopping_with_open_compaction",
        when="an abort, cap or failure is recorded and a summary was asked for",
        applies=lambda state: stops.stopping(state) and compaction.is_open(state),
        then="record that nothing came of it",
        step=compaction.close,
    ),
    Rule(
        name="capped_unchecked",
        when="a cap is recorded and the checks have not judged the work as it is",
        applies=lambda state: stops.capped(state) and verification.unchecked(state),
        then="run the checks of the spec; the cap stays the ending",
        step=verification.check,
    ),
    Rule(
        name="stopped",
        when="an abort, cap or failure is recorded",
        applies=stops.stopping,
        then="finish with it: signal, changed protected path, budget, timeout, turns, provider",
        step=stops.finish_stopped,
    ),
    Rule(
        name="hooks_due",
        when="a call has ended and hooks are to be told of it",
        applies=hook_steps.calls_due,
        then="run them",
        step=hook_steps.tell_of_calls,
    ),
    Rule(
        name="tools_pending",
        when="the reply asks for tools",
        applies=lambda state: bool(state.main.pending_tools),
        then="run the next batch",
        step=turns.run_tools,
    ),
    Rule(
        name="control_accepted",
        when="a control call was accepted and it is not recorded yet what that means",
        applies=lambda state: state.completion is None and accepted_control(state) is not None,
        then="record the completion, or the block",
        step=state_completion,
    ),
    Rule(
        name="output_unchecked",
        when="a call or the answer gives an object, and it was not compared with the output schema",
        applies=structured.unchecked,
        then="compare them",
        step=structured.check,
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
        step=turns.end_turn,
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
        applies=lambda state: stops.accepted(state) and stops.denied_fatally(state),
        then="finish: error_permission_denied",
        step=stops.finish_denied,
    ),
    Rule(
        name="completion_unasked",
        when="a completion was accepted and the Stop hooks have not been asked",
        applies=lambda state: stops.accepted(state) and hook_steps.stop_unasked(state),
        then="ask them",
        step=hook_steps.ask_stop,
    ),
    Rule(
        name="completion_refused",
        when="a completion was accepted and a Stop hook wants more, at most 8 times in a row",
        applies=lambda state: stops.accepted(state) and hook_steps.stop_refused(state),
        then="say its reason; the completion no longer stands",
        step=hook_steps.work_on,
    ),
    Rule(
        name="completion_unproved",
        when="a completion was accepted, and hooks ran since the checks judged the work",
        applies=lambda state: stops.accepted(state) and verification.unchecked(state),
        then="run the checks of the spec",
        step=verification.check,
    ),
    Rule(
        name="completion_disproved",
        when="a completion was accepted, and a check failed after it",
        applies=lambda state: stops.accepted(state) and verification.rejected(state),
        then="say what failed; the completion no longer stands",
        step=verification.send_back,
    ),
    Rule(
        name="completed",
        when="a completion was accepted",
        applies=stops.accepted,
        then="finish: success",
        step=lambda state: Finish(ending=Ending(subtype="success")),
    ),
    Rule(
        name="blocked",
        when="the model said it is blocked",
        applies=turns.blocked,
        then="finish: error_task_blocked",
        step=turns.finish_blocked,
    ),
    Rule(
        name="refused",
        when="the last reply is a refusal",
        applies=turns.refused,
        then="finish: error_task_incomplete, refusal",
        step=turns.incomplete("refusal", "The model refused the task"),
    ),
    Rule(
        name="malformed",
        when="three malformed replies in a row",
        applies=lambda state: state.main.malformed_in_a_row >= turns.MAX_MALFORMED,
        then="finish: error_during_execution, malformed_replies",
        step=lambda state: Finish(ending=turns.MALFORMED),
    ),
    Rule(
        name="output_lacking",
        when="autopilot is off and the answer is no object, though there is an output schema",
        applies=lambda state: turns.answered(state) and structured.lacking(state),
        then="record that",
        step=structured.note_lack,
    ),
    Rule(
        name="output_given_up",
        when="as many objects in a row as may did not match the output schema",
        applies=structured.given_up,
        then="finish: error_max_structured_output_retries",
        step=structured.give_up,
    ),
    Rule(
        name="output_sent_back",
        when="the answer does not match the output schema",
        applies=lambda state: turns.text_ending(state) and structured.mismatched(state),
        then="say what does not match",
        step=structured.send_back,
    ),
    Rule(
        name="answer_denied",
        when="as below, but a call was denied and the spec makes that fatal",
        applies=lambda state: turns.answered(state) and stops.denied_fatally(state),
        then="finish: error_permission_denied",
        step=stops.finish_denied,
    ),
    Rule(
        name="answer_refused",
        when="autopilot is off, the reply has no calls and a Stop hook wants more, at most 8 times "
        "in a row",
        applies=lambda state: turns.answered(state) and hook_steps.stop_refused(state),
        then="say its reason",
        step=hook_steps.work_on,
    ),
    Rule(
        name="answer_unchecked",
        when="autopilot is off, the reply has no calls and the checks have not judged the work",
        applies=lambda state: turns.answered(state) and verification.unchecked(state),
        then="run the checks of the spec",
        step=verification.check,
    ),
    Rule(
        name="answer_sent_back",
        when="autopilot is off, the reply has no calls and a check failed",
        applies=lambda state: turns.answered(state) and verification.rejected(state),
        then="say what failed",
        step=verification.send_back,
    ),
    Rule(
        name="answer_unasked",
        when="autopilot is off, the reply has no calls and the Stop hooks have not been asked",
        applies=lambda state: turns.answered(state) and hook_steps.stop_unasked(state),
        then="ask them",
        step=hook_steps.ask_stop,
    ),
    Rule(
        name="plain_answer",
        when="autopilot is off and the reply has no calls",
        applies=turns.answered,
        then="finish: success",
        step=lambda state: Finish(ending=Ending(subtype="success")),
    ),
    Rule(
        name="continues_exhausted",
        when="the reply has no calls (or only rejected control calls) and no nudge is left",
        applies=turns.exhausted,
        then="finish: error_task_incomplete, continues_exhausted",
        step=turns.finish_exhausted,
    ),
    Rule(
        name="no_progress",
        when="three identical replies in a row without a call",
        applies=lambda state: state.main.same_text_in_a_row >= turns.MAX_SAME_TEXT,
        then="finish: error_task_incomplete, no_progress",
        step=turns.incomplete(
            "no_progress", f"The model gave the same reply {turns.MAX_SAME_TEXT} times"
        ),
    ),
    Rule(
        name="resumed",
        when="the session was resumed and the model has not been told",
        applies=lambda state: state.note is not None,
        then="say the note",
        step=turns.say_note,
    ),
    Rule(
        name="nudge",
        when="the reply has no calls",
        applies=turns.text_ending,
        then="say the nudge",
        step=turns.nudge,
    ),
    Rule(
        name="hook_context",
        when="hooks of the start or of the prompt add to the conversation",
        applies=hook_steps.context_untold,
        then="say it",
        step=hook_steps.tell_context,
    ),
    Rule(
        name="compacted_by_hand",
        when="the prompt was `/compact` and that is done",
        applies=compaction.done_by_hand,
        then="finish: success; record the failure if it was none",
        step=compaction.finish_by_hand,
    ),
    Rule(
        name="compact_by_hand",
        when="the prompt is `/compact`",
        applies=compaction.asked_for,
        then="compact; record a failure if there is nothing to compact",
        step=compaction.by_hand,
    ),
    Rule(
        name="message_too_large",
        when="the context is above the threshold, and its newest message (a reply with its "
        "results) or any one message fills it alone",
        applies=compaction.is_too_large,
        then="cut what is shown of it, and say so",
        step=compaction.cut_messages,
    ),
    Rule(
        name="too_long",
        when="the last request was refused as too long",
        applies=compaction.is_overflowed,
        then="compact, once; record the failure if that is no way out",
        step=compaction.recover,
    ),
    Rule(
        name="compaction_in_vain",
        when="the context is above the threshold, and compaction did not help twice in a row",
        applies=compaction.is_futile,
        then="say that the run goes on without",
        step=compaction.give_up,
    ),
    Rule(
        name="compaction_due",
        when="the context is above the threshold of the window",
        applies=compaction.is_due,
        then="compact",
        step=compaction.compact,
    ),
    Rule(
        name="ask",
        when="otherwise",
        applies=lambda state: True,
        then="ask the model",
        step=lambda state: AskModel(),
    ),
)
