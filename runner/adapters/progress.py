"""What a run looks like on stderr while it happens, and its last word: records to lines.

A turn is a line with what the model said, what it cost, and what is left of every cap; each of
its calls is a line below it. Whatever goes wrong has a line of its own, named in its first word.

Rules of this file: nothing is counted here, the numbers are those of the fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from runner.adapters.final_block import final_block
from runner.adapters.log import Line, Say, Span, Style
from runner.core.classifier import read_answer
from runner.core.context import estimated_tokens, window_tokens
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
    SessionCompactionComplete,
    SessionError,
    SessionInfo,
    SessionModelChange,
    SessionWarning,
    ToolExecutionComplete,
    ToolExecutionStart,
    UserMessage,
)
from runner.core.fold import apply
from runner.core.limits import budget_left_usd, continues_left, turns_left
from runner.core.spec import TaskSpec
from runner.core.state import CLASSIFIER, MAIN, State
from runner.core.words import count, gist, one_line, span, usd

TEXT_CHARS = 58
ARGUMENT_CHARS = 48
REASON_CHARS = 100


class Progress:
    """The `Sink` for people. `quiet` leaves only the last word.

    `home` is where sessions are kept: the last word names the folder of this one.
    """

    def __init__(self, say: Say, *, home: Path, quiet: bool = False) -> None:
        self._say = say
        self._home = home
        self._quiet = quiet
        self._state = State()
        self._calls: dict[str, Mapping[str, Any]] = {}
        self._refusals: dict[str, str] = {}
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
        """Remember what a later line repeats."""
        match record.event:
            case ToolExecutionStart(tool_call_id=call_id, arguments=arguments):
                self._calls[call_id] = arguments
            case PermissionCompleted(tool_call_id=call_id, reason=reason):
                self._refusals[call_id] = reason
            case _:
                pass

    def _lines(self, record: Record) -> list[Line]:  # noqa: C901  # one arm an event, no logic
        at = record.timestamp
        if record.agent_id == CLASSIFIER and not isinstance(record.event, SessionWarning):
            return self._classified(record.event, at)
        match record.event:
            case RunnerSpec():
                return [self._start(at)]
            case RunnerPreflight(checks=checks):
                return [
                    _named("error", "bad", f"{check.name}: {check.detail}", at, check=check.name)
                    for check in checks
                    if not check.ok
                ]
            case AssistantMessage() as event:
                return [self._turn(event, at)]
            case ToolExecutionComplete() as event:
                return [self._tool(event, at)]
            case AssistantTurnEnd():
                return [self._close_group(at)] if self._in_group else []
            case UserMessage(is_autopilot_continuation=True):
                return [self._nudge(at)]
            case UserMessage(source="stop_hook", content=text):
                return [_named("hook", "warn", text, at)]
            case SessionWarning(warning_type=kind, message=text):
                name = "retry" if kind == "model_retry" else "warning"
                return [_named(name, "warn", text, at, kind=kind)]
            case SessionCompactionComplete() as event:
                return [self._compacted(event, at)]
            case SessionModelChange(new_model=model, cause=cause):
                return [_named("model", "warn", f"{model} takes over: {cause}", at, model=model)]
            case SessionInfo(message=text):
                return [_named("info", "dim", text, at)]
            case SessionError(error_type="preflight"):
                return []  # told check by check
            case SessionError(error_type=kind, message=text):
                return [_named("error", "bad", text, at, kind=kind)]
            case Abort(cause=cause):
                return [_named("stop", "warn", f"{cause}: closing what is open", at, cause=cause)]
            case RunnerHeartbeat(phase=phase, elapsed_s=elapsed):
                text = f"{phase}, {span(elapsed)} into the run"
                return [_named("waiting", "dim", text, at, phase=phase, elapsed_s=elapsed)]
            case _:
                return []

    def _classified(self, event: Event, at: str) -> list[Line]:
        """What the model of mode auto answered."""
        if not isinstance(event, AssistantMessage):
            return []
        answer = read_answer(event.content)
        why = answer.reason if answer else "the answer cannot be read"
        text = f"{why}  {usd(self._state.ledger.spent_usd)}"
        is_ok = answer is not None and answer.allows
        return [_named("allow" if is_ok else "deny", "plain" if is_ok else "warn", text, at)]

    def _start(self, at: str) -> Line:
        spec, session = self._state.need, self._state.session
        copied = spec.workspace.isolation == "copy"
        rows = {
            "model": spec.model,
            "workspace": ("a copy of " if copied else "") + spec.workspace.path,
            "caps": caps_in_words(spec),
            "session": session.session_id if session else "",
        }
        words = "".join(f"\n  {name:<10} {value}" for name, value in rows.items())
        spans: tuple[Span, ...] = (("bold", spec.name), ("dim", words), ("plain", "\n"))
        return Line(event="start", spans=spans, fields={"task": spec.name, **rows}, at=at)

    def _turn(self, event: AssistantMessage, at: str) -> Line:
        number = self._state.main.turns_started
        spent = self._state.ledger.spent_usd
        left = self._left(at)
        words = ", ".join(words for _, words in left.values())
        self._in_group = True
        return Line(
            event="turn",
            spans=(
                ("bold", f"turn {number:<3}"),
                ("plain", f" {one_line(event.content, TEXT_CHARS):<{TEXT_CHARS}}"),
                ("plain", f"  {usd(spent):<8}"),
                ("dim", f" {words} left" if words else ""),
            ),
            fields={
                "id": number,
                "text": event.content,
                "spent_usd": float(spent),
                **{f"{name}_left": value for name, (value, _) in left.items()},
            },
            group="open",
            at=at,
        )

    def _left(self, at: str) -> dict[str, tuple[float, str]]:
        """What is left of each cap that there is, as a number and in words."""
        state = self._state
        left: dict[str, tuple[float, str]] = {}
        turns = turns_left(state)
        if turns is not None:
            left["turns"] = turns, count(turns, "turn")
        budget = budget_left_usd(state, MAIN)
        if budget is not None:
            left["usd"] = float(budget), usd(budget)
        if state.need.timeout is not None and state.first_timestamp is not None:
            first, now = map(datetime.fromisoformat, (state.first_timestamp, at))
            seconds = round(state.need.timeout - (now - first).total_seconds(), 1)
            left["seconds"] = seconds, span(seconds)
        window = window_tokens(state)
        if window is not None:
            share = max(100 - round(100 * estimated_tokens(state) / window), 0)
            left["context_percent"] = share, f"{share}% of context"
        if state.need.autopilot:
            nudges = max(continues_left(state), 0)
            left["nudges"] = nudges, count(nudges, "nudge")
        return left

    def _tool(self, event: ToolExecutionComplete, at: str) -> Line:
        what = gist(self._calls.pop(event.tool_call_id, {}), ARGUMENT_CHARS)
        refusal = self._refusals.pop(event.tool_call_id, "")
        outcome, style = _outcome(event)
        took = "" if event.duration_ms is None else span(event.duration_ms / 1000)
        why = "" if event.success else _why(event, refusal)
        call = f"{one_line(event.tool_name, ARGUMENT_CHARS):<5}  {what}"
        return Line(
            event="tool",
            spans=(
                (style, f"  {outcome:<8}"),
                ("plain", f" {call:<{TEXT_CHARS - 2}}"),
                ("dim", f"  {took:<6}" if why else f"  {took}"),
                ("plain", f"  {why}" if why else ""),
            ),
            fields={
                "tool": event.tool_name,
                "arguments": what,
                "outcome": outcome,
                "duration_ms": event.duration_ms,
                "why": why or None,
            },
            at=at,
        )

    def _compacted(self, event: SessionCompactionComplete, at: str) -> Line:
        if not event.success:
            return _named("compact", "warn", f"nothing came of it: {event.error}", at)
        removed = count(event.messages_removed or 0, "message")
        words = (
            f"a summary stands for {removed}: about {event.pre_compaction_tokens:,} tokens before, "
            f"{event.post_compaction_tokens:,} now"
        )
        fields = {
            "trigger": event.trigger,
            "tokens_before": event.pre_compaction_tokens,
            "tokens_after": event.post_compaction_tokens,
        }
        spent = usd(self._state.ledger.spent_usd)
        return _named("compact", "plain", f"{words}  {spent}", at, **fields)

    def _nudge(self, at: str) -> Line:
        used, allowed = self._state.main.nudges, self._state.need.max_autopilot_continues
        text = f"{used} of {allowed}: the reply called no tool, and the task is not marked complete"
        return _named("nudge", "warn", text, at, used=used, allowed=allowed)

    def _close_group(self, at: str | None) -> Line:
        self._in_group = False
        return Line(
            event="turn", fields={"id": self._state.main.turns_started}, group="close", at=at
        )


def caps_in_words(spec: TaskSpec) -> str:
    """Every cap a task has: `40 tool-use turns, $2.00, 30m, 5 nudges`."""
    caps = [
        count(spec.max_turns, "tool-use turn") if spec.max_turns is not None else "",
        usd(spec.max_budget_usd) if spec.max_budget_usd is not None else "",
        span(spec.timeout) if spec.timeout is not None else "",
        count(spec.max_autopilot_continues, "nudge") if spec.autopilot else "",
    ]
    return ", ".join(cap for cap in caps if cap) or "none"


def _outcome(event: ToolExecutionComplete) -> tuple[str, Style]:
    if event.success:
        return "ok", "good"
    if event.error is not None and event.error.code == "denied":
        return "denied", "warn"
    if event.error is not None and event.error.code == "cancelled":
        return "stopped", "warn"
    if event.error is not None and event.error.code == "not_run":
        return "not run", "warn"
    return "failed", "bad"


def _why(event: ToolExecutionComplete, refusal: str) -> str:
    if refusal and event.error is not None and event.error.code == "denied":
        return one_line(refusal, REASON_CHARS)
    message = event.error.message if event.error else ""
    # A command's output ends with what it came to: the summary of a test run, the exit code.
    return one_line(message.strip().rpartition("\n")[2], REASON_CHARS)


def _named(name: str, style: Style, text: str, at: str, **fields: Any) -> Line:
    spans: tuple[Span, ...] = ((style, f"{name:<8}"), ("plain", f" {one_line(text, 400)}"))
    level = "error" if style == "bad" else "warning" if style == "warn" else "info"
    return Line(event=name, spans=spans, fields=fields, level=level, at=at)  # type: ignore[arg-type]
