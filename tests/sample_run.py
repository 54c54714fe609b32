"""A short run as records, for tests of what is made of records. Nothing here does anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from runner.core import wire
from runner.core.endings import Ending
from runner.core.events import (
    EPHEMERAL_TYPES,
    AssistantMessage,
    AssistantMessageDelta,
    AssistantTurnEnd,
    AssistantTurnStart,
    Check,
    Event,
    PermissionCompleted,
    PermissionRequested,
    PriceListing,
    Record,
    RunnerPreflight,
    RunnerSpec,
    SessionIdle,
    SessionStart,
    SessionTaskComplete,
    SessionUsageCheckpoint,
    SystemMessage,
    ToolContent,
    ToolError,
    ToolExecutionComplete,
    ToolExecutionStart,
    ToolListing,
    ToolRequest,
    UserMessage,
    to_json,
)
from runner.core.fold import fold
from runner.core.outcome import build_result, result_json
from runner.core.spec import TaskSpec, WorkspaceSpec

SESSION_ID = "5d0c4a1e-0000-4000-8000-000000000001"
MODEL = "scripted:replies.yaml"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

SPEC = TaskSpec(
    name="tidy",
    prompt="Tidy up.",
    model=MODEL,
    workspace=WorkspaceSpec(path="/src", isolation="copy"),
    max_turns=5,
    max_budget_usd=Decimal("0.5"),
    timeout=120.0,
)


def stamped(events: Iterable[Event], step_s: float = 0.5) -> list[Record]:
    """The events in envelopes, `step_s` apart, ids and sequence numbers counted up."""
    records: list[Record] = []
    seq, parent = 0, None
    for number, event in enumerate(events):
        moment = START + timedelta(seconds=number * step_s)
        persisted = event.type not in EPHEMERAL_TYPES
        record = Record(
            id=f"00000000-0000-4000-8000-{number:012}",
            timestamp=moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            parent_id=parent,
            seq=seq if persisted else None,
            event=event,
        )
        records.append(record)
        if persisted:
            seq, parent = seq + 1, record.id
    return records


def start(spec: TaskSpec = SPEC, checks: tuple[Check, ...] = ()) -> list[Event]:
    """What every log begins with."""
    price = PriceListing(
        model=spec.model,
        basis="spec",
        input_per_mtok=Decimal(3),
        output_per_mtok=Decimal(15),
        cache_read_per_mtok=Decimal(3),
        cache_write_per_mtok=Decimal(3),
    )
    return [
        SessionStart(
            session_id=SESSION_ID,
            copilot_version="0.1.0",
            start_time="2026-01-02T03:04:05.000Z",
            selected_model=spec.model,
        ),
        RunnerSpec(spec=wire.encode(spec), spec_hash="0" * 64, sentences={}),
        RunnerPreflight(
            checks=checks,
            tools=(ToolListing(name="Read", read_only=True),),
            sandbox="process",
            workspace="/home/session/workspace",
            prices=(price,),
        ),
        SystemMessage(content="You work alone."),
        UserMessage(content=spec.prompt, agent_mode="autopilot"),
    ]


def reply(turn: int, text: str, *calls: tuple[str, str, Mapping[str, Any]]) -> list[Event]:
    """A model call and its reply; `calls` are (id, tool, arguments)."""
    return [
        AssistantTurnStart(
            turn_id=str(turn), model=MODEL, max_output_tokens=8192, reserved_cost_usd=Decimal("0.1")
        ),
        AssistantMessageDelta(message_id=f"m{turn}", delta_content=text),
        SessionUsageCheckpoint(
            model=MODEL,
            cost_usd=Decimal("0.0053"),
            total_cost_usd=Decimal("0.0053") * (turn + 1),
            basis="spec",
            input_tokens=1450,
            output_tokens=62,
            duration_ms=1500,
        ),
        AssistantMessage(
            message_id=f"m{turn}",
            content=text,
            model=MODEL,
            turn_id=str(turn),
            finish_reason="tool_calls" if calls else "stop",
            tool_requests=tuple(
                ToolRequest(tool_call_id=i, name=name, arguments=arguments)
                for i, name, arguments in calls
            ),
        ),
    ]


def ok(
    call_id: str, tool: str, arguments: Mapping[str, Any], output: str, turn: int
) -> list[Event]:
    """A call that went well."""
    return [
        ToolExecutionStart(
            tool_call_id=call_id, tool_name=tool, arguments=arguments, turn_id=str(turn)
        ),
        ToolExecutionComplete(
            tool_call_id=call_id,
            tool_name=tool,
            success=True,
            turn_id=str(turn),
            result=ToolContent(content=output),
            duration_ms=200,
        ),
    ]


def denied(call_id: str, tool: str, arguments: Mapping[str, Any], turn: int) -> list[Event]:
    """A call that no rule allowed."""
    why = f"no rule allows it in mode default; `allowed_tools: [{tool}]` in the spec would"
    return [
        PermissionRequested(request_id="p1", permission_request={"kind": "shell"}),
        PermissionCompleted(
            request_id="p1",
            tool_call_id=call_id,
            result={"kind": "denied-no-approval-rule-and-could-not-request-from-user"},
            reason=why,
        ),
        ToolExecutionStart(
            tool_call_id=call_id, tool_name=tool, arguments=arguments, turn_id=str(turn)
        ),
        ToolExecutionComplete(
            tool_call_id=call_id,
            tool_name=tool,
            success=False,
            turn_id=str(turn),
            error=ToolError(
                message=f"{tool} was denied: {why}. Nobody can be asked.", code="denied"
            ),
        ),
    ]


def end(turn: int) -> Event:
    """The end of a turn."""
    return AssistantTurnEnd(turn_id=str(turn), model=MODEL)


NUDGE = UserMessage(
    content="Go on.", source="autopilot", agent_mode="autopilot", is_autopilot_continuation=True
)


def tidy_run(*, prompt: str = "Tidy up.", answer: str = "All tidy.") -> list[Event]:
    """Read, a command that is denied, a reply without calls, a nudge, done."""
    read = {"file_path": "a.py"}
    shell = {"command": "rm -rf build"}
    done = {"summary": answer}
    return [
        *start(replace(SPEC, prompt=prompt)),
        *reply(0, "I look first.", ("c1", "Read", read)),
        *ok("c1", "Read", read, "1\timport os", 0),
        end(0),
        *reply(1, "", ("c2", "Bash", shell)),
        *denied("c2", "Bash", shell, 1),
        end(1),
        *reply(2, "It seems fine."),
        end(2),
        NUDGE,
        *reply(3, "", ("c3", "task_complete", done)),
        *ok("c3", "task_complete", done, "The task is marked complete.", 3),
        SessionTaskComplete(summary=answer),
        end(3),
    ]


def result_of(records: list[Record], ending: Ending | None = None, **extra: Any) -> dict[str, Any]:
    """The result of a run with these records, a success unless told otherwise."""
    state = fold(records)
    ended = ending or Ending(subtype="success")
    result = build_result(state, ended, session_id=SESSION_ID, uuid="result-1", **extra)
    return result_json(result)


def write_session(home: Path, events: list[Event], *, finished: bool = True) -> Path:
    """A session folder that holds these events, the way a run leaves it."""
    folder = home / "session-state" / SESSION_ID
    (folder / "files").mkdir(parents=True)
    records = stamped(events)
    lines, prev = [], None
    for record in records:
        if record.seq is None:
            continue
        line = json.dumps({**to_json(record), "prev": prev})
        prev = hashlib.sha256(line.encode()).hexdigest()
        lines.append(line + "\n")
    (folder / "events.jsonl").write_text("".join(lines))
    (folder / "lock").touch()
    (folder / "workspace.yaml").write_text(
        f"id: {SESSION_ID}\ncwd: /src\nname: tidy\ncreated_at: '2026-01-02T03:04:05.000Z'\n"
    )
    if finished:
        (folder / "result.json").write_text(json.dumps(result_of(records)))
    return folder


IDLE = SessionIdle()
