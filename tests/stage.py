"""One run over fakes: from a spec and a list of answers to its log, its stream and its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.core import wire
from runner.core.endings import Ending
from runner.core.events import (
    PriceListing,
    Record,
    RunnerPreflight,
    RunnerSpec,
    SessionResume,
    SystemMessage,
    ToolListing,
)
from runner.core.fold import fold
from runner.core.messages import CONTROL_TOOLS, OUTPUT_TOOL, ToolSpec
from runner.core.spec import TaskSpec
from runner.core.state import State
from runner.engine import finish, loop
from runner.engine.engine import Engine
from runner.engine.loop import Interruption
from runner.engine.recorder import Recorder
from runner.engine.recover import close_model_call
from runner.ports import Retry, Tool
from tests.fakes import Answer, FakeModel, FakeTool, MemoryJournal, NoRetry, RecordingSink
from tests.logs import PRICE, SENTENCES, opening, task
from tests.virtual_time import run_virtual

NOWHERE = Path("/nowhere")

CONTROL_SPECS = tuple(
    ToolSpec(name=name, description=name, input_schema={"type": "object"})
    for name in sorted(CONTROL_TOOLS - {OUTPUT_TOOL})
)


def set_of_tools() -> tuple[FakeTool, ...]:
    """Fresh tools of every kind; two of them only read."""
    return (
        FakeTool(name="Read", read_only=True, kind="read"),
        FakeTool(name="Glob", read_only=True, kind="read"),
        FakeTool(name="Edit", kind="write", required=("file_path",)),
        FakeTool(name="Bash", kind="shell"),
        FakeTool(name="TaskCreate"),
    )


class Stage:
    """A run before, while and after it happens. It shows as its spec, ending and types."""

    def __init__(
        self, engine: Engine, model: FakeModel, journal: MemoryJournal, sink: RecordingSink
    ) -> None:
        self.engine = engine
        self.model = model
        self.journal = journal
        self.sink = sink
        self.interruption = Interruption()
        self.ending: Ending | None = None
        self.result: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"{self.state.spec}\n{self.ending}\n{self.types}"

    @property
    def recorder(self) -> Recorder:
        """The recorder of the main loop."""
        assert isinstance(self.engine.recorder, Recorder)
        return self.engine.recorder

    @property
    def state(self) -> State:
        """The state the engine has folded."""
        return self.engine.recorder.state

    @property
    def types(self) -> list[str]:
        """The types on the log after its opening, in order."""
        return [record.event.type for record in self.journal.records[5:]]

    def events(self, cls: type) -> list[Any]:
        """The events of one class that were shown, persisted or not, in order."""
        return [r.event for r in self.sink.records if isinstance(r.event, cls)]

    async def steps(self, deadline_s: float | None = None) -> Ending:
        """The loop alone, without the result."""
        return await loop.run(self.engine, deadline_s=deadline_s, interruption=self.interruption)

    async def run(self, deadline_s: float | None = None) -> None:
        """The loop and the result."""
        self.ending = await self.steps(deadline_s)
        self.finish()

    def finish(self) -> None:
        """The result of the ending the loop came to."""
        assert self.ending is not None
        self.result = finish.record_result(
            self.recorder,
            self.ending,
            session_id="session-1",
            uuid=self.engine.new_id(),
            workspace_diff=None,
        )


def set_stage(
    answers: Iterable[Answer],
    *,
    spec: TaskSpec | None = None,
    tools: tuple[Tool, ...] | None = None,
    price: PriceListing | None = PRICE,
    retry: Retry | None = None,
    counted_tokens: int = 100,
    files_dir: Path = NOWHERE,
) -> Stage:
    """Everything a run needs, its opening recorded. Every tool is offered unless it is denied."""
    spec = spec or task()
    tools = set_of_tools() if tools is None else tools
    shown = tuple(t.spec for t in tools if t.spec.name not in spec.disallowed_tools)
    journal, sink = MemoryJournal(), RecordingSink()
    recorder = Recorder(journal=journal, sinks=(sink,))
    listed = tuple(ToolListing(name=t.name, read_only=t.read_only) for t in shown)
    for event in opening(spec, tools=listed, price=price):
        recorder.record(event)
    model = FakeModel(answers, counted_tokens=counted_tokens)
    engine = Engine(
        recorder=recorder,
        model=model,
        retry=retry or NoRetry(),
        tools={tool.spec.name: tool for tool in tools},
        offered=shown + (CONTROL_SPECS if spec.autopilot else ()),
        clock=journal.clock,
        new_id=journal.new_id,
        files_dir=files_dir,
    )
    return Stage(engine, model, journal, sink)


def go_on(
    stage: Stage,
    *,
    lines: int | None = None,
    answers: Iterable[Answer] = (),
    tools: tuple[Tool, ...] | None = None,
    spec: TaskSpec | None = None,
    carries: bool | None = None,
) -> Stage:
    """The session after a kill at this line, resumed up to where `recover` is due.

    Its sink has seen nothing of what was before. Tools that are not given are the old ones.
    """
    records = stage.journal.records[:lines]
    events = (record.event for record in stage.journal.records)
    preflight = next(event for event in events if isinstance(event, RunnerPreflight))
    resumed = spec or stage.state.need
    journal = replace(stage.journal, records=records, lines=stage.journal.lines[:lines])
    before, sink = fold(records), RecordingSink()
    recorder = Recorder(journal=journal, sinks=(sink,), state=before)
    recorder.record(
        SessionResume(
            session_id="session-1",
            resume_time=journal.clock.now(),
            event_count=len(records),
            selected_model=resumed.model,
            carries=not before.ended if carries is None else carries,
            note="Go on." if before.main.messages else "Do it.",
        )
    )
    close_model_call(recorder)
    recorder.record(RunnerSpec(spec=wire.encode(resumed), spec_hash="0" * 64, sentences=SENTENCES))
    recorder.record(preflight)
    if not before.system:
        recorder.record(SystemMessage(content="You are careful."))
    model = FakeModel(answers)
    engine = replace(stage.engine, recorder=recorder, model=model)
    if tools is not None:
        engine.tools = {tool.spec.name: tool for tool in tools}
    return Stage(engine, model, journal, sink)


def play_out(stage: Stage, deadline_s: float | None = None) -> Stage:
    """Run it to its result, in virtual time."""
    run_virtual(stage.run(deadline_s))
    return stage


def line_of(record: Record) -> tuple[str, str | None]:
    """A tool event as its type and the call it belongs to."""
    return record.event.type, getattr(record.event, "tool_call_id", None)
