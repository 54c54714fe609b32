"""Logs written by hand: the events of a run one after the other, folded as they are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from runner.core import wire
from runner.core.endings import Ending
from runner.core.events import (
    AssistantMessage,
    AssistantTurnEnd,
    AssistantTurnStart,
    ErrorCode,
    FileEffect,
    Persisted,
    PriceListing,
    Reasoning,
    RunnerPreflight,
    RunnerProtectionCheck,
    RunnerResult,
    RunnerSpec,
    RunnerVerifyComplete,
    SessionResume,
    SessionShutdown,
    SessionStart,
    SessionUsageCheckpoint,
    SystemMessage,
    ToolContent,
    ToolError,
    ToolExecutionComplete,
    ToolExecutionStart,
    ToolListing,
    ToolRequest,
    UserMessage,
    VerifyCheck,
    WindowListing,
)
from runner.core.fold import apply
from runner.core.messages import ModelReply, ToolCall, Usage
from runner.core.policy import deciding_rule, next_step
from runner.core.spec import TaskSpec
from runner.core.state import State
from runner.core.steps import AskModel, Compare, Finish, RunTools, Say, Verify
from tests.fakes import MemoryJournal

MODEL = "fake/model"
PRICE = PriceListing(
    model=MODEL,
    basis="spec",
    input_per_mtok=Decimal(1),
    output_per_mtok=Decimal(1),
    cache_read_per_mtok=Decimal(1),
    cache_write_per_mtok=Decimal(1),
)
SENTENCES = {
    "nudge": "Not yet marked complete.",
    "denied": "{tool} was denied: {reason}",
    "cancelled": "The run was stopped.",
    "not_run": "A limit was reached.",
    "interrupted": "Nobody knows what it did.",
    "applied": "{path} is changed already.",
    "task_complete": "The task is marked complete.",
    "task_blocked": "The task is marked blocked.",
    "compact": "Summarise. Mind: {focus}",
    "compacted": "Task: {task} Summary: {summary}",
}
READ_ONLY = ("Read", "Glob", "Grep")


def verified(output: str = "", exit_code: int | None = 1, attempt: int = 1) -> RunnerVerifyComplete:
    """The checks ran: the only one, `make test`, ended like this."""
    check = VerifyCheck(
        name="make test",
        passed=exit_code == 0,
        exit_code=exit_code,
        duration_ms=5,
        output=output,
    )
    return RunnerVerifyComplete(attempt=attempt, passed=check.passed, checks=(check,))


def task(**changes: Any) -> TaskSpec:
    """A spec in which everything is allowed."""
    defaults = {"name": "task", "prompt": "Do it.", "model": MODEL}
    return TaskSpec(**{**defaults, "permission_mode": "bypassPermissions", **changes})


def windows_of(spec: TaskSpec) -> tuple[WindowListing, ...]:
    """The window the spec says, as the preflight records it."""
    window = spec.compaction.window
    return () if window is None else (WindowListing(model=spec.model, tokens=window),)


def opening(
    spec: TaskSpec, *, tools: tuple[ToolListing, ...] = (), price: PriceListing | None = PRICE
) -> tuple[Persisted, ...]:
    """Everything a run records before its first turn."""
    return (
        SessionStart(
            session_id="session-1",
            copilot_version="0.1.0",
            start_time="2026-01-02T03:04:05.000Z",
            selected_model=spec.model,
        ),
        RunnerSpec(spec=wire.encode(spec), spec_hash="0" * 64, sentences=SENTENCES),
        RunnerPreflight(
            checks=(),
            tools=tools,
            sandbox="process",
            workspace="/work",
            prices=() if price is None else (price,),
            windows=windows_of(spec),
            versions={"runner": "0.1.0"},
        ),
        SystemMessage(content="You are careful."),
        UserMessage(content=spec.prompt, agent_mode="autopilot" if spec.autopilot else None),
    )


@dataclass(slots=True)
class Log:
    """A log and the state it folds to. Every method appends and returns the log itself."""

    spec: TaskSpec = field(default_factory=task)
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    state: State = field(default_factory=State)

    def __post_init__(self) -> None:
        listed = tuple(ToolListing(name=name, read_only=True) for name in READ_ONLY)
        self.add(*opening(self.spec, tools=listed))

    @property
    def rule(self) -> str:
        """The name of the rule that decides now."""
        return deciding_rule(self.state).name

    @property
    def turn_id(self) -> str:
        """The id of the open turn."""
        assert self.state.main.open_turn is not None
        return self.state.main.open_turn

    def add(self, *events: Persisted) -> Log:
        """Append these events."""
        for event in events:
            self.state = apply(self.state, self.journal.append(event))
        return self

    def by(self, agent_id: str, *events: Persisted) -> Log:
        """Append what a sub-agent recorded."""
        for event in events:
            self.state = apply(self.state, self.journal.append(event, agent_id))
        return self

    def turn(self, reserved_usd: str = "0") -> Log:
        """Open the next turn."""
        return self.add(
            AssistantTurnStart(
                turn_id=str(self.state.main.turns_started),
                model=MODEL,
                max_output_tokens=1000,
                reserved_cost_usd=Decimal(reserved_usd),
            )
        )

    def paid(self, cost_usd: str = "0", usage: Usage = Usage(input_tokens=100)) -> Log:
        """Charge the open call."""
        cost = Decimal(cost_usd)
        return self.add(
            SessionUsageCheckpoint(
                model=MODEL,
                cost_usd=cost,
                total_cost_usd=self.state.ledger.spent_usd + cost,
                basis="spec",
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
            )
        )

    def hears(self, said: ModelReply) -> Log:
        """Record the reply of the open turn."""
        requests = tuple(
            ToolRequest(tool_call_id=c.id, name=c.name, arguments=c.arguments, problem=c.problem)
            for c in said.calls
        )
        return self.add(
            AssistantMessage(
                message_id=f"message-{self.turn_id}",
                content=said.text,
                model=MODEL,
                turn_id=self.turn_id,
                finish_reason=said.finish_reason,
                tool_requests=requests,
                reasoning=tuple(
                    Reasoning(text=block.text, signature=block.signature)
                    for block in said.reasoning
                ),
            )
        )

    def reply(self, said: ModelReply, cost_usd: str = "0") -> Log:
        """A turn up to its reply: started, paid, heard."""
        return self.turn().paid(cost_usd).hears(said)

    def starts(self, call: ToolCall, effect: FileEffect | None = None) -> Log:
        """The call is about to run."""
        return self.add(
            ToolExecutionStart(
                tool_call_id=call.id,
                tool_name=call.name,
                arguments=call.arguments,
                turn_id=self.turn_id,
                effect=effect,
            )
        )

    def completes(self, call: ToolCall, code: ErrorCode | None = None) -> Log:
        """The call has run: well, or with this error code."""
        return self.add(
            ToolExecutionComplete(
                tool_call_id=call.id,
                tool_name=call.name,
                success=code is None,
                turn_id=self.turn_id,
                result=ToolContent(content="ok") if code is None else None,
                error=None if code is None else ToolError(message=code, code=code),
            )
        )

    def runs(self, *calls: ToolCall, code: ErrorCode | None = None) -> Log:
        """Start and complete these calls, one after the other."""
        for call in calls:
            self.starts(call).completes(call, code)
        return self

    def finishes(self, subtype: str = "error_max_turns", error_type: str | None = None) -> Log:
        """The part of the session is over, with this result."""
        result = {"subtype": subtype} | ({"error_type": error_type} if error_type else {})
        return self.add(
            RunnerResult(result=result),
            SessionShutdown(
                shutdown_type="routine",
                session_start_time=0,
                total_api_duration_ms=0,
                code_changes={},
                model_metrics={},
                result_subtype=subtype,
                exit_code=0,
                total_cost_usd=self.state.ledger.spent_usd,
                current_model=MODEL,
            ),
        )

    def resumes(self, note: str = "Go on.", *, carries: bool = True) -> Log:
        """The session goes on."""
        return self.add(
            SessionResume(
                session_id="session-1",
                resume_time=self.journal.clock.now(),
                event_count=len(self.journal.lines),
                selected_model=MODEL,
                carries=carries,
                note=note,
            )
        )

    def ends(self) -> Log:
        """End the open turn."""
        return self.add(AssistantTurnEnd(turn_id=self.turn_id, model=MODEL))

    def settle(self) -> Log:
        """Record what the table says, until it says something else than that."""
        while isinstance(step := next_step(self.state), Say):
            self.by(step.agent_id, *step.events) if step.agent_id else self.add(*step.events)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A run in which every tool says ok: its ending, the replies asked for, the tools run."""

    ending: Ending
    asked: int
    ran: tuple[str, ...]
    state: State


def play(log: Log, *script: ModelReply | tuple[ModelReply, str]) -> Played:
    """Perform the table's steps on a log with scripted replies, each with its price if any."""
    asked = 0
    ran: list[str] = []
    while True:
        match next_step(log.state):
            case Finish(ending=ending):
                return Played(ending=ending, asked=asked, ran=tuple(ran), state=log.state)
            case Say(events=events):
                log.add(*events)
            case RunTools(calls=calls):
                log.runs(*calls)
                ran += [call.name for call in calls]
            case Compare():
                log.add(RunnerProtectionCheck())
            case Verify(start=start):
                log.add(start, verified(exit_code=0, attempt=start.attempt))
            case AskModel():
                scripted = script[asked]
                asked += 1
                said, cost_usd = scripted if isinstance(scripted, tuple) else (scripted, "0")
                log.reply(said, cost_usd)
