"""The calls that steer the run: what `task_complete` and `task_blocked` are answered, and mean."""

from __future__ import annotations

from runner.core import structured
from runner.core.events import (
    Persisted,
    RunnerOutputCheck,
    SessionTaskComplete,
    ToolContent,
    ToolError,
    ToolExecutionComplete,
    ToolExecutionStart,
)
from runner.core.messages import CONTROL_TOOLS, OUTPUT_TOOL, ToolCall
from runner.core.state import State
from runner.core.steps import Say, Step
from runner.core.verification import rejected, rejected_completion, rejection, unchecked

ENDING_TOOLS = CONTROL_TOOLS - {OUTPUT_TOOL}
"""Control tools that end the run when they are accepted."""


def answer_control(state: State) -> Step:
    call = structured.next_control(state)
    assert call is not None  # the rule's condition
    if call.name == OUTPUT_TOOL and state.need.output_schema is not None:
        return _answer_output(state, call)
    problem = _problem(state, call)
    if problem:
        return Say(events=answer(state, call, problem))
    if call.name == "task_complete" and structured.wanted(state):
        return Say(
            events=(
                *_once(state, structured.missing(state, call)),
                *answer(state, call, structured.rejection(state)),
                structured.rejected_completion(),
            )
        )
    if call.name == "task_complete" and rejected(state):
        failed = ToolError(message=rejection(state), code="check_failed")
        return Say(events=(*answer(state, call, failed), rejected_completion(state)))
    accepted = ToolContent(content=state.sentences.get(call.name, call.name))
    return Say(events=answer(state, call, accepted))


def claims_done(state: State) -> bool:
    """The next call is a sound `task_complete` and the checks have not judged the work yet."""
    call = structured.next_control(state)
    if call is None or call.name != "task_complete" or _problem(state, call):
        return False
    return unchecked(state) and not structured.wanted(state)


def _answer_output(state: State, call: ToolCall) -> Step:
    if not call.problem:
        return Say(events=answer(state, call, structured.verdict(state, call)))
    error = ToolError(message=call.problem, code="output_mismatch")
    found = structured.unreadable(call.problem, call)
    return Say(events=(found, *answer(state, call, error)))


def _once(state: State, found: RunnerOutputCheck) -> tuple[RunnerOutputCheck, ...]:
    """The verdict, unless it was recorded: the summary itself was compared, and did not fit."""
    last = state.output_check
    known = last is not None and last.tool_call_id == found.tool_call_id
    return () if known else (found,)


def accepted_control(state: State) -> ToolCall | None:
    """The control call of the open turn that was accepted."""
    if state.main.open_turn is None or state.main.reply is None:
        return None
    results = state.main.results
    return next(
        (
            call
            for call in state.main.reply.calls
            if call.name in ENDING_TOOLS and call.id in results and not results[call.id].is_error
        ),
        None,
    )


def state_completion(state: State) -> Step:
    call = accepted_control(state)
    assert call is not None  # the rule's condition
    if call.name == "task_complete":
        return Say(events=(SessionTaskComplete(summary=str(call.arguments["summary"])),))
    reason = str(call.arguments["reason"])
    fact = SessionTaskComplete(success=False, outcome="blocked", reason=reason)
    return Say(events=(fact,))


def _problem(state: State, call: ToolCall) -> ToolError | None:
    if not state.need.autopilot or call.name == OUTPUT_TOOL:
        return ToolError(message=f"there is no tool `{call.name}`", code="unknown_tool")
    wanted = "summary" if call.name == "task_complete" else "reason"
    given = call.arguments.get(wanted)
    message = None
    if call.problem:
        message = call.problem
    elif state.completion is not None:
        message = "the task was already ended by an earlier call of this reply"
    elif not isinstance(given, str) or not given.strip():
        message = f"`{call.name}` needs `{wanted}`: a text that is not empty"
    if message is None:
        return None
    # A completion that was rejected for its content is no malformed reply: it costs a continue.
    return ToolError(message=message, code="invalid_arguments" if call.problem else "failed")


def answer(state: State, call: ToolCall, outcome: ToolContent | ToolError) -> tuple[Persisted, ...]:
    turn_id = state.main.open_turn or ""
    start = ToolExecutionStart(
        tool_call_id=call.id, tool_name=call.name, arguments=call.arguments, turn_id=turn_id
    )
    complete = ToolExecutionComplete(
        tool_call_id=call.id,
        tool_name=call.name,
        success=isinstance(outcome, ToolContent),
        turn_id=turn_id,
        result=outcome if isinstance(outcome, ToolContent) else None,
        error=outcome if isinstance(outcome, ToolError) else None,
    )
    return (complete,) if call.id in state.main.started else (start, complete)
