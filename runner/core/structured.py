"""Structured output: what may be the object the schema asks for, and what its verdict means."""

from __future__ import annotations

import re
from typing import Any

from runner.core.endings import Ending
from runner.core.events import (
    RunnerOutputCheck,
    SessionTaskComplete,
    ToolContent,
    ToolError,
    UserMessage,
)
from runner.core.messages import OUTPUT_TOOL, ToolCall
from runner.core.state import State
from runner.core.steps import CheckOutput, Finish, Say, Step
from runner.core.wire import is_deeper, strict_json

NO_OBJECT = "no object was given"

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n```\s*", re.DOTALL | re.IGNORECASE)


def wanted(state: State) -> bool:
    """The spec has a schema, and no object that fits it was given yet."""
    return state.need.output_schema is not None and state.output is None


def next_control(state: State) -> ToolCall | None:
    """The pending call that is answered first: an object comes before what it is needed for."""
    pending = state.main.pending
    objects = (call for call in pending if call.name == OUTPUT_TOOL)
    return next(objects, pending[0] if pending else None)


def unchecked(state: State) -> bool:
    """Something that may be the object was given and not compared with the schema."""
    return _candidate(state) is not None


def check(state: State) -> Step:
    """Compare it with the schema."""
    candidate = _candidate(state)
    assert candidate is not None  # unchecked
    return candidate


def verdict(state: State, call: ToolCall) -> ToolContent | ToolError:
    """What a call of the output tool is answered, once it is checked."""
    found = state.output_check
    assert found is not None  # the object of a sound call was checked before it is answered
    if found.valid:
        return ToolContent(content=state.sentences.get("output_accepted", "accepted"))
    return ToolError(message=_mismatch(state, found), code="output_mismatch")


def unreadable(problem: str, call: ToolCall) -> RunnerOutputCheck:
    """The verdict on arguments that are no object at all."""
    return RunnerOutputCheck(valid=False, errors=(problem,), tool_call_id=call.id)


def missing(state: State, call: ToolCall | None = None) -> RunnerOutputCheck:
    """The verdict on a completion, or an answer, without an object."""
    last = state.output_check
    errors = last.errors if last is not None and not last.valid else (NO_OBJECT,)
    call_id = None if call is None else call.id
    return RunnerOutputCheck(valid=False, errors=errors, tool_call_id=call_id)


def rejection(state: State) -> ToolError:
    """What a completion without an object is answered."""
    text = state.sentences.get("output_missing", NO_OBJECT)
    return ToolError(message=text, code="output_mismatch")


def rejected_completion() -> SessionTaskComplete:
    """The fact that a completion without an object did not stand; the run goes on."""
    reason = "No object that matches the output schema was given"
    return SessionTaskComplete(success=False, outcome="continue", reason=reason)


def lacking(state: State) -> bool:
    """The last reply is a text, it is no object, and nothing was said about that."""
    return wanted(state) and state.output_check is None


def note_lack(state: State) -> Step:
    """Record that the answer is no object."""
    return Say(events=(missing(state),))


def mismatched(state: State) -> bool:
    """What was given last does not fit."""
    return wanted(state) and state.output_check is not None and not state.output_check.valid


def send_back(state: State) -> Step:
    """Say what does not fit; the model tries again."""
    assert state.output_check is not None  # mismatched
    said = UserMessage(content=_mismatch(state, state.output_check), source="output_schema")
    return Say(events=(said,))


def given_up(state: State) -> bool:
    """As many attempts in a row failed as may, whether or not an object had fitted before."""
    return state.need.output_schema is not None and state.output_attempts >= _most(state)


def give_up(state: State) -> Step:
    """Finish: there is no object."""
    last = state.output_check
    why = f": {'; '.join(last.errors)}" if last is not None and last.errors else ""
    message = f"Failed to provide valid structured output after {_most(state)} attempts{why}"
    return Finish(ending=Ending(subtype="error_max_structured_output_retries", message=message))


def parsed(text: str) -> dict[str, Any] | None:
    """The object that a text is, alone or in one code block; None when it is none."""
    fenced = _FENCED.fullmatch(text)
    try:
        value = strict_json(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and not is_deeper(value) else None


def _candidate(state: State) -> CheckOutput | None:
    if state.need.output_schema is None or state.main.reply is None:
        return None
    if not state.main.reply.calls:
        value = parsed(state.main.reply.text)
        if value is None or state.output_check is not None:
            return None
        return CheckOutput(value=value)
    call = next_control(state)
    if call is None or call.problem or _is_checked(state, call):
        return None
    if call.name == OUTPUT_TOOL:
        return CheckOutput(value=call.arguments, tool_call_id=call.id)
    summary = call.arguments.get("summary")
    if call.name != "task_complete" or not isinstance(summary, str) or not wanted(state):
        return None
    value = parsed(summary)
    return None if value is None else CheckOutput(value=value, tool_call_id=call.id)


def _is_checked(state: State, call: ToolCall) -> bool:
    return state.output_check is not None and state.output_check.tool_call_id == call.id


def _most(state: State) -> int:
    return state.need.limits.max_structured_output_retries


def _mismatch(state: State, found: RunnerOutputCheck) -> str:
    sentence = state.sentences.get("output_mismatch", "{errors}")
    return sentence.replace("{errors}", "\n".join(f"- {error}" for error in found.errors))
