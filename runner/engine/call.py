"""One paid model call over all its attempts: reserve, ask (and retry), settle.

Money first: the reservation is on disk before the request leaves, the charge is on disk before
the reply is looked at. An attempt that may be billed without saying so costs its reservation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runner.core import context
from runner.core.events import (
    AssistantMessageDelta,
    AssistantReasoningDelta,
    AssistantUsage,
    CostBasis,
    Ephemeral,
    ModelCallFailure,
    Persisted,
    SessionModelChange,
    SessionUsageCheckpoint,
    SessionWarning,
)
from runner.core.ledger import ZERO, Reservation, cost_usd, reserve
from runner.core.limits import budget_left_usd
from runner.core.messages import Message, ModelReply, ModelRequest, Usage
from runner.core.state import MAIN
from runner.core.stops import budget_spent
from runner.core.weight import message_bound
from runner.engine.engine import Engine
from runner.ports import Delta, ModelError

FALLS_BACK = frozenset({"rate_limit", "provider_unavailable"})
"""Failures another model may not have: the rest would fail there too, or is for a person."""

COUNT_MARGIN = 1.5
"""A tokenizer's count times this bounds what another tokenizer may count."""


_NOTHING = Reservation(cost_usd=ZERO, max_output_tokens=0)


_NO_USAGE = (
    "{model} reported no usage, or one that cannot be true: each such call is charged what was "
    "reserved for it"
)


class BudgetRefused(Exception):
    """The next attempt does not fit under the cap."""

    def fact(self) -> SessionWarning:
        """What is recorded: the cap was reached."""
        return budget_spent(str(self))


async def prepare(
    engine: Engine,
    request: ModelRequest,
    *,
    added: tuple[Message, ...] = (),
    is_shown: bool = True,
    agent_id: str = MAIN,
) -> ModelCall:
    """The call, with its first attempt reserved for. Raises `BudgetRefused`.

    `added` are messages of the request that are not in the conversation. Unless it `is_shown`,
    nobody sees the reply while it is streamed. `agent_id` is whose call it is: what it costs
    stands there, and only the main loop goes on with a fallback.
    """
    await engine.model.ready()  # first: a run that is stopped here has asked nothing
    call = ModelCall(
        engine=engine, request=request, added=added, is_shown=is_shown, agent_id=agent_id
    )
    call.input_tokens = await call.input_bound()
    call.reservation = call.reserve()
    return call


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """One model call over all its attempts. `message_id` is that of the last attempt's reply."""

    engine: Engine
    request: ModelRequest
    input_tokens: int = 0
    added: tuple[Message, ...] = ()
    is_shown: bool = True
    agent_id: str = MAIN
    reservation: Reservation = _NOTHING
    message_id: str = ""

    async def input_bound(self) -> int:
        """At most this many input tokens; a tokenizer is asked only when a cap hangs on it."""
        state, request = self.engine.recorder.state, self.request
        measured = context.input_bound(state.main) if self.agent_id == MAIN else None
        if measured is not None and request.model == state.model:
            return measured + sum(map(message_bound, self.added))
        if state.need.max_budget_usd is None:
            return context.request_bound(request)
        counted = await self.engine.model.count_tokens(request)
        return min(round(counted * COUNT_MARGIN) + 64, context.request_bound(request))

    def reserve(self) -> Reservation:
        """The worst case of the next attempt. Raises `BudgetRefused` when it does not fit."""
        state = self.engine.recorder.state
        left = budget_left_usd(state, self.agent_id)
        reservation = reserve(
            left_usd=left,
            price=state.price(self.request.model),
            input_tokens=self.input_tokens,
            max_output_tokens=self.request.max_output_tokens,
            min_output_tokens=state.need.limits.min_output_tokens,
        )
        if reservation is None:
            cap, spare = state.need.max_budget_usd, (left or ZERO).normalize()
            raise BudgetRefused(
                f"Reached maximum budget (${cap}): ${spare:f} left, which does not pay "
                f"for another call of about {self.input_tokens} input tokens"
            )
        return reservation

    async def answer(self) -> ModelReply:
        """Ask until a model answers: each with its retries, then the next fallback.

        Raises `ModelError` when the last one failed too, or the next one cannot read that much;
        `BudgetRefused` when the next attempt does not fit.
        """
        while True:
            try:
                return await self.engine.retry(self.attempt, self.note_retry)
            except ModelError as error:
                following = self._following()
                if error.kind not in FALLS_BACK or following is None:
                    raise
                await self._switch(following, error)
            if not context.fits(self.engine.recorder.state, self.request):
                message = f"the conversation does not fit the window of {self.request.model}"
                raise ModelError("context_limit", message)

    def _following(self) -> str | None:
        """The model to try when the current one failed; None when there is no other."""
        if self.agent_id != MAIN:
            return None
        spec = self.engine.recorder.state.need
        models = list(dict.fromkeys((spec.model, *spec.fallback_models)))  # each one once
        return next(iter(models[models.index(self.request.model) + 1 :]), None)

    async def _switch(self, model: str, error: ModelError) -> None:
        """Reserve for the other model at its own price, and go on with it."""
        previous, self.request = self.request.model, replace(self.request, model=model)
        self.input_tokens = await self.input_bound()
        self.reservation = self.reserve()
        self._record(
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
        for sentence in reply.left_out:
            self._say_once("parameter_left_out", sentence)
        if checkpoint.basis == "reserved":
            told = _NO_USAGE.format(model=request.model)
            self._say_once("usage_not_reported", told)
        return reply

    def note_retry(self, error: ModelError, number: int, wait_s: float) -> None:
        """Reserve for the next attempt and say that it follows. Raises `BudgetRefused`."""
        self.reservation = self.reserve()
        cause = f"{error.kind}: {error.message}"
        message = f"attempt {number} failed ({cause}); again in {wait_s:.1f} s"
        self._record(
            SessionWarning(
                warning_type="model_retry",
                message=message,
                reserved_cost_usd=self.reservation.cost_usd,
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
        self._record(checkpoint)
        return checkpoint

    def _record(self, event: Persisted) -> None:
        self.engine.recorder.record(event, self.agent_id or None)

    def _show(self, event: Ephemeral) -> None:
        self.engine.recorder.show(event, self.agent_id or None)

    def _say_once(self, warning_type: str, message: str) -> None:
        recorder = self.engine.recorder
        if message not in recorder.state.said:
            recorder.record(SessionWarning(warning_type=warning_type, message=message))

    def _since_ms(self, started: float) -> int:
        return round((self.engine.clock.monotonic() - started) * 1000)

    def _note_failure(self, error: ModelError, started: float) -> None:
        self._show(
            ModelCallFailure(
                model=self.request.model,
                error_message=error.message,
                failure_kind="transport" if error.status_code is None else "api",
                duration_ms=self._since_ms(started),
                source="subagent" if self.engine.recorder.state.agent_id else "top_level",
                status_code=error.status_code,
            )
        )

    def _show_usage(self, reply: ModelReply, checkpoint: SessionUsageCheckpoint) -> None:
        self._show(
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
        if not self.is_shown:
            return
        show, message_id = self._show, self.message_id
        if delta.kind == "text":
            show(AssistantMessageDelta(message_id=message_id, delta_content=delta.text))
        else:
            show(AssistantReasoningDelta(reasoning_id=message_id, delta_content=delta.text))
