"""What a kill left open is closed: charged, judged by the file's hash, doubted, or run again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runner.core.events import (
    AssistantTurnEnd,
    AssistantTurnStart,
    FileEffect,
    Persisted,
    SessionUsageCheckpoint,
    ToolContent,
    ToolError,
    ToolExecutionComplete,
    ToolExecutionStart,
)
from runner.core.messages import Assistant, ToolCall, ToolResult
from runner.core.policy import next_step
from runner.core.steps import Finish
from runner.engine.loop import abort, wind_down
from runner.engine.recover import recover
from runner.ports import Tool, ToolContext, ToolOutput
from tests.fakes import FakeTool, call, done, reply
from tests.logs import MODEL, SENTENCES, task
from tests.stage import Stage, go_on, play_out, set_of_tools, set_stage
from tests.tools.bench import Bench

READ, GLOB, BASH = call("Read"), call("Glob"), call("Bash")


def killed_at(stage: Stage, event: type[Persisted], number: int = 1) -> int:
    """The line after which the kill comes: the `number`th of its kind is the last."""
    lines = [n for n, r in enumerate(stage.journal.records, 1) if isinstance(r.event, event)]
    return lines[number - 1]


def finish(stage: Stage) -> tuple[ToolCall, ...]:
    """Recover and run to the result; the calls whose outcome is unknown."""
    unknown = asyncio.run(recover(stage.engine))
    play_out(stage)
    return unknown


def outcomes(stage: Stage) -> dict[str, ToolContent | ToolError | None]:
    """What each call came to after the resume."""
    return {
        e.tool_call_id: e.result or e.error
        for e in stage.events(ToolExecutionComplete)
        if e.tool_name not in ("task_complete",)
    }


# -- model calls -----------------------------------------------------------------------------


def test_a_model_call_in_flight_is_charged_as_reserved() -> None:
    """The reservation is spent, its turn is closed, and the question is asked anew."""
    played = play_out(set_stage([done()], spec=task(max_budget_usd=Decimal(1))))
    stage = go_on(played, lines=killed_at(played, AssistantTurnStart), answers=[done("again")])
    (turn,) = [e for e in events(played) if isinstance(e, AssistantTurnStart)]
    assert turn.reserved_cost_usd > 0
    (charge,) = stage.events(SessionUsageCheckpoint)
    assert (charge.cost_usd, charge.total_cost_usd, charge.basis, charge.model) == (
        turn.reserved_cost_usd,
        turn.reserved_cost_usd,
        "reserved",
        MODEL,
    )
    assert finish(stage) == ()
    assert [e.turn_id for e in stage.events(AssistantTurnEnd)] == ["0", "1"]
    assert stage.state.ledger.spent_usd > turn.reserved_cost_usd
    assert stage.state.ledger.reserved == {}


def test_a_call_in_flight_belongs_to_the_model_it_was_sent_to() -> None:
    """The charge and the turn name the old model when the session goes on with another."""
    played = play_out(set_stage([done()], spec=task(max_budget_usd=Decimal(1))))
    stage = go_on(played, lines=killed_at(played, AssistantTurnStart), spec=task(model="other"))
    (charge,), (end,) = stage.events(SessionUsageCheckpoint), stage.events(AssistantTurnEnd)
    assert (charge.model, charge.basis, end.model) == (MODEL, "reserved", MODEL)


def test_a_call_that_was_charged_is_not_charged_again() -> None:
    """A reply that was paid and then lost costs what it cost."""
    played = play_out(set_stage([done()]))
    stage = go_on(played, lines=killed_at(played, SessionUsageCheckpoint), answers=[done()])
    assert (stage.events(SessionUsageCheckpoint), len(stage.events(AssistantTurnEnd))) == ([], 1)
    finish(stage)
    assert stage.state.ledger.models[MODEL].calls == 2


def test_a_call_without_a_price_costs_nothing_and_is_on_the_log() -> None:
    """Its checkpoint says so when nothing is known of its price."""
    played = play_out(set_stage([done()], price=None))
    stage = go_on(played, lines=killed_at(played, AssistantTurnStart))
    (charge,) = stage.events(SessionUsageCheckpoint)
    assert (charge.cost_usd, charge.basis) == (0, "unpriced")


def test_a_resumed_run_that_cannot_start_has_paid_for_the_call_in_flight() -> None:
    """The bill is whole when the run stops before anything else could be looked at."""
    played = play_out(set_stage([done()], spec=task(max_budget_usd=Decimal(1))))
    stage = go_on(played, lines=killed_at(played, AssistantTurnStart))
    abort(stage.engine.recorder, "SIGTERM")
    wind_down(stage.engine.recorder)
    (turn,) = [e for e in events(played) if isinstance(e, AssistantTurnStart)]
    assert stage.state.ledger.spent_usd == turn.reserved_cost_usd


def events(stage: Stage) -> list[Persisted]:
    return [record.event for record in stage.journal.records]  # type: ignore[misc]


# -- calls with an effect --------------------------------------------------------------------


def test_a_command_that_had_begun_is_doubted_and_never_run_again() -> None:
    """The model is told, the call has one outcome, and what came after it in the reply runs."""
    answers = [reply("", BASH, call("Edit", file_path="a")), done()]
    played = play_out(set_stage(answers))
    tools = set_of_tools()
    stage = go_on(
        played, lines=killed_at(played, ToolExecutionStart), answers=[done()], tools=tools
    )
    assert finish(stage) == (BASH,)
    doubt = ToolError(message=SENTENCES["interrupted"], code="interrupted")
    assert outcomes(stage) == {"Bash-1": doubt, "Edit-1": ToolContent(content="ok")}
    assert [len(tool.ran) for tool in tools if tool.name in ("Bash", "Edit")] == [1, 0]
    assert stage.ending is not None
    assert stage.ending.subtype == "success"
    (request,) = stage.model.requests
    told = [m for m in request.messages if isinstance(m, ToolResult)]
    assert [(m.call_id, m.is_error) for m in told] == [("Bash-1", True), ("Edit-1", False)]


def test_a_command_that_had_not_begun_runs_once() -> None:
    """A call without a start on the log had no effect: it is simply run."""
    played = play_out(set_stage([reply("", BASH), done()]))
    tools = set_of_tools()
    line = killed_at(played, ToolExecutionStart) - 1
    stage = go_on(played, lines=line, answers=[done()], tools=tools)
    assert finish(stage) == ()
    assert sum(len(tool.ran) for tool in tools) == 1
    assert outcomes(stage) == {"Bash-1": ToolContent(content="ok")}


def test_reads_run_again_without_a_second_start() -> None:
    """Of two that ran together, the one without an outcome is run again, and only that one."""
    played = play_out(set_stage([reply("", READ, GLOB), done()]))
    tools = set_of_tools()
    line = killed_at(played, ToolExecutionComplete)
    stage = go_on(played, lines=line, answers=[done()], tools=tools)
    assert finish(stage) == ()
    assert [tool.name for tool in tools if tool.ran] == ["Glob"]
    assert [e.tool_name for e in stage.events(ToolExecutionStart)] == ["task_complete"]
    assert outcomes(stage) == {"Glob-1": ToolContent(content="ok")}


def test_a_tool_that_no_longer_counts_as_reading_is_doubted() -> None:
    """What is not known to be harmless is not repeated."""
    played = play_out(set_stage([reply("", call("TaskCreate")), done()]))
    stage = go_on(played, lines=killed_at(played, ToolExecutionStart), answers=[done()])
    assert [unknown.name for unknown in finish(stage)] == ["TaskCreate"]


def test_nothing_is_doubted_twice() -> None:
    """A second kill, right after the doubt was recorded, leaves nothing open."""
    played = play_out(set_stage([reply("", BASH), done()]))
    first = go_on(played, lines=killed_at(played, ToolExecutionStart), answers=[done()])
    finish(first)
    doubted = killed_at(first, ToolExecutionComplete)
    second = go_on(first, lines=doubted, answers=[done()])
    assert finish(second) == ()
    assert outcomes(second) == {}


@pytest.mark.parametrize("cut", range(5))
def test_five_calls_of_every_kind_have_one_result_each_wherever_the_kill_came(cut: int) -> None:
    """The history holds them in the order asked, those with an outcome as they were."""
    calls = (READ, GLOB, call("Edit", file_path="a"), BASH, call("TaskCreate"))
    played = play_out(set_stage([reply("", *calls), done()]))
    line = killed_at(played, ToolExecutionComplete, cut + 1)
    stage = go_on(played, lines=line, answers=[done()])
    finish(stage)
    before = [e.tool_call_id for e in events(played)[:line] if isinstance(e, ToolExecutionComplete)]
    assert [key for key in outcomes(stage) if key in before] == []
    (request,) = stage.model.requests
    said, *results = request.messages[1:-1]
    assert isinstance(said, Assistant)
    assert [m.call_id for m in results if isinstance(m, ToolResult)] == [c.id for c in calls]
    assert len(results) == len(calls)


# -- files, with the real tools --------------------------------------------------------------


def files(tmp_path: Path) -> Bench:
    """Real tools over a real folder, fresh as after a start of the process."""
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    (tmp_path / "spill").mkdir(exist_ok=True)
    return Bench(workspace=folder.resolve(), spill_dir=tmp_path / "spill")


def built(bench: Bench) -> tuple[Tool, ...]:
    return tuple(bench.tools.values())


WRITE = call("Write", file_path="a.txt", content="new\n")
EDIT = call("Edit", file_path="a.txt", old_string="one", new_string="two")
LOOK = call("Read", file_path="a.txt")


def killed_in(tmp_path: Path, asked: ToolCall) -> Stage:
    """A real run that read the file, then made this call; `go_on` cuts it where it began."""
    answers = [reply("", LOOK), reply("", asked), done()]
    return play_out(set_stage(answers, tools=built(files(tmp_path)), files_dir=tmp_path))


@pytest.mark.parametrize("asked", [WRITE, EDIT], ids=lambda asked: asked.name)
def test_a_change_that_was_made_is_not_made_again(tmp_path: Path, asked: ToolCall) -> None:
    """The file has the announced hash: the call is done, and the file is known as it is."""
    bench = files(tmp_path)
    target = bench.put("a.txt", "one\n")
    played = killed_in(tmp_path, asked)
    changed = target.read_bytes()
    stat = target.stat()
    more = call("Edit", "more", file_path="a.txt", old_string="\n", new_string="!\n")
    stage = go_on(
        played,
        lines=killed_at(played, ToolExecutionStart, 2),
        answers=[reply("", more), done()],
        tools=built(files(tmp_path)),
    )
    assert asyncio.run(recover(stage.engine)) == ()
    applied = SENTENCES["applied"].replace("{path}", str(target))
    assert outcomes(stage) == {asked.id: ToolContent(content=applied)}
    assert (target.read_bytes(), target.stat().st_ino) == (changed, stat.st_ino)
    play_out(stage)
    assert target.read_bytes() == changed.replace(b"\n", b"!\n")


@pytest.mark.parametrize("asked", [WRITE, EDIT], ids=lambda asked: asked.name)
def test_a_change_that_was_not_made_is_made_once(tmp_path: Path, asked: ToolCall) -> None:
    """The file is as it was before the call: the loop runs it, without a second start."""
    bench = files(tmp_path)
    target = bench.put("a.txt", "one\n")
    played = killed_in(tmp_path, asked)
    changed = target.read_bytes()
    target.write_text("one\n")
    stage = go_on(
        played,
        lines=killed_at(played, ToolExecutionStart, 2),
        answers=[done()],
        tools=built(files(tmp_path)),
    )
    assert finish(stage) == ()
    assert target.read_bytes() == changed
    assert [e.tool_name for e in stage.events(ToolExecutionStart)] == ["task_complete"]
    assert [isinstance(outcome, ToolContent) for outcome in outcomes(stage).values()] == [True]


def test_a_new_file_that_was_not_written_is_written_once(tmp_path: Path) -> None:
    """There was no file and there is none: Write runs."""
    played = play_out(
        set_stage([reply("", WRITE), done()], tools=built(files(tmp_path)), files_dir=tmp_path)
    )
    target = tmp_path / "work" / "a.txt"
    target.unlink()
    stage = go_on(
        played,
        lines=killed_at(played, ToolExecutionStart),
        answers=[done()],
        tools=built(files(tmp_path)),
    )
    assert (finish(stage), target.read_text()) == ((), "new\n")


@pytest.mark.parametrize("asked", [WRITE, EDIT], ids=lambda asked: asked.name)
@pytest.mark.parametrize("now", ["somebody else\n", None])
def test_a_file_that_somebody_changed_meanwhile_is_left_alone(
    tmp_path: Path, asked: ToolCall, now: str | None
) -> None:
    """Neither the old content nor the new: the model is told to look, the file stays."""
    target = files(tmp_path).put("a.txt", "one\n")
    played = killed_in(tmp_path, asked)
    if now is None:
        target.unlink()
    else:
        target.write_text(now)
    stage = go_on(
        played,
        lines=killed_at(played, ToolExecutionStart, 2),
        answers=[done()],
        tools=built(files(tmp_path)),
    )
    assert finish(stage) == (asked,)
    assert outcomes(stage) == {
        asked.id: ToolError(message=SENTENCES["interrupted"], code="interrupted")
    }
    assert (target.read_text() if target.exists() else None) == now


def test_a_file_outside_the_roots_is_not_looked_at(tmp_path: Path) -> None:
    """The effect is unknown when the workspace is another one now."""
    files(tmp_path).put("a.txt", "one\n")
    played = killed_in(tmp_path, EDIT)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = Bench(workspace=elsewhere, spill_dir=tmp_path / "spill")
    line = killed_at(played, ToolExecutionStart, 2)
    stage = go_on(played, lines=line, answers=[done()], tools=built(moved))
    assert finish(stage) == (EDIT,)


def test_a_call_that_announced_no_effect_is_doubted(tmp_path: Path) -> None:
    """A change that could not be foreseen is not guessed at."""
    bench = files(tmp_path)
    bench.put("a.txt", "one\n")
    unread = play_out(set_stage([reply("", EDIT), done()], tools=built(bench), files_dir=tmp_path))
    (start,) = [e for e in events(unread) if isinstance(e, ToolExecutionStart)][:1]
    assert start.effect is None
    line = killed_at(unread, ToolExecutionStart)
    stage = go_on(unread, lines=line, answers=[done()], tools=built(files(tmp_path)))
    assert finish(stage) == (EDIT,)


def test_what_was_read_before_the_kill_may_be_changed_after_it(tmp_path: Path) -> None:
    """The hash is remembered: an unchanged file need not be read again, a changed one must."""
    bench = files(tmp_path)
    for name in ("a.txt", "b.txt"):
        bench.put(name, "one\n")
    looks = [call("Read", name, file_path=name) for name in ("a.txt", "b.txt")]
    played = play_out(
        set_stage([reply("", *looks), done()], tools=built(bench), files_dir=tmp_path)
    )
    bench.put("b.txt", "one, by somebody else\n")
    edits = [
        call("Edit", f"edit {name}", file_path=name, old_string="one", new_string="two")
        for name in ("a.txt", "b.txt")
    ]
    line = killed_at(played, AssistantTurnEnd)
    answers = [reply("", *edits), done()]
    stage = go_on(played, lines=line, answers=answers, tools=built(files(tmp_path)))
    finish(stage)
    fine = [isinstance(outcome, ToolContent) for outcome in outcomes(stage).values()]
    assert fine == [True, False]
    texts = [(tmp_path / "work" / name).read_text() for name in ("a.txt", "b.txt")]
    assert texts == ["two\n", "one, by somebody else\n"]


def test_the_announced_effect_is_that_of_the_call(tmp_path: Path) -> None:
    """The start of a change names the file and both hashes; the outcome names the second."""
    files(tmp_path).put("a.txt", "one\n")
    played = killed_in(tmp_path, EDIT)
    start = [e for e in events(played) if isinstance(e, ToolExecutionStart)][1]
    outcome = [e for e in events(played) if isinstance(e, ToolExecutionComplete)][1]
    one = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806"
    two = "27dd8ed44a83ff94d557f9fd0412ed5a8cbca69ea04922d88c01184a07300a5a"
    path = str((tmp_path / "work" / "a.txt").resolve())
    assert start.effect == FileEffect(path=path, before=one, after=two)
    assert outcome.file is not None
    assert (outcome.file.path, outcome.file.sha256) == (path, two)


# -- memory ----------------------------------------------------------------------------------


def task_call(subject: str) -> ToolCall:
    return call("TaskCreate", subject, subject=subject)


def test_the_list_of_tasks_is_there_again(tmp_path: Path) -> None:
    """Tasks of closed turns and of the open one come back, changes too; the failed ones do not."""
    change = call("TaskUpdate", taskId="1", status="completed")
    nonsense = call("TaskUpdate", "nonsense", taskId="9", status="completed")
    answers = [
        reply("", task_call("look"), change, nonsense),
        reply("", task_call("fix"), call("Bash", command="true")),
        done(),
    ]
    played = play_out(set_stage(answers, tools=built(files(tmp_path)), files_dir=tmp_path))
    line = next(
        number
        for number, event in enumerate(events(played), 1)
        if isinstance(event, ToolExecutionStart) and event.tool_name == "Bash"
    )
    stage = go_on(
        played,
        lines=line,
        answers=[reply("", task_call("test")), done()],
        tools=built(files(tmp_path)),
    )
    finish(stage)
    added = outcomes(stage)["test"]
    assert added == ToolContent(content="Task 3 added.\n1. [x] look\n2. [ ] fix\n3. [ ] test")


def test_bringing_memory_back_is_no_call_of_the_run() -> None:
    """Nothing is recorded and nobody else is run for it."""
    played = play_out(set_stage([reply("", call("TaskCreate"), READ), done()]))
    tools = set_of_tools()
    line = killed_at(played, AssistantTurnEnd)
    stage = go_on(played, lines=line, answers=[done()], tools=tools)
    finish(stage)
    assert outcomes(stage) == {}
    assert [tool.name for tool in tools if tool.ran] == ["TaskCreate"]


# -- stopping before anything can be looked at -----------------------------------------------


def test_a_resumed_run_that_stops_at_once_leaves_no_doubt_unsaid() -> None:
    """What had begun is answered as unknown, what had not as cancelled; nothing runs."""
    ran: list[str] = []

    async def note(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        ran.append(context.call_id)
        return ToolOutput(content="ok")

    tools = (FakeTool(name="Bash", kind="shell", work=note),)
    calls = (call("Bash", "first"), call("Bash", "second"))
    played = play_out(set_stage([reply("", *calls), done()], tools=tools))
    ran.clear()
    stage = go_on(played, lines=killed_at(played, ToolExecutionStart))
    abort(stage.engine.recorder, "SIGTERM")
    ending = wind_down(stage.engine.recorder)
    assert (ending.error_type, ran) == ("terminated", [])
    said = ToolError(message=SENTENCES["cancelled"], code="cancelled")
    assert outcomes(stage) == {"first": said, "second": said}
    assert isinstance(next_step(stage.state), Finish)
