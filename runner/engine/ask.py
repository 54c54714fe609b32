"""One turn: ask the model and record its reply, or why there is none."""

from __future__ import annotations

from runner.core import context, deferral
from runner.core.events import (
    AssistantMessage,
    AssistantReasoning,
    AssistantTurnStart,
    Reasoning,
    SessionError,
    SessionWarning,
    ToolRequest,
)
from runner.core.messages import ModelReply, ModelRequest
from runner.engine.call import BudgetRefused, ModelCall, prepare
from runner.engine.compact import show_context
from runner.engine.engine import Engine
from runner.ports import ModelError


def request(engine: Engine) -> ModelRequest:
    """The next request, as far as its tools are shown yet."""
    state = engine.recorder.state
    return context.request(state, deferral.shown(state, engine.offered))


async def ask_model(engine: Engine) -> None:
    """Make one model call, or trip the budget cap without making it."""
    recorder = engine.recorder
    show_context(engine)
    try:
        call = await prepare(engine, request(engine))
    except BudgetRefused as refused:
        recorder.record(refused.fact())
        return
    turn_id = str(recorder.state.main.turns_started)
    recorder.record(
        AssistantTurnStart(
            turn_id=turn_id,
            model=call.request.model,
            max_output_tokens=call.reservation.max_output_tokens,
            reserved_cost_usd=call.reservation.cost_usd,
        )
    )
    try:
        reply = await call.answer()
    except BudgetRefused as refused:
        recorder.record(refused.fact())
    except ModelError as error:
        _record_failure(engine, error)
    else:
        _record_reply(engine, call, reply, turn_id)
        show_context(engine)


def _record_failure(engine: Engine, error: ModelError) -> None:
    """The failure that ends the run, or a conversation that is too long and may be shortened."""
    recorder, state = engine.recorder, engine.recorder.state
    may_shrink = state.need.compaction.enabled and not state.main.recovering
    if error.kind == "context_limit" and may_shrink:
        message = f"the conversation is too long for the model: {error.message}"
        tokens = context.estimated_tokens(state)
        recorder.record(
            SessionWarning(warning_type="context_limit", message=message, current_tokens=tokens)
        )
        return
    recorder.record(
        SessionError(error_type=error.kind, message=error.message, status_code=error.status_code)
    )


def _record_reply(engine: Engine, call: ModelCall, reply: ModelReply, turn_id: str) -> None:
    """Write what the model said; the fold and the table take it from there."""
    record = engine.recorder.record
    thought = "\n".join(block.text for block in reply.reasoning if block.text)
    if thought:
        record(AssistantReasoning(reasoning_id=call.message_id, content=thought))
    record(
        AssistantMessage(
            message_id=call.message_id,
            content=reply.text,
            model=call.request.model,
            turn_id=turn_id,
            finish_reason=reply.finish_reason,
            tool_requests=tuple(
                ToolRequest(
                    tool_call_id=asked.id,
                    name=asked.name,
                    arguments=asked.arguments,
                    problem=asked.problem,
                    raw_arguments=asked.raw_arguments,
                )
                for asked in reply.calls
            ),
            reasoning=tuple(
                Reasoning(text=block.text, signature=block.signature) for block in reply.reasoning
            ),
            output_tokens=reply.usage.output_tokens if reply.usage else None,
        )
    )
