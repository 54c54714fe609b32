"""The steps within and between turns: run, answer, nudge, end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from runner.core.batching import next_batch
from runner.core.control import (
    answer,
)
from runner.core.endings import Ending, ErrorType
from runner.core.events import (
    AssistantTurnEnd,
    ErrorCode,
    Persisted,
    ToolError,
    UserMessage,
)
from runner.core.limits import continues_left
from runner.core.messages import AGENT_TOOL, CONTROL_TOOLS
from runner.core.state import State
from runner.core.steps import Finish, RunTools, Say, Step

MAX_SAME_TEXT = 3


MAX_MALFORMED = 3
SAME_TEXT = f"The model gave the same reply {MAX_SAME_TEXT} times"


MALFORMED = Ending(
    subtype="error_during_execution",
    error_type="malformed_replies",
    message=f"The model gave {MAX_MALFORMED} malformed replies in a row",
)


def answered(state: State) -> bool:
    """Autopilot is off and the model has answered: in text, or with an object that fits."""
    return not state.need.autopilot and (text_ending(state) or _gave_output(state))


def _gave_output(state: State) -> bool:
    found = state.output_check
    return _only_control(state) and found is not None and found.valid


def close_calls(state: State) -> Step:
    """Give every open call a result that says what became of it."""
    events: list[Persisted] = []
    for call in state.main.pending:
        code: ErrorCode = "not_run" if state.abort is None else "cancelled"
        if code == "not_run" and call.id in state.main.started:
            # It may have had its effect: never say that it was not run.
            code = "cancelled" if call.name == AGENT_TOOL else "interrupted"
        text = state.sentences.get(code, code)
        events += answer(state, call, ToolError(message=text, code=code))
    return Say(events=tuple(events))


def end_turn(state: State) -> Step:
    """End the open turn."""
    turn_id = state.main.open_turn or ""
    return Say(events=(AssistantTurnEnd(turn_id=turn_id, model=state.model),))


def run_tools(state: State) -> Step:
    """Run the next calls that may run together."""
    return RunTools(calls=next_batch(state.main.pending_tools, state.read_only_tools))


def blocked(state: State) -> bool:
    """The model said that it cannot go on."""
    return state.completion is not None and not state.completion.success


def finish_blocked(state: State) -> Step:
    """Finish with the reason the model gave."""
    reason = state.completion.reason if state.completion else ""
    return Finish(ending=Ending(subtype="error_task_blocked", message=f"Blocked: {reason}"))


def incomplete(error_type: ErrorType, message: str) -> Callable[[State], Step]:
    """A step that finishes as incomplete."""
    ending = Ending(subtype="error_task_incomplete", error_type=error_type, message=message)
    return lambda state: Finish(ending=ending)


def text_ending(state: State) -> bool:
    """The last reply asks for nothing."""
    return state.main.reply is not None and not state.main.reply.calls


def _only_control(state: State) -> bool:
    calls = state.main.reply.calls if state.main.reply else ()
    return bool(calls) and all(call.name in CONTROL_TOOLS for call in calls)


def refused(state: State) -> bool:
    """The last reply is a refusal."""
    return state.main.finish_reason == "content_filter" and text_ending(state)


def exhausted(state: State) -> bool:
    """The model stopped, and no nudge is left."""
    left = continues_left(state)
    return (text_ending(state) and left <= 0) or (_only_control(state) and left < 0)


def finish_exhausted(state: State) -> Step:
    """Finish because no nudge is left."""
    count = state.need.max_autopilot_continues
    message = f"The model stopped without completing the task ({count} continues allowed)"
    ending = Ending(
        subtype="error_task_incomplete", error_type="continues_exhausted", message=message
    )
    return Finish(ending=ending)


def nudge(state: State) -> Step:
    """Tell the model to go on."""
    message = UserMessage(
        content=state.sentences.get("nudge", ""),
        source="autopilot",
        agent_mode="autopilot",
        is_autopilot_continuation=True,
    )
    return Say(events=(message,))


def say_note(state: State) -> Step:
    """Tell the model what happened while it was away."""
    mode: Literal["autopilot"] | None = "autopilot" if state.need.autopilot else None
    return Say(events=(UserMessage(content=state.note or "", source="resume", agent_mode=mode),))
