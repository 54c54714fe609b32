"""From the records of a log to its digest, in one pass; a log that just ends is a run as well.

Rules of this file: nothing is cut here; what an event means to the run is the fold's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from runner.core import subagents
from runner.core.events import (
    Abort,
    AssistantMessage,
    AssistantReasoning,
    AssistantTurnEnd,
    AssistantTurnStart,
    HookEnd,
    PermissionCompleted,
    Record,
    RunnerLogRecovered,
    RunnerOutputCheck,
    RunnerProtectionCheck,
    RunnerVerifyComplete,
    RunnerVerifyStart,
    SessionCompactionComplete,
    SessionError,
    SessionInfo,
    SessionModelChange,
    SessionResume,
    SessionTaskComplete,
    SessionUsageCheckpoint,
    SessionWarning,
    SubagentFailed,
    ToolExecutionComplete,
    ToolExecutionStart,
    UserMessage,
)
from runner.core.fold import apply
from runner.core.messages import Usage
from runner.core.state import State
from runner.reports.digest import Call, Digest, Note, Outcome, Turn
from runner.reports.wording import compaction, hook, how_it_went

DENIED = "denied"
_OUTCOMES: Mapping[str, Outcome] = {
    DENIED: "denied",
    "cancelled": "stopped",
    "not_run": "not run",
    "interrupted": "stopped",
}


def digest(
    records: Iterable[Record], *, name: str = "?", result: Mapping[str, Any] | None = None
) -> Digest:
    """The digest of a log. `result` is how the run ended when its log cannot say it; `name` is
    the task's when the log breaks off before its spec."""
    reader = _Reader()
    for record in records:
        reader.read(record)
    state = reader.state
    known = result or state.result
    session_id = state.session.session_id if state.session else ""
    return Digest(
        name=state.spec.name if state.spec else name,
        session_id=session_id or str((known or {}).get("session_id", "")),
        state=state,
        result=known,
        items=reader.items(),
        last_event=reader.last_event,
    )


class _Reader:
    """Remembers the open turn of each agent, by its place among the items."""

    def __init__(self) -> None:
        self.state = State()
        self.last_event: str | None = None
        self._items: list[Turn | Note] = []
        self._open: dict[str, int] = {}
        self._calls: dict[int, dict[str, Call]] = {}
        self._turns = 0
        self._checking: str | None = None

    def items(self) -> tuple[Turn | Note, ...]:
        """Everything so far, each turn with its calls."""
        return tuple(
            replace(item, calls=tuple(self._calls[place].values()))
            if isinstance(item, Turn)
            else item
            for place, item in enumerate(self._items)
        )

    def read(self, record: Record) -> None:
        """One more record; those that were never persisted tell nothing."""
        if record.seq is None:
            return
        self.state = apply(self.state, record)
        self.last_event = record.event.type
        agent, at = record.agent_id or "", record.timestamp
        if isinstance(record.event, RunnerVerifyStart):
            self._checking = at
        elif not self._read_turn(record, agent, at):
            whose = subagents.label(self.state, agent)
            notes = _notes(record, at, self._checking)
            self._items += [replace(note, agent=whose) for note in notes]

    def _read_turn(self, record: Record, agent: str, at: str) -> bool:
        """Take what belongs to a turn; False for everything else."""
        match record.event:
            case AssistantTurnStart() as event:
                self._begin(event, agent, at)
            case SessionUsageCheckpoint() as event:
                self._pay(event, agent)
            case AssistantMessage() as event:
                self._hear(event, agent, at)
            case AssistantReasoning(content=text):
                self._change(agent, reasoning=text)
            case ToolExecutionStart() as event:
                self._start(event, agent, at)
            case PermissionCompleted(tool_call_id=call_id, result=result, reason=reason):
                if result.get("kind") != "approved":
                    self._put(agent, replace(self._call(agent, call_id, "?"), refusal=reason))
            case ToolExecutionComplete() as event:
                known = self._call(agent, event.tool_call_id, event.tool_name)
                self._put(agent, _completed(known, event, at))
            case AssistantTurnEnd():
                self._change(agent, ended=at)
                self._open.pop(agent, None)
            case _:
                return False
        return True

    def _begin(self, event: AssistantTurnStart, agent: str, at: str) -> None:
        self._turns += 1
        self._open[agent] = place = len(self._items)
        self._calls[place] = {}
        self._items.append(
            Turn(
                number=self._turns,
                agent=subagents.label(self.state, agent),
                agent_id=agent,
                model=event.model,
                began=at,
                total_usd=self.state.ledger.spent_usd,
            )
        )

    def _pay(self, event: SessionUsageCheckpoint, agent: str) -> None:
        place = self._open.get(agent)
        turn = None if place is None else self._items[place]
        if not isinstance(turn, Turn):  # a charge for a call that a kill cut off, at the resume
            return
        usage = Usage(
            input_tokens=event.input_tokens,
            output_tokens=event.output_tokens,
            cache_read_tokens=event.cache_read_tokens,
            cache_write_tokens=event.cache_write_tokens,
            reasoning_tokens=event.reasoning_tokens,
        )
        self._change(
            agent,
            model=event.model,
            usage=turn.usage + usage,  # an attempt that failed is charged as well
            context_tokens=usage.prompt_tokens,
            cost_usd=turn.cost_usd + event.cost_usd,
            total_usd=self.state.ledger.spent_usd,
            basis=event.basis,
            api_ms=turn.api_ms + event.duration_ms,
        )

    def _start(self, event: ToolExecutionStart, agent: str, at: str) -> None:
        known = self._call(agent, event.tool_call_id, event.tool_name)
        self._put(agent, replace(known, arguments=event.arguments, began=at))
        place = self._open.get(agent)
        turn = None if place is None else self._items[place]
        if event.fee is not None and isinstance(turn, Turn):
            cost_usd = turn.cost_usd + event.fee.cost_usd
            self._change(agent, cost_usd=cost_usd, total_usd=self.state.ledger.spent_usd)

    def _hear(self, event: AssistantMessage, agent: str, at: str) -> None:
        thoughts = "\n\n".join(block.text for block in event.reasoning if block.text)
        heard = {"reasoning": thoughts} if thoughts else {}
        self._change(
            agent, replied=at, text=event.content, finish_reason=event.finish_reason, **heard
        )
        for asked in event.tool_requests:
            call = Call(id=asked.tool_call_id, tool=asked.name, arguments=asked.arguments)
            self._put(agent, call)

    def _change(self, agent: str, **changes: Any) -> None:
        place = self._open.get(agent)
        if place is not None:
            turn = self._items[place]
            self._items[place] = replace(turn, **changes)

    def _call(self, agent: str, call_id: str, tool: str) -> Call:
        place = self._open.get(agent)
        known = {} if place is None else self._calls[place]
        return known.get(call_id) or Call(id=call_id, tool=tool, arguments={})

    def _put(self, agent: str, call: Call) -> None:
        place = self._open.get(agent)
        if place is not None:
            self._calls[place][call.id] = call


def _completed(call: Call, event: ToolExecutionComplete, at: str) -> Call:
    code = event.error.code if event.error else ""
    outcome: Outcome = "ok" if event.success else _OUTCOMES.get(code, "failed")
    output = event.error.message if event.error else ""
    details = ""
    if event.result is not None:
        output, details = event.result.content, event.result.detailed_content or ""
    return replace(
        call,
        outcome=outcome,
        code=code,
        output=output,
        diff=details,
        output_file=event.output_file,
        duration_ms=event.duration_ms,
        ended=at,
    )


def _compacted(event: SessionCompactionComplete) -> str:
    summary = event.summary_content
    return compaction(event) + (f"\n\n{summary}" if summary else "")


def _notes(  # noqa: C901  # one arm an event, no logic
    record: Record, at: str, checking: str | None
) -> list[Note]:
    match record.event:
        case UserMessage(is_autopilot_continuation=True, content=text):
            return [Note(kind="nudge", text=text, at=at)]
        case UserMessage(source="verify", content=text):
            return [Note(kind="feedback", text=text, at=at)]
        case UserMessage(content=text):
            return [Note(kind="prompt", text=text, at=at)]
        case RunnerVerifyComplete(checks=checks, passed=passed, attempt=attempt) if checks:
            told = "\n".join(f"{one.name}: {how_it_went(one)}" for one in checks)
            text = f"attempt {attempt}\n{told}"
            return [Note(kind="checks", text=text, at=at, good=passed, began=checking)]
        case SessionWarning(message=text):
            return [Note(kind="warning", text=text, at=at)]
        case SessionInfo(message=text):
            return [Note(kind="info", text=text, at=at)]
        case SessionError(error_type=kind, message=text):
            return [Note(kind="error", text=f"{kind}: {text}", at=at, good=False)]
        case RunnerProtectionCheck(changes=changes) if changes:
            text = "\n".join(f"{one.path}: {one.change}" for one in changes)
            return [Note(kind="protected", text=text, at=at, good=False)]
        case RunnerOutputCheck(valid=valid, errors=errors):
            text = "\n".join(errors) or "it fits the schema"
            return [Note(kind="output", text=text, at=at, good=valid)]
        case SessionCompactionComplete() as event:
            return [Note(kind="compaction", text=_compacted(event), at=at, good=event.success)]
        case HookEnd() as event if text := hook(event):
            return [Note(kind="hook", text=text, at=at)]
        case SessionModelChange(new_model=model, cause=cause):
            return [Note(kind="model", text=f"{model} takes over: {cause}", at=at)]
        case SubagentFailed(error=error):
            return [Note(kind="error", text=error, at=at, good=False)]
        case SessionResume(note=text):
            return [Note(kind="resume", text=text or "the session goes on", at=at)]
        case RunnerLogRecovered(torn_bytes=size):
            return [Note(kind="warning", text=f"{size} bytes of a torn line were set aside", at=at)]
        case SessionTaskComplete() as event:
            text = event.summary or event.reason or event.outcome
            return [Note(kind="completion", text=text, at=at, good=event.success)]
        case Abort(cause=cause):
            return [Note(kind="stop", text=cause, at=at)]
        case _:
            return []
