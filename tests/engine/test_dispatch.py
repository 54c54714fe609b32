"""Tool calls over fakes: checked, permitted, run, and answered exactly once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.core.events import (
    ErrorCode,
    PermissionCompleted,
    PermissionRequested,
    ToolContent,
    ToolError,
    ToolExecutionComplete,
    ToolExecutionPartialResult,
    ToolExecutionProgress,
    ToolExecutionStart,
)
from runner.core.messages import ToolCall, ToolResult
from runner.core.spec import LimitsSpec
from runner.ports import JournalError, ToolContext, ToolDenied, ToolFailure, ToolOutput
from tests.fakes import FakeTool, Work, barrier_work, call, done, reply
from tests.logs import SENTENCES, task
from tests.stage import Stage, line_of, play_out, set_of_tools, set_stage
from tests.virtual_time import run_virtual

START, COMPLETE = "tool.execution_start", "tool.execution_complete"


def tool(work: Work, **fields: Any) -> FakeTool:
    return FakeTool(**{"name": "Bash", "kind": "shell", "work": work, **fields})


def tool_lines(stage: Stage) -> list[tuple[str, str | None]]:
    """The tool events on the log, control calls left out."""
    lines = [line_of(record) for record in stage.journal.records]
    return [line for line in lines if line[0] in (START, COMPLETE) and "task" not in str(line[1])]


def outcome_of(work: Work, *, spec: Any = None, files_dir: Path = Path("/nowhere")) -> Any:
    """The outcome of one call of a tool that does this work; the run goes on after it."""
    stage = set_stage(
        [reply("", call("Bash")), done()], spec=spec, tools=(tool(work),), files_dir=files_dir
    )
    play_out(stage)
    assert (stage.ending and stage.ending.subtype, len(stage.model.requests)) == ("success", 2)
    return stage.events(ToolExecutionComplete)[0]


def refusal_of(asked: ToolCall, **spec: Any) -> tuple[ErrorCode, str]:
    """Code and message of a call that must not run."""
    tools = set_of_tools()
    stage = play_out(set_stage([reply("", asked), done()], spec=task(**spec), tools=tools))
    outcome = stage.events(ToolExecutionComplete)[0]
    assert [t.ran for t in tools] == [[]] * len(tools)
    assert tool_lines(stage) == [(START, asked.id), (COMPLETE, asked.id)]
    return outcome.error.code, outcome.error.message


# -- together and apart ----------------------------------------------------------------------


def test_reading_calls_of_one_reply_run_together() -> None:
    """Two calls that wait for each other both finish."""
    meet = barrier_work(2)
    reading = tuple(tool(meet, name=name, read_only=True, kind="read") for name in ("Read", "Glob"))
    answers = [reply("", call("Read"), call("Glob")), done()]
    stage = play_out(set_stage(answers, tools=reading))
    assert tool_lines(stage)[:2] == [(START, "Read-1"), (START, "Glob-1")]
    assert [e.success for e in stage.events(ToolExecutionComplete)] == [True, True, True]


def test_calls_that_may_change_something_never_overlap() -> None:
    """One ends before the next begins, in the order asked, reading ones beside them too."""
    marks: list[str] = []

    async def mark(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        marks.append(f"begin {arguments['n']}")
        await asyncio.sleep(1)
        marks.append(f"end {arguments['n']}")
        return ToolOutput(content="ok")

    tools = (tool(mark), tool(mark, name="Read", read_only=True, kind="read"))
    names = ("Bash", "Bash", "Read", "Bash")
    calls = [call(name, f"id-{n}", n=n) for n, name in enumerate(names)]
    play_out(set_stage([reply("", *calls), done()], tools=tools))
    assert marks == [f"{edge} {n}" for n in range(4) for edge in ("begin", "end")]


def test_results_are_sent_in_the_order_asked() -> None:
    """The slow first call comes first in the next request, and second on the log."""

    async def slow(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        await asyncio.sleep(int(arguments["s"]))
        return ToolOutput(content=arguments["s"])

    calls = [call("Read", f"id-{s}", s=s) for s in ("3", "1", "2")]
    reading = tool(slow, name="Read", read_only=True, kind="read")
    stage = play_out(set_stage([reply("", *calls), done()], tools=(reading,)))
    assert stage.model.requests[1].messages[2:] == tuple(
        ToolResult(call_id=f"id-{s}", name="Read", content=s) for s in ("3", "1", "2")
    )
    assert [call_id for kind, call_id in tool_lines(stage) if kind == COMPLETE] == [
        "id-1",
        "id-2",
        "id-3",
    ]


@pytest.mark.parametrize("after_s", [0.0, 1.5])
def test_a_cancelled_batch_gives_each_call_one_start_and_one_outcome(after_s: float) -> None:
    """What had finished stays finished, and the rest is cancelled, also before it began."""

    async def work(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        await asyncio.sleep(int(arguments["s"]))
        return ToolOutput(content="ok")

    calls = [call("Read", f"id-{s}", s=s) for s in ("1", "2", "3")]
    last = call("Edit", file_path="a")
    reading = tool(work, name="Read", read_only=True, kind="read")
    stage = set_stage([reply("", *calls, last)], tools=(reading, *set_of_tools()[2:]))

    async def run() -> None:
        running = asyncio.current_task()
        assert running is not None
        stage.interruption.cause = "SIGTERM"
        asyncio.get_running_loop().call_later(after_s, running.cancel)
        await stage.run()

    run_virtual(run())
    codes = {e.tool_call_id: e.error and e.error.code for e in stage.events(ToolExecutionComplete)}
    assert codes == {
        "id-1": None if after_s else "cancelled",
        "id-2": "cancelled",
        "id-3": "cancelled",
        "Edit-1": "cancelled",
    }
    assert sorted(tool_lines(stage), key=str) == sorted(
        ((kind, each.id) for each in (*calls, last) for kind in (START, COMPLETE)), key=str
    )


# -- calls that do not run -------------------------------------------------------------------


def test_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    """The control tools are among them."""
    assert refusal_of(call("Nope")) == (
        "unknown_tool",
        "there is no tool `Nope`; the tools are Bash, Edit, Glob, Read, TaskCreate, "
        "task_blocked, task_complete",
    )


def test_a_tool_that_was_not_offered_is_unknown() -> None:
    """A built-in tool that the spec leaves out does not run."""
    tools = set_of_tools()
    stage = set_stage([reply("", call("Bash")), done()], tools=tools)
    stage.engine.offered = stage.engine.offered[:1]
    play_out(stage)
    assert stage.events(ToolExecutionComplete)[0].error == ToolError(
        code="unknown_tool", message="there is no tool `Bash`; the tools are Read"
    )


def test_unreadable_arguments_are_answered_with_what_is_wrong() -> None:
    """The reader's words are the result."""
    cut = ToolCall(id="1", name="Bash", arguments={}, problem="the JSON is cut off")
    assert refusal_of(cut) == ("invalid_arguments", "the JSON is cut off")


def test_arguments_that_do_not_fit_are_answered_with_the_place() -> None:
    """The path and the problem are named; a missing one has no path."""
    wrong = refusal_of(call("Edit", file_path=1))
    missing = refusal_of(call("Edit"))
    assert (wrong, missing) == (
        ("invalid_arguments", "Edit: file_path: 1 is not of type 'string'"),
        ("invalid_arguments", "Edit: arguments: 'file_path' is a required property"),
    )


def test_a_denied_tool_is_denied_and_not_unknown() -> None:
    """The rule is named, decision and denial are recorded, although it was not offered."""
    stage = set_stage([reply("", call("Bash")), done()], spec=task(disallowed_tools=("Bash",)))
    play_out(stage)
    (asked,), (decided,) = stage.events(PermissionRequested), stage.events(PermissionCompleted)
    assert (asked.permission_request["kind"], asked.permission_request["toolCallId"]) == (
        "shell",
        "Bash-1",
    )
    assert decided == PermissionCompleted(
        request_id=asked.request_id,
        tool_call_id="Bash-1",
        result={"kind": "denied-by-rules", "rules": [{"kind": "shell", "argument": "Bash"}]},
        reason="rule `Bash` denies it",
    )
    assert stage.events(ToolExecutionComplete)[0].error == ToolError(
        code="denied", message="Bash was denied: rule `Bash` denies it"
    )
    assert stage.result is not None
    assert [denial["tool_use_id"] for denial in stage.result["permission_denials"]] == ["Bash-1"]


def test_a_call_no_rule_allows_is_denied() -> None:
    """Nobody can be asked in a headless run."""
    code, message = refusal_of(call("Bash"), permission_mode="default")
    assert (code, message.partition(";")[0]) == (
        "denied",
        "Bash was denied: no rule allows it in mode default",
    )


@pytest.mark.parametrize(
    ("name", "spec", "decisions"),
    [
        ("Read", {}, 0),
        ("TaskCreate", {}, 0),
        ("Read", {"allowed_tools": ("Read",), "permission_mode": "default"}, 0),
        ("Bash", {}, 1),
        ("Bash", {"allowed_tools": ("Bash",), "permission_mode": "default"}, 1),
    ],
)
def test_a_decision_is_recorded_when_there_was_something_to_decide(
    name: str, spec: dict[str, Any], decisions: int
) -> None:
    """Reading inside the roots needs none; a shell always does."""
    stage = play_out(set_stage([reply("", call(name)), done()], spec=task(**spec)))
    assert len(stage.events(PermissionCompleted)) == decisions
    assert stage.events(ToolExecutionComplete)[0].success


# -- what comes of a run ---------------------------------------------------------------------


async def refuse_roots(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    raise ToolDenied("/etc is outside the workspace")


async def fail(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    raise ToolFailure("no such file")


async def crash(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    raise KeyError("x")


async def own_timeout(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    raise TimeoutError("connect timed out")


async def hang(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def report_failure(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content="exit code 1", is_error=True)


@pytest.mark.parametrize(
    ("work", "code", "message"),
    [
        (fail, "failed", "no such file"),
        (crash, "failed", "Bash failed inside the runner: KeyError: 'x'"),
        (own_timeout, "failed", "Bash failed inside the runner: TimeoutError: connect timed out"),
        (hang, "timeout", "Bash took longer than 600 s and was stopped"),
        (report_failure, "failed", "exit code 1"),
        (refuse_roots, "denied", "Bash was denied: /etc is outside the workspace"),
    ],
)
def test_a_failing_tool_is_an_error_result_and_the_run_goes_on(
    work: Work, code: ErrorCode, message: str
) -> None:
    """The model reads what went wrong, whatever it was."""
    outcome = outcome_of(work)
    assert (outcome.success, outcome.error) == (False, ToolError(code=code, message=message))


def test_reaching_outside_the_roots_is_a_denial() -> None:
    """Decision and denial are recorded when the tool itself refuses."""
    stage = set_stage([reply("", call("Bash")), done()], tools=(tool(refuse_roots),))
    play_out(stage)
    assert stage.events(PermissionCompleted)[-1].result == {
        "kind": "denied-by-rules",
        "rules": [{"kind": "shell", "argument": "workspace roots"}],
    }
    assert len(stage.state.denials) == 1


def test_an_outcome_has_what_the_model_and_what_people_see() -> None:
    """Content and details are kept apart, with the time it took."""
    stage = set_stage([reply("", call("Bash")), done()])

    async def work(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        stage.journal.clock.tick(0.25)
        return ToolOutput(content="edited", details="- a\n+ b")

    stage.engine.tools = {"Bash": tool(work)}
    play_out(stage)
    assert stage.events(ToolExecutionComplete)[0] == ToolExecutionComplete(
        tool_call_id="Bash-1",
        tool_name="Bash",
        success=True,
        turn_id="0",
        result=ToolContent(content="edited", detailed_content="- a\n+ b"),
        duration_ms=250,
    )


def test_a_tool_gets_its_limits_and_an_id_of_ours() -> None:
    """The id is turn and position, not the model's text."""
    seen: list[tuple[str, float, int]] = []

    async def look(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        seen.append((context.call_id, context.timeout_s, context.max_output_bytes))
        return ToolOutput(content="ok")

    spec = task(limits=LimitsSpec(tool=7.0, max_tool_output_bytes=99))
    calls = [call("Bash", "../../etc"), call("Bash", "b")]
    play_out(set_stage([reply("", *calls), done()], spec=spec, tools=(tool(look),)))
    assert seen == [("0-0", 7.0, 99), ("0-1", 7.0, 99)]


@pytest.mark.parametrize("is_error", [True, False])
def test_long_output_is_cut_for_the_model(is_error: bool) -> None:
    """Head and tail fit into the limit, good or bad."""

    async def shout(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(content="x" * 1000, is_error=is_error)

    outcome = outcome_of(shout, spec=task(limits=LimitsSpec(max_tool_output_bytes=100)))
    text = outcome.error.message if is_error else outcome.result.content
    assert len(text) <= 100
    assert "bytes left out" in text


def test_a_spilled_output_gets_its_lasting_name(tmp_path: Path) -> None:
    """File, event and text agree on `files/<sha256>`."""

    async def spill(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        spilled = context.spill_dir / "tmp-1"
        spilled.write_bytes(b"everything")
        return ToolOutput(content=f"cut; see {spilled}", output_file=str(spilled))

    outcome = outcome_of(spill, files_dir=tmp_path)
    digest = hashlib.sha256(b"everything").hexdigest()
    assert outcome.output_file == f"files/{digest}"
    assert outcome.result.content == f"cut; see {tmp_path / digest}"
    assert [path.name for path in tmp_path.iterdir()] == [digest]


def test_a_spilled_output_that_is_gone_is_the_tools_failure(tmp_path: Path) -> None:
    """The run goes on when the file a tool named is not there."""

    async def spill(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(content="cut", output_file=str(tmp_path / "gone"))

    assert "FileNotFoundError" in outcome_of(spill, files_dir=tmp_path).error.message


def test_progress_is_shown_and_not_kept() -> None:
    """Pieces of output, and how far a tool is, are on the stream with their call, and not on the
    log."""

    async def talk(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        context.on_progress("half way")
        context.on_status("1 of 2")
        return ToolOutput(content="ok")

    stage = play_out(set_stage([reply("", call("Bash")), done()], tools=(tool(talk),)))
    assert stage.events(ToolExecutionPartialResult) == [
        ToolExecutionPartialResult(tool_call_id="Bash-1", partial_output="half way")
    ]
    assert stage.events(ToolExecutionProgress) == [
        ToolExecutionProgress(tool_call_id="Bash-1", progress_message="1 of 2")
    ]
    assert not {"tool.execution_partial_result", "tool.execution_progress"} & set(stage.types)


# -- a log that cannot be written ------------------------------------------------------------


def test_a_broken_log_inside_a_tool_ends_the_run() -> None:
    """It is no result of the tool when showing its progress fails with the log."""

    async def talk(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        raise JournalError("no space left on device")

    stage = set_stage([reply("", call("Bash"))], tools=(tool(talk),))
    with pytest.raises(JournalError, match="no space left"):
        run_virtual(stage.run())
    assert stage.events(ToolExecutionComplete) == []


def test_a_broken_log_stops_the_calls_that_run_beside() -> None:
    """The other calls of the batch are cancelled when an outcome cannot be written."""
    stopped: list[str] = []

    async def work(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            await asyncio.sleep(int(arguments["s"]))
        except asyncio.CancelledError:
            stopped.append(arguments["s"])
            raise
        stage.journal.breaks_at = 0
        return ToolOutput(content="ok")

    calls = [call("Read", f"id-{s}", s=s) for s in ("1", "20", "30")]
    reading = tool(work, name="Read", read_only=True, kind="read")
    stage = set_stage([reply("", *calls)], tools=(reading,))
    with pytest.raises(JournalError, match="no space left"):
        run_virtual(stage.run())
    starts = [e.tool_call_id for e in stage.events(ToolExecutionStart)]
    assert (sorted(stopped), starts) == (["20", "30"], ["id-1", "id-20", "id-30"])


def test_the_sentence_for_a_cancelled_call_is_the_recorded_one() -> None:
    """The model would read the sentence of the log."""
    stage = set_stage([reply("", call("Bash"))], spec=task(timeout=5.0), tools=(tool(hang),))
    play_out(stage, deadline_s=5.0)
    error = ToolError(code="cancelled", message=SENTENCES["cancelled"])
    assert [e.error for e in stage.events(ToolExecutionComplete)] == [error]
