"""Hooks over fakes: asked together, recorded, replayed from the log, asked again when cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from runner.core.endings import Ending
from runner.core.events import (
    Abort,
    HookEnd,
    HookStart,
    SessionError,
    SessionWarning,
    ToolExecutionComplete,
    ToolExecutionStart,
)
from runner.core.hook_answers import HookRun
from runner.core.messages import ToolResult
from runner.core.spec import CompactionSpec, HookSpec
from runner.engine import hooks
from runner.engine.engine import LEAST_S
from runner.engine.hooks import close_hooks
from runner.engine.recover import recover
from runner.ports import JournalError
from tests.engine.test_compact import FILLING, SUMMARY, TOO_LONG, reads, stage_of
from tests.fakes import Answer, call, done, reply
from tests.hooked import FakeHooks, hooks_of
from tests.logs import SENTENCES, task
from tests.stage import Stage, go_on, play_out, set_stage
from tests.virtual_time import run_virtual

BASH, READ = call("Bash"), call("Read")
NO = HookRun(exit_code=2, stderr="no")
GATES = {**hooks_of("PreToolUse", "gate", "other"), **hooks_of("PostToolUse", "after")}


def hooked(
    answers: Iterable[Answer], runs: dict[str, HookRun] | None = None, **spec: Any
) -> tuple[Stage, FakeHooks]:
    """A run whose hooks answer by their commands."""
    stage = set_stage(answers, spec=task(**spec))
    stage.engine.hooks = fake = FakeHooks(answers=runs or {})
    return stage, fake


def commands(fake: FakeHooks) -> list[str]:
    """The hooks that were run, in order."""
    return [command for command, _, _ in fake.told]


def test_hooks_of_one_event_run_together() -> None:
    """Both have begun before one has ended; the call starts after both."""
    stage, _ = hooked([reply("", BASH), done()], hooks=hooks_of("PreToolUse", "gate", "other"))
    play_out(stage)
    kinds = [t for t in stage.types if t.startswith(("hook.", "tool.execution_start"))][:5]
    assert kinds == ["hook.start"] * 2 + ["hook.end"] * 2 + ["tool.execution_start"]


def test_a_hook_has_its_own_limit_or_the_specs() -> None:
    """`timeout` of the hook, else `limits.hook`."""
    both = hooks_of("PreToolUse", HookSpec(command="own", timeout=5.0), "common")
    stage, fake = hooked([reply("", BASH), done()], hooks=both)
    play_out(stage)
    assert {command: limit for command, _, limit in fake.told} == {"own": 5.0, "common": 60.0}


def test_what_a_hook_is_told_is_cut_in_the_log_alone() -> None:
    """The hook gets all of it."""
    long = call("Bash", command="x" * 10_000)
    stage, fake = hooked([reply("", long), done()], hooks=hooks_of("PreToolUse", "gate"))
    play_out(stage)
    assert fake.told[0][1]["tool_input"] == long.arguments
    start = stage.events(HookStart)[0]
    assert len(start.input["tool_input"]["command"]) < 5_000


def test_long_commands_are_shown_short() -> None:
    """A script in the spec does not fill the log."""
    script = HookSpec(command="echo " + "x" * 1_000, args=("a",))
    stage, _ = hooked([done()], hooks=hooks_of("Stop", script))
    play_out(stage)
    assert len(stage.events(HookStart)[0].command) == 200


@pytest.mark.parametrize("broken_at", [1, 2])
def test_a_log_that_cannot_be_written_ends_the_run_at_once(broken_at: int) -> None:
    """Before the hook runs, or after."""
    stage, _ = hooked([reply("", BASH), done()], hooks=hooks_of("PreToolUse", "gate"))
    start = play_out(stage).types.index("hook.start") + 5
    again, fake = hooked([reply("", BASH), done()], hooks=hooks_of("PreToolUse", "gate"))
    again.journal.breaks_at = start + broken_at - 1
    with pytest.raises(JournalError, match="no space"):
        play_out(again)
    assert len(fake.told) == broken_at - 1


def test_after_a_word_to_stop_nothing_else_begins() -> None:
    """Of two reading calls the first one runs, the second is answered as not run."""
    stop = HookRun(exit_code=0, stdout='{"continue": false, "stopReason": "enough"}')
    both = [call("Read", "one"), call("Glob", "two")]
    stage, _ = hooked(
        [reply("", *both)], {"gate": stop}, hooks=hooks_of("PreToolUse", "gate", matcher="Glob")
    )
    play_out(stage)
    outcomes = {e.tool_call_id: e.success for e in stage.events(ToolExecutionComplete)}
    assert outcomes == {"one": True, "two": False}
    assert stage.ending is not None
    assert stage.ending.error_type == "hook_stopped"
    assert stage.ending.message == "A PreToolUse hook stopped the run: enough"


def test_a_message_for_people_is_a_warning() -> None:
    """`systemMessage`, with the hook that said it."""
    said = HookRun(exit_code=0, stdout='{"systemMessage": "look"}')
    stage, _ = hooked([done()], {"a": said}, hooks=hooks_of("Stop", "a"))
    play_out(stage)
    assert [w.message for w in stage.events(SessionWarning)] == ["Stop hook `a`: look"]


def test_what_was_printed_is_kept_unless_the_hook_hides_it() -> None:
    """`suppressOutput` leaves the answer and drops the text."""
    runs = {
        "loud": HookRun(exit_code=0, stdout="words", stderr="more"),
        "shy": HookRun(exit_code=0, stdout='{"suppressOutput": true, "reason": "x"}'),
    }
    stage, _ = hooked([done()], runs, hooks=hooks_of("Stop", "loud", "shy"))
    play_out(stage)
    assert [(e.stdout, e.stderr) for e in stage.events(HookEnd)] == [("words", "more"), ("", "")]
    assert stage.events(HookEnd)[1].output.reason == "x"


# -- killed and resumed --------------------------------------------------------------------------


def test_a_kill_at_any_line_runs_no_call_twice_and_no_answered_hook_again() -> None:
    """Every hook answers once per call, the denial holds, and the history is the same."""
    answers = [reply("", READ, BASH), reply("half"), done()]
    spec = {"hooks": {**GATES, **hooks_of("Stop", "end")}}
    runs = {"gate": HookRun(exit_code=0), "after": HookRun(exit_code=2, stderr="hm")}
    whole, _ = hooked(answers, runs, **spec)
    play_out(whole)
    history = whole.state.main.messages
    for lines in range(6, len(whole.journal.records) - 2):
        killed = whole.journal.records[:lines]
        asked = sum(r.event.type == "assistant.message" for r in killed)
        stage = go_on(whole, lines=lines, answers=answers[asked:])
        stage.engine.hooks = FakeHooks(answers=runs)
        close_hooks(stage.recorder)

        async def resume(stage: Stage = stage) -> None:
            await recover(stage.engine)
            await stage.run()

        run_virtual(resume())
        assert stage.ending == Ending(subtype="success"), lines
        events = [record.event for record in stage.journal.records]
        started = [e.tool_call_id for e in events if isinstance(e, ToolExecutionStart)]
        assert len(started) == len(set(started)), lines
        assert not stage.state.open_hooks, lines
        sound = [
            (e.hook_event_name, e.subject, e.handler)
            for e in events
            if isinstance(e, HookEnd) and e.outcome != "cancelled"
        ]
        assert len(sound) == len(set(sound)), lines
        results = [m for m in stage.state.main.messages if isinstance(m, ToolResult)]
        if not any(SENTENCES["interrupted"] in result.content for result in results):
            assert results == [m for m in history if isinstance(m, ToolResult)], lines


def test_a_hook_that_is_no_longer_in_the_spec_is_not_waited_for() -> None:
    """The spec changed between the kill and the resumption."""
    stage, _ = hooked([reply("", READ), done()], hooks=hooks_of("PostToolUse", "after"))
    play_out(stage)
    at = next(
        n for n, r in enumerate(stage.journal.records, 1) if r.event.type.endswith("n_complete")
    )
    spec = replace(stage.state.need, hooks={})
    again = play_out(go_on(stage, lines=at, answers=[done()], spec=spec))
    assert again.ending == Ending(subtype="success")


def test_a_signal_in_a_hook_is_recorded_as_no_answer() -> None:
    """The call is answered as cancelled; the hook counts as not asked."""
    stage, _ = hooked([reply("", BASH)], hooks=hooks_of("PreToolUse", "gate"))
    stage.interruption.cause = "SIGTERM"

    async def run() -> None:
        running = asyncio.current_task()
        assert running is not None
        asyncio.get_running_loop().call_later(0.5, running.cancel)
        await stage.run()

    run_virtual(run())
    assert [e.outcome for e in stage.events(HookEnd)] == ["cancelled"]
    assert stage.state.main.heard == {}
    assert stage.events(ToolExecutionComplete)[0].error.code == "cancelled"


# -- compaction, sub-agents, notes, the end ------------------------------------------------------


def test_a_hook_that_the_runner_fails_to_run_is_recorded_as_no_answer() -> None:
    """Every `hook.start` has its `hook.end`, whatever goes wrong in between."""

    class Broken(FakeHooks):
        async def run(
            self, hook: HookSpec, payload: Mapping[str, Any], timeout_s: float
        ) -> HookRun:
            raise LookupError(hook.command)

    stage, _ = hooked([done()], hooks=hooks_of("SessionStart", "a"))
    stage.engine.hooks = Broken(answers={})
    with pytest.raises(ExceptionGroup):
        run_virtual(hooks.session_start(stage.engine, "startup"))
    (end,) = stage.events(HookEnd)
    assert end.error is not None
    assert (end.outcome, end.error.message) == (
        "cancelled",
        "the runner failed before it had answered",
    )
    assert not stage.engine.recorder.state.open_hooks


def test_a_blocked_compaction_is_not_made_and_the_run_goes_on() -> None:
    """One question, one warning, no summary; the hook is told why and how."""
    stage = stage_of([*FILLING, done()], hooks=hooks_of("PreCompact", "no", matcher="auto"))
    stage.engine.hooks = fake = FakeHooks(answers={"no": NO})
    play_out(stage)
    assert stage.ending == Ending(subtype="success")
    assert [payload["trigger"] for _, payload, _ in fake.told] == ["auto"]
    assert "session.compaction_start" not in stage.types
    warnings = [w.message for w in stage.events(SessionWarning)]
    assert warnings == ["A PreCompact hook blocked the compaction: no; none is made"]


def test_a_compaction_that_is_needed_and_blocked_fails_the_request() -> None:
    """The conversation is too long, and may not be made shorter."""
    small = [reads(100, number, 400) for number in range(3)]
    stage = stage_of(
        [*small, TOO_LONG], compaction=CompactionSpec(), hooks=hooks_of("PreCompact", "no")
    )
    stage.engine.hooks = FakeHooks(answers={"no": NO})
    play_out(stage)
    assert stage.ending is not None
    assert stage.ending.error_type == "context_limit"
    assert "PreCompact hook blocked the compaction: no" in stage.ending.message


def test_a_compaction_by_hand_can_be_blocked() -> None:
    """It was all there was to do, so the run fails."""
    before = play_out(stage_of([reads(100, 0, 400), done()]))
    spec = replace(before.state.need, prompt="/compact names", hooks=hooks_of("PreCompact", "no"))
    stage = go_on(before, spec=spec)
    stage.engine.hooks = fake = FakeHooks(answers={"no": NO})
    stage.recorder.state = replace(stage.state, note="/compact names")
    play_out(stage)
    assert stage.events(SessionError)[0].error_type == "hook_stopped"
    told = fake.told[0][1]
    assert (told["custom_instructions"], told["trigger"]) == ("names", "manual")


def test_a_compaction_that_is_allowed_is_made() -> None:
    """A silent hook holds nothing up; one that stops the run does."""
    for run, made in ((HookRun(exit_code=0), True), (HookRun(stdout='{"continue": false}'), False)):
        stage = stage_of([*FILLING, SUMMARY, done()], hooks=hooks_of("PreCompact", "a"))
        stage.engine.hooks = FakeHooks(answers={"a": replace(run, exit_code=0)})
        play_out(stage)
        assert ("session.compaction_start" in stage.types) == made


def test_the_hooks_of_the_end_get_the_grace_unless_they_have_a_limit() -> None:
    """After a stop nobody gets more than half of the grace: the result is still to be written."""
    ends = hooks_of("SessionEnd", HookSpec(command="own", timeout=50.0), "common")
    for stopped, own_s, common_s in ((False, 50.0, 8.0), (True, 4.0, 4.0)):
        stage, fake = hooked([done()], hooks=ends)
        play_out(stage)
        if stopped:
            stage.engine.recorder.record(Abort(reason="remote_command", cause="SIGTERM"))
        run_virtual(hooks.session_end(stage.engine, Ending(subtype="success")))
        limits = {command: limit for command, _, limit in fake.told}
        assert limits == {"own": own_s, "common": common_s}


def test_after_a_stop_the_hooks_of_the_end_share_what_is_left_of_the_grace() -> None:
    """What the checks used up is not given again; something is left in any case."""
    ends = hooks_of("SessionEnd", "a")
    for late_s, given_s in ((2.0, 3.0), (7.0, 0.5), (60.0, LEAST_S / 2)):
        stage, fake = hooked([done()], hooks=ends)
        play_out(stage)
        stage.engine.recorder.record(Abort(reason="user_abort", cause="timeout"))

        async def end(stage: Stage = stage, late_s: float = late_s) -> None:
            stage.engine.begin_grace(late_s)
            await hooks.session_end(stage.engine, Ending(subtype="error_timeout"))

        run_virtual(end())
        assert [limit for _, _, limit in fake.told] == [pytest.approx(given_s)]
