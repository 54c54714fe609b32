"""One model call: reserve, ask (and retry), settle, record the reply.

Money first: the reservation is on disk before the request leaves, the charge is on disk before
the reply is looked at. An attempt that may be billed without saying so costs its reservation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runner.core import context
from runner.core.events import (
    AssistantMessage,
    AssistantMessageDelta,
    AssistantReasoning,
    AssistantReasoningDelta,
    AssistantTurnStart,
    AssistantUsage,
    CostBasis,
    ModelCallFailure,
    Reasoning,
    SessionError,
    SessionModelChange,
    SessionUsageCheckpoint,
    SessionWarning,
    ToolRequest,
)
from runner.core.ledger import ZERO, Reservation, cost_usd, reserve
from runner.core.limits import budget_left_usd
from runner.core.messages import ModelReply, ModelRequest, Usage
from runner.core.state import MAIN
from runner.engine.engine import Engine
from runner.ports import Delta, ModelError

FALLS_BACK = frozenset({"rate_limit", "provider_unavailable"})
"""Failures another model may not have: the rest would fail there too, or is for a person."""

COUNT_MARGIN = 1.5
"""A tokenizer's count times this bounds what another tokenizer may count."""


_NOTHING = Reservation(cost_usd=ZERO, max_output_tokens=0)


class _BudgetRefused(Exception):
    """The next attempt does not fit under the cap."""


async def ask_model(engine: Engine) -> None:
    """Make one model call, or trip the budget cap without making it."""
    recorder = engine.recorder
    request = context.request(recorder.state, engine.offered)
    await engine.model.ready()  # first: a run that is stopped here has asked nothing
    bound = await _input_bound(engine, request)
    turn = _Turn(engine=engine, request=request, input_tokens=bound)
    try:
        turn.reservation = turn.reserve()
    except _BudgetRefused as refused:
        recorder.record(SessionWarning(warning_type="error_max_budget_usd", message=str(refused)))
        return
    recorder.record(
        AssistantTurnStart(
            turn_id=turn.id,
            model=request.model,
            max_output_tokens=turn.reservation.max_output_tokens,
            reserved_cost_usd=turn.reservation.cost_usd,
        )
    )
    try:
        reply = await turn.answer()
    except _BudgetRefused as refused:
        recorder.record(SessionWarning(warning_type="error_max_budget_usd", message=str(refused)))
    except ModelError as error:
        recorder.record(
            SessionError(
                error_type=error.kind, message=error.message, status_code=error.status_code
            )
        )
    else:
        turn.record_reply(reply)


async def _input_bound(engine: Engine, request: ModelRequest) -> int:
    """At most this many input tokens; a tokenizer is asked only when a cap hangs on it."""
    state = engine.recorder.state
    measured = context.input_bound(state.main)
    if measured is not None and request.model == state.model:
        return measured
    if state.need.max_budget_usd is None:
        return context.request_bound(request)
    counted = await engine.model.count_tokens(request)
    return min(round(counted * COUNT_MARGIN) + 64, context.request_bound(request))


@dataclass(slots=True, kw_only=True)
class _Turn:
    """One turn's model call over all its attempts."""

    engine: Engine
    request: ModelRequest
    input_tokens: int
    reservation: Reservation = _NOTHING
    message_id: str = ""

    @property
    def id(self) -> str:
        state = self.engine.recorder.state
        open_turn = state.main.open_turn
        return str(state.main.turns_started) if open_turn is None else open_turn

    def reserve(self) -> Reservation:
        """The worst case of the next attempt. Raises `_BudgetRefused` when it does not fit."""
        state = self.engine.recorder.state
        left = budget_left_usd(state, MAIN)
        reservation = reserve(
            left_usd=left,
            price=state.price(self.request.model),
            input_tokens=self.input_tokens,
            max_output_tokens=self.request.max_output_tokens,
            min_output_tokens=state.need.limits.min_output_tokens,
        )
        if reservation is None:
            cap, spare = state.need.max_budget_usd, (left or ZERO).normalize()
            raise _BudgetRefused(
                f"Reached maximum budget (${cap}): ${spare:f} left, which does not pay "
                f"for another call of about {self.input_tokens} input tokens"
            )
        return reservation

    async def answer(self) -> ModelReply:
        """Ask until a model answers: each with its retries, then the next fallback.

        Raises `ModelError` when the last one failed too, `_BudgetRefused` when the next attempt
        does not fit.
        """
        while True:
            try:
                return await self.engine.retry(self.attempt, self.note_retry)
            except ModelError as error:
                following = self._following()
                if error.kind not in FALLS_BACK or following is None:
                    raise
                await self._switch(following, error)

    def _following(self) -> str | None:
        """The model to try when the current one failed; None when there is no other."""
        spec = self.engine.recorder.state.need
        models = list(dict.fromkeys((spec.model, *spec.fallback_models)))  # each one once
        return next(iter(models[models.index(self.request.model) + 1 :]), None)

    async def _switch(self, model: str, error: ModelError) -> None:
        """Reserve for the other model at its own price, and go on with it."""
        previous, self.request = self.request.model, replace(self.request, model=model)
        self.input_tokens = await _input_bound(self.engine, self.request)
        self.reservation = self.reserve()
        self.engine.recorder.record(
            SessionModelChange(
                previous_model=previous,
                new_model=model,
                cause=f"{error.kind}: {error.message}",
                reserved_cost_usd=self.reservation.cost_usd,
            )
        )

    async def attempt(self) -> ModelReply:
        """Ask once and settle. Raises `ModelError`; a cancelled attempt is charged."""
        engine, request, reservation = self.engine, self.request, self.reservation
        self.message_id = engine.new_id()
        started = engine.clock.monotonic()
        sent = replace(request, max_output_tokens=reservation.max_output_tokens)
        try:
            reply = await engine.model.ask(sent, self._show_delta)
        except ModelError as error:
            self._note_failure(error, started)
            if error.may_bill:
                self._settle(None, reservation, started)
            raise
        except BaseException:  # cancelled, or a bug in an adapter: it may be billed all the same
            self._settle(None, reservation, started)
            raise
        checkpoint = self._settle(reply.usage, reservation, started)
        self._show_usage(reply, checkpoint)
        return reply

    def note_retry(self, error: ModelError, number: int, wait_s: float) -> None:
        """Reserve for the next attempt and say that it follows. Raises `_BudgetRefused`."""
        self.reservation = self.reserve()
        cause = f"{error.kind}: {error.message}"
        message = f"attempt {number} failed ({cause}); again in {wait_s:.1f} s"
        self.engine.recorder.record(
            SessionWarning(
                warning_type="model_retry",
                message=message,
                reserved_cost_usd=self.reservation.cost_usd,
            )
        )

    def record_reply(self, reply: ModelReply) -> None:
        """Write what the model said; the fold and the table take it from there."""
        record = self.engine.recorder.record
        thought = "\n".join(block.text for block in reply.reasoning if block.text)
        if thought:
            record(AssistantReasoning(reasoning_id=self.message_id, content=thought))
        record(
            AssistantMessage(
                message_id=self.message_id,
                content=reply.text,
                model=self.request.model,
                turn_id=self.id,
                finish_reason=reply.finish_reason,
                tool_requests=tuple(
                    ToolRequest(
                        tool_call_id=call.id,
                        name=call.name,
                        arguments=call.arguments,
                        problem=call.problem,
                    )
                    for call in reply.calls
                ),
                reasoning=tuple(
                    Reasoning(text=block.text, signature=block.signature)
                    for block in reply.reasoning
                ),
                output_tokens=reply.usage.output_tokens if reply.usage else None,
            )
        )

    def _settle(
        self, usage: Usage | None, reservation: Reservation, started: float
    ) -> SessionUsageCheckpoint:
        recorder = self.engine.recorder
        price = recorder.state.price(self.request.model)
        basis: CostBasis
        if price is None:
            cost, basis = ZERO, "unpriced"
        elif usage is None:
            cost, basis = reservation.cost_usd, "reserved"
        else:
            cost, basis = cost_usd(price, usage), price.basis
        known = usage or Usage()
        checkpoint = SessionUsageCheckpoint(
            model=self.request.model,
            cost_usd=cost,
            total_cost_usd=recorder.state.ledger.spent_usd + cost,
            basis=basis,
            input_tokens=known.input_tokens,
            output_tokens=known.output_tokens,
            cache_read_tokens=known.cache_read_tokens,
            cache_write_tokens=known.cache_write_tokens,
            reasoning_tokens=known.reasoning_tokens,
            duration_ms=self._since_ms(started),
        )
        recorder.record(checkpoint)
        return checkpoint

    def _since_ms(self, started: float) -> int:
        return round((self.engine.clock.monotonic() - started) * 1000)

    def _note_failure(self, error: ModelError, started: float) -> None:
        self.engine.recorder.show(
            ModelCallFailure(
                model=self.request.model,
                error_message=error.message,
                failure_kind="transport" if error.status_code is None else "api",
                duration_ms=self._since_ms(started),
                status_code=error.status_code,
            )
        )

    def _show_usage(self, reply: ModelReply, checkpoint: SessionUsageCheckpoint) -> None:
        self.engine.recorder.show(
            AssistantUsage(
                model=checkpoint.model,
                input_tokens=checkpoint.input_tokens,
                output_tokens=checkpoint.output_tokens,
                cache_read_tokens=checkpoint.cache_read_tokens,
                cache_write_tokens=checkpoint.cache_write_tokens,
                duration=checkpoint.duration_ms,
                finish_reason=reply.finish_reason,
                cost_usd=checkpoint.cost_usd,
            )
        )

    def _show_delta(self, delta: Delta) -> None:
        show, message_id = self.engine.recorder.show, self.message_id
        if delta.kind == "text":
            show(AssistantMessageDelta(message_id=message_id, delta_content=delta.text))
        else:
            show(AssistantReasoningDelta(reasoning_id=message_id, delta_content=delta.text))
