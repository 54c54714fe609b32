"""A run for people, from its log: the whole of it turn by turn, streamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from runner.core.events import (
    Abort,
    AssistantMessage,
    PermissionCompleted,
    Record,
    RunnerPreflight,
    RunnerResult,
    RunnerSpec,
    SessionError,
    SessionInfo,
    SessionStart,
    SessionUsageCheckpoint,
    SessionWarning,
    ToolExecutionComplete,
    ToolExecutionStart,
    UserMessage,
)
from runner.core.words import count, gist, one_line, span, usd

TEXT_LINES = 6
HEAD_LINES = 2
TAIL_LINES = 3
WIDTH = 100


def header(result: Mapping[str, Any] | None, name: str, session_id: str) -> list[str]:
    """What the run came to: ending, cost, turns, time."""
    if result is None:
        return [f"{name}: not finished", f"  session    {session_id}"]
    ending = result["subtype"]
    if result.get("error_type"):
        ending += f": {result['error_type']}"
    rows = {
        "cause": "; ".join(result.get("errors") or ()),
        "turns": f"{count(result['num_tool_turns'], 'tool-use turn')}, "
        f"{count(result['num_llm_calls'], 'model call')}, {count(result['num_nudges'], 'nudge')}",
        "cost": f"{usd(Decimal(str(result['total_cost_usd'])))} ({result['cost_basis']})",
        "time": span(result["duration_ms"] / 1000),
        "denied": _denied(result["permission_denials"]),
        "session": session_id,
    }
    told = [f"  {key:<10} {value}" for key, value in rows.items() if value]
    return [f"{name}: {ending}, exit code {result['exit_code']}", *told]


def story(records: Iterable[Record]) -> Iterator[str]:
    """The run, event by event, as lines; reads no further than it has told."""
    teller = _Teller()
    for record in records:
        yield from teller.tell(record)


class _Teller:
    """Remembers what a later line needs: open calls, the last cost, the number of the turn."""

    def __init__(self) -> None:
        self._turn = 0
        self._cost = ""
        self._calls: dict[str, Mapping[str, Any]] = {}
        self._refusals: dict[str, str] = {}

    def tell(self, record: Record) -> list[str]:  # noqa: C901  # one arm an event, no logic
        match record.event:
            case SessionStart() as event:
                return ["", f"model      {event.selected_model}", f"started    {event.start_time}"]
            case RunnerSpec() | RunnerResult():
                return []
            case RunnerPreflight() as event:
                failed = [check for check in event.checks if not check.ok]
                bad = [f"error      {check.name}: {check.detail}" for check in failed]
                return [f"workspace  {event.workspace}", f"sandbox    {event.sandbox}", *bad]
            case UserMessage() as event:
                title = "nudge" if event.is_autopilot_continuation else "prompt"
                lines = 1 if event.is_autopilot_continuation else TEXT_LINES
                return ["", title, *_quote(event.content, lines, "    ")]
            case SessionUsageCheckpoint() as event:
                self._cost = f"{usd(event.cost_usd)}, {span(event.duration_ms / 1000)}"
            case AssistantMessage() as event:
                return self._reply(event)
            case ToolExecutionStart() as event:
                self._calls[event.tool_call_id] = event.arguments
            case ToolExecutionComplete() as event:
                return self._outcome(event)
            case PermissionCompleted() as event:
                self._refusals[event.tool_call_id] = event.reason
            case SessionWarning(message=text):
                return [f"warning    {one_line(text, 400)}"]
            case SessionInfo(message=text):
                return [f"info       {one_line(text, 400)}"]
            case SessionError(error_type=kind, message=text):
                return ["", f"error      {kind}: {one_line(text, 400)}"]
            case Abort(cause=cause):
                return ["", f"stopped    {cause}"]
            case _:
                pass
        return []

    def _reply(self, event: AssistantMessage) -> list[str]:
        self._turn += 1
        cost, self._cost = self._cost, ""
        return ["", f"turn {self._turn}  {cost}", *_quote(event.content, TEXT_LINES, "    ")]

    def _outcome(self, event: ToolExecutionComplete) -> list[str]:
        arguments = self._calls.pop(event.tool_call_id, {})
        refusal = self._refusals.pop(event.tool_call_id, "")
        outcome = "ok" if event.success else event.error.code if event.error else "failed"
        took = "" if event.duration_ms is None else f", {span(event.duration_ms / 1000)}"
        title = f"  {event.tool_name}  {gist(arguments, WIDTH)}  ({outcome}{took})"
        if outcome == "denied" and refusal:
            return [title, f"    | {one_line(refusal, WIDTH)}"]
        return [title, *_ends(_output(event), "    | ")]


def _output(event: ToolExecutionComplete) -> str:
    if event.error is not None:
        return event.error.message
    if event.result is None:
        return ""
    return event.result.detailed_content or event.result.content


def _ends(text: str, margin: str) -> list[str]:
    """The first and the last lines of an output: what it is, and what it came to."""
    shown = _cut(text, margin)
    left = len(shown) - HEAD_LINES - TAIL_LINES
    if left <= 1:  # "1 line more" would take the place of that line
        return shown
    return [*shown[:HEAD_LINES], f"{margin}({left} lines more)", *shown[-TAIL_LINES:]]


def _quote(text: str, max_lines: int, margin: str) -> list[str]:
    """The first lines, and how many more there are."""
    shown = _cut(text, margin)
    if len(shown) <= max_lines + 1:
        return shown
    return [*shown[:max_lines], f"{margin}({len(shown) - max_lines} lines more)"]


def _cut(text: str, margin: str) -> list[str]:
    """The lines, each cut to the width."""
    lines = text.strip("\n").splitlines() if text.strip() else []
    return [(margin + _fit(line)).rstrip() for line in lines]


def _fit(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _denied(denials: Iterable[Mapping[str, Any]]) -> str:
    calls = [f"{denial['tool_name']} {gist(denial['tool_input'], 40)}" for denial in denials]
    return f"{count(len(calls), 'call')}: {'; '.join(calls[:5])}" if calls else ""
