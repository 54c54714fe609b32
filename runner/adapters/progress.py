"""What a run looks like on stderr while it happens, and its last word: records to lines.

A turn is a line with what the model said, what it cost, and what is left of every cap; each of
its calls is a line below it. Whatever goes wrong has a line of its own, named in its first word.

Rules of this file: nothing is counted here, the numbers are those of the fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.adapters.final_block import final_block
from runner.adapters.log import Line, Say
from runner.adapters.progress_lines import (
    compacted_line,
    named,
    nudge_line,
    of_agent,
    start_line,
    tool_line,
    turn_line,
)
from runner.core.classifier import read_answer
from runner.core.events import (
    Abort,
    AssistantMessage,
    AssistantTurnEnd,
    Event,
    PermissionCompleted,
    Record,
    RunnerHeartbeat,
    RunnerPreflight,
    RunnerSpec,
    RunnerVerifyStart,
    SessionCompactionComplete,
    SessionError,
    SessionInfo,
    SessionModelChange,
    SessionWarning,
    SubagentFailed,
    ToolExecutionComplete,
    ToolExecutionStart,
    UserMessage,
)
from runner.core.fold import apply
from runner.core.state import CLASSIFIER, MAIN, State
from runner.core.words import span, usd


class Progress:
    """The `Sink` for people. `quiet` leaves only the last word.

    `home` is where sessions are kept: the last word names the folder of this one.
    """

    def __init__(self, say: Say, *, home: Path, quiet: bool = False) -> None:
        self._say = say
        self._home = home
        self._quiet = quiet
        self._state = State()
        self._calls: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._refusals: dict[tuple[str, str], str] = {}
        self._in_group = False

    def catch_up(self, state: State) -> None:
        """Go on counting from here."""
        self._state = state

    def show(self, record: Record) -> None:
        """Say what this record means to somebody who watches; most say nothing."""
        if record.seq is not None:
            self._state = apply(self._state, record)
        self._note(record)
        if not self._quiet:
            for line in self._lines(record):
                self._say(line)

    def close(self, result: Mapping[str, Any]) -> None:
        """Say how it ended."""
        if self._in_group and not self._quiet:
            self._say(self._close_group(None))
        block = final_block(result, self._state, self._home)
        if not self._quiet:
            block = replace(block, spans=(("plain", "\n"), *block.spans))
        self._say(block)

    def _note(self, record: Record) -> None:
        """Remember what a later line repeats; ids of calls are each agent's own."""
        agent = record.agent_id or MAIN
        match record.event:
            case ToolExecutionStart(tool_call_id=call_id, arguments=arguments):
                self._calls[agent, call_id] = arguments
            case PermissionCompleted(tool_call_id=call_id, reason=reason):
                self._refusals[agent, call_id] = reason
            case _:
                pass

    def _lines(self, record: Record) -> list[Line]:
        at = record.timestamp
        if record.agent_id == CLASSIFIER and not isinstance(record.event, SessionWarning):
            return self._classified(record.event, at)
        agent = record.agent_id or MAIN
        if agent in self._state.agents:
            return self._of_agent(agent, record.event, at)
        match record.event:
            case RunnerSpec():
                return [start_line(self._state, at)]
            case AssistantMessage() as event:
                self._in_group = True
                return [turn_line(self._state, MAIN, event, at)]
            case ToolExecutionComplete() as event:
                return [self._tool(MAIN, event, at)]
            case AssistantTurnEnd():
                return [self._close_group(at)] if self._in_group else []
            case UserMessage(is_autopilot_continuation=True):
                return [nudge_line(self._state, at)]
            case RunnerVerifyStart(commands=commands):
                return [named("checks", "plain", "; ".join(commands) or "what changed", at)]
            case RunnerHeartbeat(phase=phase, elapsed_s=elapsed):
                text = f"{phase}, {span(elapsed)} into the run"
                return [named("waiting", "dim", text, at, phase=phase, elapsed_s=elapsed)]
            case event:
                return _named_lines(self._state, event, at)

    def _of_agent(self, agent_id: str, event: Event, at: str) -> list[Line]:
        """What a sub-agent did: within the group of the turn that started it."""
        match event:
            case AssistantMessage():
                return [turn_line(self._state, agent_id, event, at)]
            case ToolExecutionComplete():
                return [self._tool(agent_id, event, at)]
            case SubagentFailed(error=error):
                return [of_agent(named("agent", "warn", error, at), self._state, agent_id)]
            case SessionError():  # what became of it is told when it ends
                return []
            case _:
                told = _named_lines(self._state, event, at)
                return [of_agent(line, self._state, agent_id) for line in told]

    def _tool(self, agent_id: str, event: ToolExecutionComplete, at: str) -> Line:
        arguments = self._calls.pop((agent_id, event.tool_call_id), {})
        refusal = self._refusals.pop((agent_id, event.tool_call_id), "")
        return tool_line(self._state, agent_id, event, arguments, refusal, at)

    def _classified(self, event: Event, at: str) -> list[Line]:
        """What the model of mode auto answered."""
        if not isinstance(event, AssistantMessage):
            return []
        answer = read_answer(event.content)
        why = answer.reason if answer else "the answer cannot be read"
        text = f"{why}  {usd(self._state.ledger.spent_usd)}"
        is_ok = answer is not None and answer.allows
        return [named("allow" if is_ok else "deny", "plain" if is_ok else "warn", text, at)]

    def _close_group(self, at: str | None) -> Line:
        self._in_group = False
        return Line(
            event="turn", fields={"id": self._state.main.turns_started}, group="close", at=at
        )


def _named_lines(state: State, event: Event, at: str) -> list[Line]:
    """Whatever has a line of its own, named in its first word."""
    match event:
        case RunnerPreflight(checks=checks):
            failed = [check for check in checks if not check.ok]
            return [
                named("error", "bad", f"{one.name}: {one.detail}", at, check=one.name)
                for one in failed
            ]
        case UserMessage(source="stop_hook", content=text):
            return [named("hook", "warn", text, at)]
        case SessionWarning(warning_type=kind, message=text):
            name = "retry" if kind == "model_retry" else "warning"
            return [named(name, "warn", text, at, kind=kind)]
        case SessionCompactionComplete():
            return [compacted_line(state, event, at)]
        case SessionModelChange(new_model=model, cause=cause):
            return [named("model", "warn", f"{model} takes over: {cause}", at, model=model)]
        case SessionInfo(message=text):
            return [named("info", "dim", text, at)]
        case SessionError(error_type="preflight"):
            return []  # told check by check
        case SessionError(error_type=kind, message=text):
            return [named("error", "bad", text, at, kind=kind)]
        case Abort(cause=cause):
            return [named("stop", "warn", f"{cause}: closing what is open", at, cause=cause)]
        case _:
            return []
