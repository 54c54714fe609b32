"""A compaction as the engine makes it: one paid call, its facts in order, every way it can end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from runner.core.events import (
    AssistantMessageDelta,
    SessionCompactionComplete,
    SessionCompactionStart,
    SessionError,
    SessionModelChange,
    SessionUsageCheckpoint,
    SessionUsageInfo,
    SessionWarning,
    WindowListing,
)
from runner.core.messages import ModelReply, ModelRequest, Usage, User
from runner.core.spec import CompactionSpec
from runner.core.views import ClaudeView
from runner.engine.loop import Interruption
from runner.engine.recover import recover
from runner.ports import ModelError, ToolContext, ToolOutput
from tests.fakes import Answer, FakeTool, call, done, reply
from tests.logs import MODEL, PRICE, task
from tests.stage import Stage, go_on, play_out, set_stage
from tests.virtual_time import run_virtual

WINDOW = 20_000
TOO_LONG = ModelError("context_limit", "prompt is too long", status_code=400)
BUSY = ModelError("provider_unavailable", "busy")
SUMMARY = reply("All was read.")


async def long_text(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content="x" * int(arguments.get("size", 4_000)))


def reads(tokens: int, number: int, size: int = 4_000) -> ModelReply:
    """A reply that reads; the request it answers had this many tokens."""
    asked = call("Read", f"read-{number}", size=str(size))
    return reply("", asked, usage=Usage(input_tokens=tokens, output_tokens=10))


FILLING = tuple(reads(tokens, number) for number, tokens in enumerate((5_000, 11_000, 16_500)))
"""Three replies, after which a request is above the threshold."""


def stage_of(answers: Iterable[Answer], *, prompt: str = "Do it.", **changes: Any) -> Stage:
    keys = {"compaction": CompactionSpec(window=WINDOW), **changes}
    tools = (FakeTool(name="Read", read_only=True, work=long_text),)
    return set_stage(answers, spec=task(prompt=prompt, **keys), tools=tools)


def compactions(stage: Stage) -> list[tuple[str, bool, str | None]]:
    """Trigger, success and error of each."""
    ended = stage.events(SessionCompactionComplete)
    return [(event.trigger, event.success, event.error) for event in ended]


def ended(stage: Stage) -> tuple[str, str | None, int]:
    """Subtype, error type and exit code."""
    assert stage.result is not None
    return stage.result["subtype"], stage.result.get("error_type"), stage.result["exit_code"]


def test_above_the_threshold_a_summary_is_made_before_the_next_request() -> None:
    """One call of its own, paid, without a turn; the next request is shorter and has the end."""
    stage = play_out(stage_of([*FILLING, SUMMARY, done()]))
    assert compactions(stage) == [("threshold", True, None)]
    summary, following = stage.model.requests[3:]
    assert summary.messages[-1] == User(text="Summarise. Mind: None.")
    told, *kept = following.messages
    assert told == User(text="Task: Do it. Summary: All was read.")
    assert tuple(kept) == stage.model.requests[3].messages[-3:-1]
    assert stage.result is not None
    assert (stage.result["num_llm_calls"], stage.result["num_turns"]) == (5, 4)
    at = stage.types.index("session.compaction_start")
    assert stage.types[at : at + 4] == [
        "session.compaction_start",
        "session.usage_checkpoint",
        "session.compaction_complete",
        "assistant.turn_start",
    ]
    assert stage.types.count("assistant.turn_start") == 4
    assert not any(
        "All was" in delta.delta_content for delta in stage.events(AssistantMessageDelta)
    )


def test_its_cost_is_on_the_bill() -> None:
    """The total is the sum of all charges, that of the summary among them."""
    stage = play_out(stage_of([*FILLING, SUMMARY, done()]))
    charges = stage.events(SessionUsageCheckpoint)
    assert len(charges) == 5
    assert stage.state.ledger.spent_usd == sum(charge.cost_usd for charge in charges)
    (event,) = stage.events(SessionCompactionComplete)
    assert (event.compaction_tokens_used.input_tokens, event.messages_removed) == (100, 5)


def test_a_compaction_that_the_budget_does_not_pay_for_is_not_made() -> None:
    """The run ends at the budget; nothing more is asked."""
    spent = sum((reply_cost(said) for said in FILLING), Decimal(0))
    stage = play_out(stage_of([*FILLING], max_budget_usd=spent + Decimal("0.001")))
    assert ended(stage) == ("error_max_budget_usd", None, 4)
    assert stage.events(SessionCompactionStart) == []


def reply_cost(said: ModelReply) -> Decimal:
    usage = said.usage or Usage()
    tokens = usage.input_tokens + usage.output_tokens
    return PRICE.input_per_mtok * tokens / 1_000_000


def test_a_summary_that_uses_the_budget_up_ends_the_run() -> None:
    """Its charge counts like any other; no further request is made."""
    dear = replace(SUMMARY, usage=Usage(input_tokens=900_000, output_tokens=10))
    stage = play_out(stage_of([*FILLING, dear], max_budget_usd=Decimal("0.5")))
    assert ended(stage) == ("error_max_budget_usd", None, 4)
    assert len(stage.model.requests) == 4


@pytest.mark.parametrize("bad", [reply(""), reply("", call("Read")), BUSY])
def test_attempts_in_vain_are_two_and_seen(bad: Answer) -> None:
    """Then the run goes on without; every attempt is paid and on the log."""
    stage = play_out(stage_of([*FILLING, bad, bad, reads(17_000, 4, 10), done()]))
    assert [good for _, good, _ in compactions(stage)] == [False, False]
    assert [w.warning_type for w in stage.events(SessionWarning)] == ["compaction_given_up"]
    assert ended(stage) == ("success", None, 0)


def test_a_refused_request_is_made_shorter_and_sent_again() -> None:
    """Nobody knows the window: the provider says that it is too long, and is asked once more."""
    small = [reads(100, number, 400) for number in range(3)]
    stage = play_out(stage_of([*small, TOO_LONG, SUMMARY, done()], compaction=CompactionSpec()))
    assert ended(stage) == ("success", None, 0)
    assert compactions(stage) == [("context_limit_retry", True, None)]
    assert stage.types.count("assistant.turn_start") == stage.types.count("assistant.turn_end") == 5
    sizes = [len(request.messages) for request in stage.model.requests]
    assert sizes[-1] < sizes[3]


def test_a_request_that_is_refused_again_ends_the_run() -> None:
    """In the provider's words."""
    small = [reads(100, number, 400) for number in range(3)]
    stage = play_out(stage_of([*small, TOO_LONG, SUMMARY, TOO_LONG], compaction=CompactionSpec()))
    assert ended(stage) == ("error_during_execution", "context_limit", 1)
    assert stage.events(SessionError)[0].message == "prompt is too long"


def test_a_summary_that_is_refused_too_ends_the_run() -> None:
    """There is nothing left to try."""
    small = [reads(100, number, 400) for number in range(3)]
    stage = play_out(stage_of([*small, TOO_LONG, TOO_LONG], compaction=CompactionSpec()))
    assert ended(stage) == ("error_during_execution", "context_limit", 1)
    assert compactions(stage) == [("context_limit_retry", False, "prompt is too long")]


def test_without_compaction_a_refusal_ends_the_run_at_once() -> None:
    """`enabled: false` is never."""
    off = CompactionSpec(window=WINDOW, enabled=False)
    stage = play_out(stage_of([*FILLING, TOO_LONG], compaction=off))
    assert ended(stage) == ("error_during_execution", "context_limit", 1)
    assert compactions(stage) == []


def test_one_message_over_the_window_is_cut_and_the_run_goes_on() -> None:
    """No model is asked for that; the log says so, and the model sees the marker."""
    stage = play_out(stage_of([reads(100, 0, 200_000), done()]))
    assert ended(stage) == ("success", None, 0)
    assert [warning.warning_type for warning in stage.events(SessionWarning)] == ["message_cut"]
    assert "bytes left out" in str(stage.model.requests[1].messages[-1])
    assert compactions(stage) == []


def test_a_fallback_with_a_smaller_window_gets_a_shorter_conversation() -> None:
    """It is not sent what it cannot read: a summary of it comes first, and from itself."""
    spare = "fake/spare"
    stage = stage_of([*FILLING[:2], BUSY, SUMMARY, done()], fallback_models=(spare,))
    preflight = stage.state.preflight
    assert preflight is not None
    windows = (*preflight.windows, WindowListing(model=spare, tokens=6_000))
    stage.engine.recorder.record(replace(preflight, windows=windows))
    play_out(stage)
    assert ended(stage) == ("success", None, 0)
    assert [request.model for request in stage.model.requests[2:]] == [MODEL, spare, spare]
    assert [trigger for trigger, _, _ in compactions(stage)] == ["model_switch"]
    assert len(stage.events(SessionModelChange)) == 1


def test_a_summary_is_written_by_the_fallback_when_the_model_is_down() -> None:
    """The same retries and fallbacks as for a turn."""
    stage = stage_of([*FILLING, BUSY, SUMMARY, done()], fallback_models=("fake/spare",))
    play_out(stage)
    (event,) = stage.events(SessionCompactionComplete)
    assert (event.success, event.compaction_tokens_used.model) == (True, "fake/spare")


def test_a_signal_cancels_it_and_its_call_is_charged_as_reserved() -> None:
    """The start has its outcome, the run its ending, and the view is as it was."""

    async def never(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(1_000)
        raise AssertionError

    stage = stage_of([*FILLING, never])
    stage.interruption = Interruption(cause="SIGTERM")

    async def run() -> None:
        running = asyncio.current_task()
        assert running is not None
        asyncio.get_running_loop().call_later(5, running.cancel)
        await stage.run()

    run_virtual(run())
    assert compactions(stage) == [("threshold", False, "the run was stopped")]
    assert stage.events(SessionUsageCheckpoint)[-1].basis == "reserved"
    assert ended(stage)[2] == 143
    assert stage.state.main.summary is None


def test_the_deadline_cancels_it() -> None:
    """Like any model call."""

    async def never(request: ModelRequest) -> ModelReply:
        await asyncio.sleep(1_000)
        raise AssertionError

    stage = play_out(stage_of([*FILLING, never], timeout=5.0), deadline_s=5)
    assert ended(stage)[0] == "error_timeout"
    assert compactions(stage) == [("threshold", False, "the run was stopped")]


def test_a_kill_at_any_line_of_it_loses_nothing() -> None:
    """Resumed, the summary is made again unless it stood; each charge is on the log once."""
    whole = play_out(stage_of([*FILLING, SUMMARY, done()]))
    records = whole.journal.records
    types = [record.event.type for record in records]
    first = types.index("session.compaction_start")
    for lines in range(first, first + 4):
        answers: list[Answer] = [done()] if lines == first + 3 else [SUMMARY, done()]
        again = go_on(whole, lines=lines, answers=answers)
        run_virtual(recover(again.engine))
        play_out(again)
        assert ended(again) == ("success", None, 0)
        assert again.state.main.summary == whole.state.main.summary
        starts = again.journal.records
        begun = sum(isinstance(record.event, SessionCompactionStart) for record in starts)
        over = sum(isinstance(record.event, SessionCompactionComplete) for record in starts)
        assert begun == over
        charges = [r.event for r in starts if isinstance(r.event, SessionUsageCheckpoint)]
        assert len(charges) == again.state.main.replies + begun


def test_by_hand_it_is_all_the_run_does() -> None:
    """A resumed session: the boundary says manual, the answer is the summary."""
    before = play_out(stage_of([reads(100, 0, 400), done()]))
    spec = replace(before.state.need, prompt="/compact file names")
    stage = go_on(before, answers=[SUMMARY], spec=spec)
    stage.recorder.state = replace(stage.state, note="/compact file names")
    play_out(stage)
    assert ended(stage) == ("success", None, 0)
    assert stage.result is not None
    assert stage.result["result"] == "Task: Do it. Summary: All was read."
    assert "Mind: file names" in str(stage.model.requests[0].messages[-1])
    view = ClaudeView()
    shown = [message for record in stage.sink.records for message in view.feed(record)]
    (boundary,) = [m for m in shown if m.get("subtype") == "compact_boundary"]
    assert boundary["compact_metadata"]["trigger"] == "manual"


def test_a_failed_attempt_is_a_banner_in_claudes_words() -> None:
    """Nobody is told of a boundary that is none."""
    stage = play_out(stage_of([*FILLING, reply(""), SUMMARY, done()]))
    view = ClaudeView()
    shown = [message for record in stage.sink.records for message in view.feed(record)]
    told = [m["content"] for m in shown if m.get("subtype") == "informational"]
    assert told == ["not compacted: the model gave no summary"]
    (boundary,) = [m for m in shown if m.get("subtype") == "compact_boundary"]
    assert boundary["compact_metadata"]["trigger"] == "auto"


def test_the_window_is_shown_around_every_request() -> None:
    """Before and after each, the first of them marked; silence where nobody knows the window."""
    stage = play_out(stage_of([*FILLING[:1], done()]))
    infos = stage.events(SessionUsageInfo)
    assert [info.is_initial for info in infos] == [True, None, None, None]
    assert [info.token_limit for info in infos] == [WINDOW] * 4
    assert infos[1].current_tokens == 5_000
    quiet = play_out(stage_of([done()], compaction=CompactionSpec()))
    assert quiet.events(SessionUsageInfo) == []
