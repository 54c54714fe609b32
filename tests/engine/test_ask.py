"""One model call over fakes: reserve, ask, settle, record."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from runner.core.context import input_bound, request_bound
from runner.core.events import (
    AssistantMessage,
    AssistantMessageDelta,
    AssistantReasoning,
    AssistantReasoningDelta,
    AssistantTurnStart,
    AssistantUsage,
    ModelCallFailure,
    Reasoning,
    SessionError,
    SessionUsageCheckpoint,
    SessionWarning,
    ToolRequest,
)
from runner.core.messages import (
    ModelReply,
    ModelRequest,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from runner.ports import ModelError
from tests.fakes import Answer, RetryUpTo, call, done, reply
from tests.logs import MODEL, SENTENCES, task
from tests.stage import Stage, play_out, set_stage

BUSY = ModelError("rate_limit", "busy", retryable=True, status_code=429)
CUT = ModelError("provider_unavailable", "the stream broke", retryable=True, may_bill=True)
MTOK = Decimal(1_000_000)


def budget(usd: str, **spec: Any) -> Any:
    """A spec with this cap; prices are one dollar per million tokens, of every kind."""
    return task(max_budget_usd=Decimal(usd), max_output_tokens=1000, **spec)


def charges(stage: Stage) -> list[tuple[str, int]]:
    """Basis and micro-dollars (so, tokens) of every charge."""
    return [
        (event.basis, int(event.cost_usd * MTOK)) for event in stage.events(SessionUsageCheckpoint)
    ]


def reservations(stage: Stage) -> list[tuple[int, int]]:
    """Output limit and micro-dollars of every turn's first reservation."""
    return [
        (event.max_output_tokens, int(event.reserved_cost_usd * MTOK))
        for event in stage.events(AssistantTurnStart)
    ]


def test_each_request_is_the_one_before_and_what_came_since() -> None:
    """The whole history is sent, and nothing of it ever changes."""
    answers = [reply("look", call("Read", "r")), reply("half"), done()]
    first, second, third = play_out(set_stage(answers)).model.requests
    read = ToolResult(call_id="r", name="Read", content="ok")
    assert first.messages == (User(text="Do it."),)
    assert second.messages[:1] == first.messages
    assert second.messages[2:] == (read,)
    assert third.messages[:3] == second.messages
    assert third.messages[4:] == (User(text=SENTENCES["nudge"]),)
    prefixes = [(asked.model, asked.system, asked.tools) for asked in (first, second, third)]
    assert prefixes == [prefixes[0]] * 3


def test_the_reservation_is_on_the_log_when_the_request_leaves() -> None:
    """The turn has started, and nothing is charged, while the model is asked."""
    seen: list[list[str]] = []

    async def look(request: ModelRequest) -> ModelReply:
        seen.append(stage.types)
        return done()

    stage = set_stage([look])
    play_out(stage)
    assert seen == [["assistant.turn_start"]]


def test_the_reply_is_recorded_whole() -> None:
    """Text, calls with their problems, reasoning and tokens are on the log."""
    cut = ToolCall(id="c", name="Edit", arguments={}, problem="cut off")
    thought = ReasoningBlock(text="hm", signature="s")
    silent = ReasoningBlock(text="")
    usage = Usage(input_tokens=5, output_tokens=7)
    said = reply("look", cut, reasoning=(thought, silent), usage=usage)
    stage = play_out(set_stage([said, done()]))
    message = stage.events(AssistantMessage)[0]
    assert message == AssistantMessage(
        message_id=message.message_id,
        content="look",
        model=MODEL,
        turn_id="0",
        finish_reason="tool_calls",
        tool_requests=(
            ToolRequest(tool_call_id="c", name="Edit", arguments={}, problem="cut off"),
        ),
        reasoning=(Reasoning(text="hm", signature="s"), Reasoning(text="")),
        output_tokens=7,
    )
    readable = AssistantReasoning(reasoning_id=message.message_id, content="hm")
    assert stage.events(AssistantReasoning) == [readable]


def test_the_reply_is_shown_while_it_is_streamed() -> None:
    """Pieces carry the id of the message that follows them, and the usage is shown."""
    stage = play_out(
        set_stage([reply("hi", *done().calls, reasoning=(ReasoningBlock(text="hm"),))])
    )
    (message,) = stage.events(AssistantMessage)
    assert stage.events(AssistantMessageDelta) == [
        AssistantMessageDelta(message_id=message.message_id, delta_content="hi")
    ]
    assert stage.events(AssistantReasoningDelta) == [
        AssistantReasoningDelta(reasoning_id=message.message_id, delta_content="hm")
    ]
    assert stage.events(AssistantUsage) == [
        AssistantUsage(
            model=MODEL,
            input_tokens=100,
            output_tokens=10,
            cache_read_tokens=0,
            cache_write_tokens=0,
            duration=0,
            finish_reason="tool_calls",
            cost_usd=Decimal("0.00011"),
        )
    ]


# -- money -----------------------------------------------------------------------------------


def test_a_budget_too_small_makes_no_call() -> None:
    """The run ends with the budget error and without a turn when nothing useful fits."""
    stage = play_out(set_stage([], spec=budget("0.0004")))
    assert stage.ending is not None
    assert (stage.ending.subtype, stage.model.requests) == ("error_max_budget_usd", [])
    assert stage.types == ["session.warning", "runner.result", "session.shutdown"]


def test_the_output_limit_is_lowered_to_what_the_budget_pays_for() -> None:
    """The model is sent the limit that was reserved."""
    spec = budget("0.0009")
    stage = play_out(set_stage([done()], spec=spec))
    ((limit, reserved),) = reservations(stage)
    assert (stage.model.requests[0].max_output_tokens, reserved) == (limit, 900)
    assert 256 <= limit < 1000


def test_the_first_reservation_takes_the_count_with_a_margin_or_the_bytes() -> None:
    """The smaller of both bounds the input when nothing was measured yet."""
    counted = play_out(set_stage([done()], spec=budget("1"), counted_tokens=40))
    bytewise = play_out(set_stage([done()], spec=budget("1"), counted_tokens=10**6))
    bound = request_bound(bytewise.model.requests[0])
    assert [reservations(counted), reservations(bytewise)] == [
        [(1000, 1000 + 40 * 3 // 2 + 64)],
        [(1000, 1000 + bound)],
    ]


def test_later_reservations_take_what_the_provider_reported() -> None:
    """Measured tokens and the bytes of what came since bound the second call."""
    first = reply("look", call("Read"), usage=Usage(input_tokens=70, cache_read_tokens=30))
    stage = set_stage([first, hold_bound := _Bound()], spec=budget("1"))
    hold_bound.stage = stage
    play_out(stage)
    assert reservations(stage)[1] == (1000, 1000 + hold_bound.seen)


class _Bound:
    """Completes the task, and remembers how large the request could be."""

    stage: Stage
    seen = 0

    async def __call__(self, request: ModelRequest) -> ModelReply:
        self.seen = input_bound(self.stage.state.main) or 0
        return done()


def test_a_reply_without_usage_costs_its_reservation() -> None:
    """The basis is `reserved` when the provider reported nothing."""
    said = reply("", *done().calls, usage=None)
    stage = play_out(set_stage([said], spec=budget("1")))
    ((_, reserved),) = reservations(stage)
    assert charges(stage) == [("reserved", reserved)]


def test_without_a_price_nothing_is_charged_and_the_tokens_are_kept() -> None:
    """The basis is `unpriced` when the model has no price."""
    stage = play_out(set_stage([done()], price=None))
    (charged,) = stage.events(SessionUsageCheckpoint)
    assert (charged.basis, charged.cost_usd, charged.input_tokens) == ("unpriced", 0, 100)


def test_a_failed_attempt_that_was_not_billed_leaves_the_whole_budget() -> None:
    """The second attempt reserves as much as the first although the cap fits only one."""
    answers: list[Answer] = [BUSY, done()]
    stage = set_stage(answers, spec=budget("0.0013"), retry=RetryUpTo(attempts=2))
    play_out(stage)
    ((_, reserved),) = reservations(stage)
    (again,) = stage.events(SessionWarning)
    assert again == SessionWarning(
        warning_type="model_retry",
        message="attempt 1 failed (rate_limit: busy); again in 1.0 s",
        reserved_cost_usd=reserved / MTOK,
    )
    assert ([r.max_output_tokens for r in stage.model.requests], charges(stage)) == (
        [1000, 1000],
        [("spec", 110)],
    )


def test_a_failed_attempt_that_may_be_billed_costs_its_reservation() -> None:
    """The second attempt gets what is left, and the reply is charged on top."""
    answers: list[Answer] = [CUT, done()]
    stage = set_stage(answers, spec=budget("0.0018"), retry=RetryUpTo(attempts=2))
    play_out(stage)
    ((_, reserved),) = reservations(stage)
    first, second = stage.model.requests
    assert charges(stage) == [("reserved", reserved), ("spec", 110)]
    assert second.max_output_tokens == first.max_output_tokens - (2 * reserved - 1800)
    assert stage.state.ledger.spent_usd * MTOK == reserved + 110


def test_no_second_attempt_is_made_when_it_does_not_fit() -> None:
    """The run ends with the budget error, its turn closed, when a retry is not paid for."""
    stage = set_stage([CUT], spec=budget("0.0014"), retry=RetryUpTo(attempts=2))
    play_out(stage)
    assert stage.ending is not None
    assert (stage.ending.subtype, len(stage.model.requests)) == ("error_max_budget_usd", 1)
    assert stage.types == [
        "assistant.turn_start",
        "session.usage_checkpoint",
        "session.warning",
        "assistant.turn_end",
        "runner.result",
        "session.shutdown",
    ]


def test_a_final_failure_is_charged_and_named() -> None:
    """The error is on the log, the turn closed, and there is no nudge."""
    stage = play_out(set_stage([CUT], spec=budget("1")))
    ((_, reserved),) = reservations(stage)
    assert stage.result is not None
    assert stage.events(SessionError) == [
        SessionError(error_type="provider_unavailable", message="the stream broke")
    ]
    assert (charges(stage), stage.result["exit_code"], stage.result["num_nudges"]) == (
        [("reserved", reserved)],
        75,
        0,
    )


@pytest.mark.parametrize(("error", "kind"), [(BUSY, "api"), (CUT, "transport")])
def test_each_failed_attempt_is_shown(error: ModelError, kind: str) -> None:
    """A failure with a status is the provider's, one without is the line's."""
    stage = set_stage([error, error], retry=RetryUpTo(attempts=2))
    play_out(stage)
    shown = ModelCallFailure(
        model=MODEL,
        error_message=error.message,
        failure_kind=kind,  # type: ignore[arg-type]  # parametrised
        duration_ms=0,
        status_code=error.status_code,
    )
    assert stage.events(ModelCallFailure) == [shown, shown]


def test_the_running_total_is_on_every_checkpoint() -> None:
    """The last one is the cost of the run."""
    answers = [reply(f"text {n}", usage=Usage(input_tokens=n)) for n in (1, 2, 3)]
    stage = play_out(set_stage([*answers, done()]))
    totals = [int(e.total_cost_usd * MTOK) for e in stage.events(SessionUsageCheckpoint)]
    assert totals == [1, 3, 6, 116]
    assert stage.result is not None
    assert stage.result["total_cost_usd"] == 0.000116


def test_a_call_that_a_bug_of_ours_ends_is_charged_all_the_same() -> None:
    """The reservation is spent when the adapter fails in a way that is no `ModelError`."""

    async def broken(request: ModelRequest) -> ModelReply:
        raise RuntimeError("a bug in an adapter")

    stage = set_stage([broken], spec=budget("0.0018"))
    with pytest.raises(RuntimeError):
        play_out(stage)
    ((_, reserved),) = reservations(stage)
    assert charges(stage) == [("reserved", reserved)]
