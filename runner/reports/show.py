"""A run for people, from its log: the whole of it turn by turn, streamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Literal

from runner.core.events import (
    Abort,
    AssistantMessage,
    AssistantTurnStart,
    HookEnd,
    PermissionCompleted,
    Record,
    RunnerOutputCheck,
    RunnerPreflight,
    RunnerProtectionCheck,
    RunnerResult,
    RunnerSpec,
    RunnerVerifyComplete,
    SessionCompactionComplete,
    SessionError,
    SessionInfo,
    SessionModelChange,
    SessionResume,
    SessionStart,
    SessionUsageCheckpoint,
    SessionWarning,
    SubagentFailed,
    SubagentStarted,
    ToolExecutionComplete,
    ToolExecutionStart,
    UserMessage,
)
from runner.core.words import count, gist, one_line, span, usd
from runner.reports.wording import compaction, hook, how_it_went

Look = Literal["plain", "head", "good", "warn", "bad", "dim"]
Said = tuple[Look, str]
"""A line and how it looks where there is colour."""

GAP: Said = ("plain", "")
TEXT_LINES = 6
DIFF_LINES = 20
HEAD_LINES = 2
TAIL_LINES = 3
WIDTH = 100
_DIFF_LOOKS: Mapping[str, Look] = {"+": "good", "-": "bad", "@": "dim"}


def header(result: Mapping[str, Any] | None, name: str, session_id: str) -> list[Said]:
    """What the run came to: ending, cost, turns, time."""
    if result is None:
        return [("warn", f"{name}: not finished"), ("plain", f"  session    {session_id}")]
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
    told: list[Said] = [("plain", f"  {key:<10} {value}") for key, value in rows.items() if value]
    look: Look = "bad" if result["is_error"] else "good"
    return [(look, f"{name}: {ending}, exit code {result['exit_code']}"), *told]


def story(
    records: Iterable[Record], *, turns: range | None = None, whole: bool = False
) -> Iterator[Said]:
    """The run, event by event, as lines; reads no further than it has told.

    `turns` leaves out everything but these, counted from 1; `whole` cuts no text.
    """
    teller = _Teller(whole=whole)
    for record in records:
        told = teller.tell(record)
        if turns is None or teller.turn in turns:
            yield from told


class _Teller:
    """Remembers what a later line needs: open calls, the last cost, the number of the turn."""

    def __init__(self, *, whole: bool) -> None:
        self.turn = 0
        self._whole = whole
        self._cost = ""
        self._calls: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._refusals: dict[tuple[str, str], str] = {}
        self._names: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def tell(self, record: Record) -> list[Said]:
        """What a record means; what a sub-agent did is set in below the turn that started it."""
        said = self._tell(record)
        if record.agent_id in self._names:
            said = [(look, f"  {text}" if text else text) for look, text in said]
        return said

    def _tell(self, record: Record) -> list[Said]:  # noqa: C901  # one arm an event, no logic
        match record.event:
            case SessionStart() as event:
                rows = [f"model      {event.selected_model}", f"started    {event.start_time}"]
                return [GAP, *(("plain", row) for row in rows)]
            case SessionResume() as event:  # what follows is another run
                return [GAP, ("head", f"resumed    {event.resume_time}")]
            case RunnerSpec() | RunnerResult():
                return []
            case RunnerPreflight() as event:
                failed = [check for check in event.checks if not check.ok]
                rows = [f"workspace  {event.workspace}", f"sandbox    {_sandbox(event)}"]
                told: list[Said] = [("plain", row) for row in rows]
                bad = (f"error      {check.name}: {check.detail}" for check in failed)
                return [*told, *(("bad", text) for text in bad)]
            case UserMessage() as event:
                nudge = bool(event.is_autopilot_continuation)
                title: Said = ("warn", "nudge") if nudge else ("head", self._of(record, "prompt"))
                return [GAP, title, *self._quote(event.content, 1 if nudge else TEXT_LINES)]
            case AssistantTurnStart():
                self.turn += 1
                self._numbers[record.agent_id or ""] = self.turn
            case SessionUsageCheckpoint() as event:
                self._cost = f"{usd(event.cost_usd)}, {span(event.duration_ms / 1000)}"
            case AssistantMessage() as event:
                number = self._numbers.get(record.agent_id or "", 0)
                return self._reply(event, self._of(record, f"turn {number}"))
            case ToolExecutionStart() as event:
                self._calls[record.agent_id or "", event.tool_call_id] = event.arguments
            case ToolExecutionComplete() as event:
                return self._outcome(event, record.agent_id or "")
            case PermissionCompleted() as event:
                self._refusals[record.agent_id or "", event.tool_call_id] = event.reason
            case SubagentStarted() as event:
                self._name(record.agent_id or "", event.agent_name)
            case SubagentFailed(error=error):
                return [("warn", f"{self._of(record, 'end')}  {one_line(error, 400)}")]
            case RunnerVerifyComplete() as event if event.checks:
                return self._checks(event)
            case SessionWarning(message=text):
                return [("warn", f"warning    {one_line(text, 400)}")]
            case SessionInfo(message=text):
                return [("dim", f"info       {one_line(text, 400)}")]
            case RunnerProtectionCheck(changes=changes):
                return [("bad", f"protected  {one.path}: {one.change}") for one in changes]
            case RunnerOutputCheck(valid=False, errors=errors):
                return [("warn", f"output     {one_line(text, 400)}") for text in errors[:5]]
            case SessionCompactionComplete() as event:
                return [("dim", f"compacted  {compaction(event)}")]
            case HookEnd() as event if text := hook(event):
                return [("warn", f"hook       {one_line(text, 400)}")]
            case SessionModelChange(new_model=model, cause=cause):
                return [("warn", f"model      {model} takes over: {one_line(cause, 400)}")]
            case SessionError(error_type=kind, message=text):
                return [GAP, ("bad", f"error      {kind}: {one_line(text, 400)}")]
            case Abort(cause=cause):
                return [GAP, ("warn", f"stopped    {cause}")]
            case _:
                pass
        return []

    def _name(self, agent_id: str, name: str) -> None:
        alike = [known for known in self._names.values() if known.partition(" ")[0] == name]
        self._names[agent_id] = f"{name} {len(alike) + 1}" if alike else name

    def _of(self, record: Record, title: str) -> str:
        """The title of what the main loop did, or an agent."""
        agent = record.agent_id
        return f"{title} of {self._names.get(agent, agent)}" if agent else title

    def _reply(self, event: AssistantMessage, title: str) -> list[Said]:
        cost, self._cost = self._cost, ""
        return [GAP, ("head", f"{title}  {cost}"), *self._quote(event.content, TEXT_LINES)]

    def _outcome(self, event: ToolExecutionComplete, agent: str) -> list[Said]:
        arguments = self._calls.pop((agent, event.tool_call_id), {})
        refusal = self._refusals.pop((agent, event.tool_call_id), "")
        outcome = "ok" if event.success else event.error.code if event.error else "failed"
        took = "" if event.duration_ms is None else f", {span(event.duration_ms / 1000)}"
        look: Look = "good" if event.success else "warn" if outcome == "denied" else "bad"
        title = f"  {event.tool_name}  {gist(arguments, WIDTH)}  ({outcome}{took})"
        if outcome == "denied" and refusal:
            return [(look, title), ("plain", f"    | {one_line(refusal, WIDTH)}")]
        if event.result is not None and event.result.detailed_content:
            return [(look, title), *self._diff(event.result.detailed_content)]
        return [(look, title), *self._ends(_output(event))]

    def _checks(self, event: RunnerVerifyComplete) -> list[Said]:
        told: list[Said] = [GAP, ("head", f"checks, attempt {event.attempt}")]
        for one in event.checks:
            told.append(("good" if one.passed else "bad", f"  {one.name}  ({how_it_went(one)})"))
            if not one.passed:
                told += self._ends(one.output)
        return told

    def _quote(self, text: str, max_lines: int) -> list[Said]:
        """The first lines, and how many more there are."""
        shown = self._cut(text, "    ")
        if self._whole or len(shown) <= max_lines + 1:
            return shown
        left = len(shown) - max_lines
        return [*shown[:max_lines], ("dim", f"    ({left} lines more)")]

    def _ends(self, text: str) -> list[Said]:
        """The first and the last lines of an output: what it is, and what it came to."""
        shown = self._cut(text, "    | ")
        left = len(shown) - HEAD_LINES - TAIL_LINES
        if self._whole or left <= 1:  # "1 line more" would take the place of that line
            return shown
        more: Said = ("dim", f"    | ({left} lines more)")
        return [*shown[:HEAD_LINES], more, *shown[-TAIL_LINES:]]

    def _diff(self, text: str) -> list[Said]:
        """What changed in a file, without the names above it: the call has them."""
        lines = [line for line in text.split("\n") if not line.startswith(("--- ", "+++ "))]
        shown = self._cut("\n".join(lines), "    | ")
        coloured = [(_DIFF_LOOKS.get(line[6:7], look), line) for look, line in shown]
        if self._whole or len(coloured) <= DIFF_LINES + 1:
            return coloured
        left = len(coloured) - DIFF_LINES
        return [*coloured[:DIFF_LINES], ("dim", f"    | ({left} lines more)")]

    def _cut(self, text: str, margin: str) -> list[Said]:
        """The lines, each cut to the width unless all is to be seen."""
        lines = text.strip("\n").splitlines() if text.strip() else []
        return [("plain", (margin + self._fit(line)).rstrip()) for line in lines]

    def _fit(self, line: str) -> str:
        return line if self._whole or len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _output(event: ToolExecutionComplete) -> str:
    if event.error is not None:
        return event.error.message
    return "" if event.result is None else event.result.content


def _denied(denials: Iterable[Mapping[str, Any]]) -> str:
    calls = [f"{denial['tool_name']} {gist(denial['tool_input'], 40)}" for denial in denials]
    return f"{count(len(calls), 'call')}: {'; '.join(calls[:5])}" if calls else ""


def _sandbox(event: RunnerPreflight) -> str:
    report = event.sandbox_report
    if report is None:
        return event.sandbox
    why = f" ({report.reason})" if report.reason else ""
    return f"{report.tier}{why}, network {report.network}"
