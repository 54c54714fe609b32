"""Mode auto: ask a model about a call that no rule decided. One paid call, a turn of its own.

The turn stays open until the decision is recorded, so that whoever resumes a killed run finds
either the decision or the answer it came from, and asks about no call twice.
"""

from __future__ import annotations

from asyncio import CancelledError

from runner.core.classifier import question, read_answer, refused, ruled
from runner.core.events import (
    AssistantMessage,
    AssistantTurnEnd,
    AssistantTurnStart,
    SessionWarning,
)
from runner.core.fold import UNCLASSIFIED
from runner.core.messages import ModelRequest, ToolCall
from runner.core.state import CLASSIFIER
from runner.core.thread import Thread
from runner.core.verdicts import Verdict
from runner.engine.call import BudgetRefused, ModelCall, prepare
from runner.engine.engine import Engine
from runner.ports import ModelError


def decided_before(engine: Engine, call: ToolCall) -> Verdict | None:
    """The decision about this call of the open turn that is on the log already."""
    decision = engine.recorder.state.decided.get(call.id)
    if decision is None:
        return None
    close_question(engine, call)  # the run was killed between the two
    return Verdict(kind=decision.result["kind"], reason=decision.reason)


async def classify(engine: Engine, call: ToolCall) -> Verdict:
    """What the model of mode auto decides; whatever goes wrong is no approval.

    The caller records the verdict and closes the question. Cancelled: the question is closed.
    Raises `JournalError`.
    """
    state = engine.recorder.state
    auto, thread = state.need.auto_mode, _thread(engine)
    turn_id = _turn_id(engine, call)
    if thread.open_turn == turn_id and thread.reply is not None:
        return ruled(read_answer(thread.reply.text))
    close_question(engine)
    request = None if auto is None else question(state, auto.model, call)
    if request is None:
        return refused("the call is too long to be judged")
    phase, engine.phase = engine.phase, f"permission classifier: {call.name}"
    try:
        return await _ask(engine, request, turn_id)
    finally:
        engine.phase = phase


async def _ask(engine: Engine, request: ModelRequest, turn_id: str) -> Verdict:
    recorder = engine.recorder
    try:
        call = await prepare(engine, request, is_shown=False, agent_id=CLASSIFIER)
        recorder.record(
            AssistantTurnStart(
                turn_id=turn_id,
                model=request.model,
                max_output_tokens=call.reservation.max_output_tokens,
                reserved_cost_usd=call.reservation.cost_usd,
            ),
            CLASSIFIER,
        )
        return await _answer(call, turn_id)
    except BudgetRefused as told:
        recorder.record(told.fact())
        return refused("the budget does not pay for asking it")
    except ModelError as error:
        message = f"the permission classifier could not be asked: {error.kind}: {error.message}"
        recorder.record(SessionWarning(warning_type=UNCLASSIFIED, message=message), CLASSIFIER)
        return refused(f"it could not be asked ({error.kind})")
    except CancelledError:
        close_question(engine)
        raise


async def _answer(call: ModelCall, turn_id: str) -> Verdict:
    reply = await call.answer()
    call.engine.recorder.record(
        AssistantMessage(
            message_id=call.message_id,
            content=reply.text,
            model=call.request.model,
            turn_id=turn_id,
            finish_reason=reply.finish_reason,
            output_tokens=reply.usage.output_tokens if reply.usage else None,
        ),
        CLASSIFIER,
    )
    return ruled(read_answer(reply.text))


def close_question(engine: Engine, about: ToolCall | None = None) -> None:
    """The question is over, if there is one: any, or the one about this call.

    Raises `JournalError`.
    """
    thread = _thread(engine)
    meant = about is None or thread.open_turn == _turn_id(engine, about)
    if thread.open_turn is not None and meant:
        ended = AssistantTurnEnd(turn_id=thread.open_turn, model=thread.model)
        engine.recorder.record(ended, CLASSIFIER)


def _turn_id(engine: Engine, call: ToolCall) -> str:
    """The turn of the question about a call; other agents may make calls of the same id."""
    state = engine.recorder.state
    return f"{state.agent_id}.{state.main.open_turn}.{call.id}".removeprefix(".")


def _thread(engine: Engine) -> Thread:
    return engine.recorder.state.threads.get(CLASSIFIER, Thread())
