"""A model that stays overloaded hands over to the next one, and the log says so."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from runner.core.events import (
    AssistantMessage,
    AssistantTurnStart,
    RunnerPreflight,
    SessionError,
    SessionModelChange,
    SessionUsageCheckpoint,
    SessionWarning,
)
from runner.core.messages import Usage
from runner.ports import ModelError
from tests.fakes import Answer, RetryUpTo, done, reply
from tests.logs import MODEL, PRICE, task
from tests.stage import Stage, go_on, play_out, set_stage

SPARE = "fake/spare"
BUSY = ModelError("rate_limit", "busy", retryable=True, status_code=429)
CUT = ModelError("provider_unavailable", "the stream broke", retryable=True, may_bill=True)
DEARER = replace(
    PRICE,
    model=SPARE,
    input_per_mtok=PRICE.input_per_mtok * 3,
    output_per_mtok=PRICE.output_per_mtok * 3,
)


def stage_with(answers: list[Answer], **keys: Any) -> Stage:
    """A run that may ask a second model, three times as dear, each model twice."""
    spec = task(**{"fallback_models": (SPARE,), "max_output_tokens": 1000, **keys})
    stage = set_stage(answers, spec=spec, retry=RetryUpTo(attempts=2))
    opened = stage.journal.records[2].event
    assert isinstance(opened, RunnerPreflight)
    stage.engine.recorder.record(replace(opened, prices=(PRICE, DEARER)))
    return stage


def asked(stage: Stage) -> list[str]:
    """The model of every request, in order."""
    return [request.model for request in stage.model.requests]


def test_the_next_model_answers_after_the_retries_and_stays() -> None:
    """Two attempts at the first model, then the spare one, in the same turn and in later ones."""
    stage = play_out(stage_with([BUSY, BUSY, reply("hm"), done()]))
    assert asked(stage) == [MODEL, MODEL, SPARE, SPARE]
    (change,) = stage.events(SessionModelChange)
    assert (change.previous_model, change.new_model) == (MODEL, SPARE)
    assert change.cause == "rate_limit: busy"
    assert [turn.model for turn in stage.events(AssistantTurnStart)] == [MODEL, SPARE]
    assert [said.model for said in stage.events(AssistantMessage)] == [SPARE, SPARE]
    assert stage.events(SessionError) == []
    assert stage.result is not None
    assert (stage.result["exit_code"], list(stage.result["modelUsage"])) == (0, [SPARE])


def test_each_model_is_charged_at_its_own_price() -> None:
    """A cut stream costs what was held for the first model; the second reserves and pays its own,
    and the usage of both is in the result."""
    usage = Usage(input_tokens=10)
    answers: list[Answer] = [CUT, CUT, reply("hm", usage=usage), done()]
    stage = play_out(stage_with(answers, max_budget_usd=Decimal(1)))
    charges = stage.events(SessionUsageCheckpoint)
    assert [charge.model for charge in charges] == [MODEL, MODEL, SPARE, SPARE]
    turn = stage.events(AssistantTurnStart)[0]
    (change,) = stage.events(SessionModelChange)
    assert charges[0].cost_usd == turn.reserved_cost_usd
    assert change.reserved_cost_usd > turn.reserved_cost_usd * 2
    assert charges[2].cost_usd == Decimal("0.00003")
    assert stage.result is not None
    assert list(stage.result["modelUsage"]) == [MODEL, SPARE]


def test_a_fallback_that_does_not_fit_under_the_cap_is_not_asked() -> None:
    """The budget ends the run before the dearer call, and the model has not changed."""
    cap = Decimal("0.0015")
    stage = play_out(
        stage_with(
            [BUSY, BUSY], max_budget_usd=cap, limits=replace(task().limits, min_output_tokens=900)
        )
    )
    assert asked(stage) == [MODEL, MODEL]
    assert stage.events(SessionModelChange) == []
    assert stage.events(SessionWarning)[-1].warning_type == "error_max_budget_usd"
    assert stage.result is not None
    assert stage.result["exit_code"] == 4


@pytest.mark.parametrize(
    "kind", ["authentication", "quota", "invalid_request", "model_not_found", "context_limit"]
)
def test_a_failure_for_a_person_is_not_handed_over(kind: Any) -> None:
    """What is wrong with the key, the account or the request ends the run as before."""
    stage = play_out(stage_with([ModelError(kind, "no")]))
    assert asked(stage) == [MODEL]
    assert [error.error_type for error in stage.events(SessionError)] == [kind]


def test_when_every_model_fails_the_last_failure_ends_the_run() -> None:
    """Each model is tried once, whatever the list repeats."""
    stage = stage_with([BUSY, BUSY, CUT, CUT], fallback_models=(MODEL, SPARE, MODEL, SPARE))
    play_out(stage)
    assert asked(stage) == [MODEL, MODEL, SPARE, SPARE]
    (error,) = stage.events(SessionError)
    assert error.error_type == "provider_unavailable"


def test_a_resumed_run_begins_with_the_first_model_again() -> None:
    """The model of the spec is asked first in every part of a session."""
    stage = play_out(stage_with([BUSY, BUSY, done()]))
    assert stage.state.model == SPARE
    resumed = play_out(go_on(stage, answers=[done()]))
    assert (asked(resumed), resumed.state.model) == ([MODEL], MODEL)
    assert stage.state.attempts_over == {MODEL: 2, SPARE: 1}
