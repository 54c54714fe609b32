"""A compaction: one paid call for a summary, recorded before and after. It has no turn of its own.

The view of the conversation changes only when the outcome is recorded: whatever happens before
that, the run goes on with the view it had.
"""

from __future__ import annotations

from dataclasses import replace

from runner.core import context, summary
from runner.core.deferral import shown
from runner.core.events import CompactionTokens, CompactionTrigger, SessionError, SessionWarning
from runner.core.fold import NO_COMPACTION
from runner.core.messages import Usage
from runner.engine.call import BudgetRefused, prepare
from runner.engine.engine import Engine
from runner.engine.hooks import before_compaction
from runner.ports import ModelError


async def compact(engine: Engine, trigger: CompactionTrigger) -> None:
    """Ask for a summary and record what came of it, or trip the budget cap without asking.

    Cancelled: there is a start without an outcome. Raises `JournalError`.
    """
    if await _is_blocked(engine, trigger):
        return
    recorder = engine.recorder
    state = recorder.state
    asked = summary.summary_request(state, shown(state, engine.offered))
    try:
        call = await prepare(engine, asked, added=summary.wish(asked), is_shown=False)
        sent = replace(asked, max_output_tokens=call.reservation.max_output_tokens)
        recorder.record(summary.started(state, trigger, sent, call.reservation.cost_usd))
        began = engine.clock.monotonic()
        reply = await call.answer()
    except BudgetRefused as refused:
        recorder.record(refused.fact())
    except ModelError as error:
        recorder.record(summary.failed(recorder.state, trigger, error.kind, error.message))
    else:
        usage = reply.usage or Usage()
        used = CompactionTokens(
            model=call.request.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            duration=round((engine.clock.monotonic() - began) * 1000),
        )
        recorder.record(summary.completed(recorder.state, trigger, reply, used))
        show_context(engine)


async def _is_blocked(engine: Engine, trigger: CompactionTrigger) -> bool:
    """Ask the PreCompact hooks, and record what it means that they do not want it."""
    state = engine.recorder.state
    wish = state.main.command or state.need.compaction.instructions
    called = "manual" if trigger == "manual" else "auto"
    reason = await before_compaction(engine, called, wish)
    if reason is None:
        return engine.recorder.state.hook_stop is not None
    message = f"A PreCompact hook blocked the compaction: {reason}"
    match trigger:
        case "threshold":
            fact = SessionWarning(warning_type=NO_COMPACTION, message=f"{message}; none is made")
            engine.recorder.record(fact)
        case "manual":
            engine.recorder.record(SessionError(error_type="hook_stopped", message=message))
        case _:  # without it the request cannot be made
            engine.recorder.record(SessionError(error_type="context_limit", message=message))
    return True


def show_context(engine: Engine) -> None:
    """Show how full the window is, if anybody knows how large it is."""
    info = context.usage_info(engine.recorder.state)
    if info is not None:
        engine.recorder.show(info)
