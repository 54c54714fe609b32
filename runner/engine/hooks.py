"""Hooks: put each on the log, run those of one event together, record what each answers.

An answer that is on the log is never asked for again; a hook that was cut short is.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from runner.core import hook_steps
from runner.core.endings import Ending, exit_code
from runner.core.events import HookEnd, HookError, HookOutput, HookStart, SessionWarning
from runner.core.hook_answers import Reading, read
from runner.core.hook_steps import MAX_STOP_BLOCKS
from runner.core.hooks import Handler, block_reason, handlers, hook_type, in_order, key
from runner.core.outcome import final_text
from runner.core.spec import HookEvent
from runner.core.state import MAIN, State
from runner.core.steps import HookPoint
from runner.core.truncate import fit
from runner.engine.engine import Engine
from runner.engine.recorder import Recorder, Recording
from runner.ports import JournalError

KEPT_BYTES = 4_000
"""How much of each text a hook is told, and prints, stands in the log."""

SessionSource = Literal["startup", "resume", "fork"]
Payload = Mapping[str, Any]


async def ask(
    engine: Engine,
    about: Iterable[Handler],
    point: HookPoint,
    payload: Payload,
    *,
    most_s: float | None = None,
) -> tuple[HookOutput, ...]:
    """Ask those of the hooks that have not answered yet; the answers of all, in the spec's order.

    Each may take its own `timeout`, else `limits.hook`, and never more than `most_s`. Cancelled:
    what runs is stopped, and recorded as cancelled. Raises `JournalError`.
    """
    if not (asked := {handler.id: handler for handler in about}):
        return ()
    told = {
        "hook_event_name": point.event,
        "permission_mode": engine.recorder.state.need.permission_mode,
        **_agent(engine.recorder.state),
        **payload,
    }
    silent = [asked[id_] for id_ in asked if id_ not in _answers(engine, point)]
    before, engine.phase = engine.phase, f"hooks: {point.event}"
    try:
        async with asyncio.TaskGroup() as group:
            for handler in silent:
                group.create_task(_run_one(engine, handler, point, told, most_s))
    except* JournalError as broken:
        raise JournalError(str(broken.exceptions[0])) from None
    finally:
        engine.phase = before
    ends = _answers(engine, point)
    return in_order(end for id_, end in ends.items() if id_ in asked)


def _agent(state: State) -> Payload:
    """Which sub-agent it is about; nothing for the main loop."""
    agent = state.agents.get(state.agent_id)
    if agent is None:
        return {}
    return {"agent_id": state.agent_id, "agent_type": agent.started.agent_name}


def _answers(engine: Engine, point: HookPoint) -> dict[str, HookEnd]:
    heard = engine.recorder.state.main.heard
    return {end.handler: end for end in heard.get(key(point.event, point.subject), ())}


async def _run_one(
    engine: Engine,
    handler: Handler,
    point: HookPoint,
    told: Payload,
    most_s: float | None,
) -> None:
    assert engine.hooks is not None, "a run whose spec has hooks can run them"
    hook, recorder = handler.hook, engine.recorder
    start = HookStart(
        hook_invocation_id=engine.new_id(),
        hook_type=hook_type(point.event),
        hook_event_name=point.event,
        handler=handler.id,
        command=_shown(handler),
        subject=point.subject,
        input=_cut(recorder, told),
    )
    recorder.record(start)
    began = engine.clock.monotonic()
    limit_s = recorder.state.need.limits.hook if hook.timeout is None else hook.timeout
    reading, cut_by = None, "the runner failed"
    try:
        ran = await engine.hooks.run(
            hook, told, limit_s if most_s is None else min(limit_s, most_s)
        )
        reading = read(point.event, ran, fail_closed=hook.fail_closed)
    except asyncio.CancelledError:
        cut_by = "the run was stopped"
        raise
    finally:
        if reading is None:
            recorder.record(_unanswered(start, handler.position, cut_by))
    printed = "" if reading.quiet else ran.stdout
    end = HookEnd(
        **_common(start),
        position=handler.position,
        success=reading.outcome == "success",
        outcome=reading.outcome,
        output=reading.output,
        error=HookError(message=reading.problem, source=start.command) if reading.problem else None,
        exit_code=ran.exit_code,
        duration_ms=round((engine.clock.monotonic() - began) * 1000),
        stdout=fit(recorder.masked(printed), KEPT_BYTES),
        stderr=fit(recorder.masked(ran.stderr), KEPT_BYTES),
    )
    recorder.record(end)
    _tell(engine, start, reading)


def _common(start: HookStart) -> dict[str, Any]:
    kept = ("hook_invocation_id", "hook_type", "hook_event_name", "handler", "subject")
    return {name: getattr(start, name) for name in kept}


def _unanswered(start: HookStart, position: int, why: str) -> HookEnd:
    error = HookError(message=f"{why} before it had answered", source=start.command)
    return HookEnd(
        **_common(start), position=position, success=False, outcome="cancelled", error=error
    )


def _tell(engine: Engine, start: HookStart, reading: Reading) -> None:
    """What a person should see."""
    name = f"{start.hook_event_name} hook `{start.command}`"
    if reading.problem is not None:
        message = f"{name}: {reading.problem}"
        engine.recorder.record(SessionWarning(warning_type="hook_error", message=message))
    if reading.output is not None and reading.output.system_message:
        message = f"{name}: {reading.output.system_message}"
        engine.recorder.record(SessionWarning(warning_type="hook", message=message))


def _shown(handler: Handler) -> str:
    words = " ".join([handler.hook.command, *(handler.hook.args or ())])
    return words if len(words) <= 200 else words[:197] + "..."


def _cut(recorder: Recording, value: Any) -> Any:
    """The value with its long texts shortened."""
    if isinstance(value, str):
        return fit(recorder.masked(value), KEPT_BYTES)
    if isinstance(value, Mapping):
        return {name: _cut(recorder, item) for name, item in value.items()}
    return [_cut(recorder, item) for item in value] if isinstance(value, list | tuple) else value


def close_hooks(recorder: Recorder) -> None:
    """Say of hooks that were running when the run was killed that they have not answered.

    They are asked again when they are still due. Raises `JournalError`.
    """
    for agent_id, start in recorder.state.open_hooks.values():
        recorder.record(_unanswered(start, 0, "the run was killed"), agent_id or None)


# -- the points of a run ------------------------------------------------------------------------


async def run_points(engine: Engine, points: tuple[HookPoint, ...]) -> None:
    """The hooks the decision table asks for: of ended calls, or of the end of the run."""
    for point in points:
        if point.event == "Stop":
            await _stop(engine, point)
        else:
            await _after_call(engine, point)


async def _after_call(engine: Engine, point: HookPoint) -> None:
    state = engine.recorder.state
    about = hook_steps.call_handlers(state, MAIN, point)
    result = state.main.results[point.subject]
    payload = {
        "tool_name": result.name,
        "tool_input": hook_steps.arguments_of(state.main, point.subject),
        "tool_use_id": point.subject,
        **(
            {"error": result.content, "is_interrupt": False}
            if point.event == "PostToolUseFailure"
            else {"tool_response": {"content": result.content}}
        ),
    }
    await ask(engine, about, point, payload)


async def _stop(engine: Engine, point: HookPoint) -> None:
    state = engine.recorder.state
    payload = {
        "stop_hook_active": state.main.stop_blocks > 0,
        "last_assistant_message": final_text(state),
    }
    await ask(engine, handlers(state.need, "Stop"), point, payload)
    blocked = hook_steps.stop_block(engine.recorder.state.main, "Stop")
    if blocked is not None and state.main.stop_blocks >= MAX_STOP_BLOCKS:
        say_ignored(engine, "Stop", blocked)


async def session_start(engine: Engine, source: SessionSource) -> None:
    """A run begins. What these hooks add is told to the model before it is asked."""
    spec = engine.recorder.state.need
    about = handlers(spec, "SessionStart", source)
    await ask(
        engine, about, _once(engine, "SessionStart", about), {"source": source, "model": spec.model}
    )


async def submit_prompt(engine: Engine, prompt: str) -> bool:
    """Whether the prompt may be asked; what hooks add is told to the model after it."""
    digest = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
    point = HookPoint(event="UserPromptSubmit", subject=digest[:12])
    about = handlers(engine.recorder.state.need, "UserPromptSubmit")
    await ask(engine, about, point, {"prompt": prompt})
    return engine.recorder.state.hook_stop is None


async def session_end(engine: Engine, ending: Ending) -> None:
    """The run has ended. Without a `timeout` a hook gets `shutdown_grace`; after a stop, half."""
    state = engine.recorder.state
    grace_s = state.need.limits.shutdown_grace
    payload = {
        "reason": "other",
        "subtype": ending.subtype,
        "error_type": ending.error_type,
        "exit_code": exit_code(ending),
    }
    about = handlers(state.need, "SessionEnd", "other")
    hasty = [handler for handler in about if handler.hook.timeout is None]
    patient = [handler for handler in about if handler not in hasty]
    point = _once(engine, "SessionEnd", about)
    # After a stop somebody waits, and the result is still to be written in the same grace.
    most_s = engine.left_s(grace_s) / 2 if state.abort else None
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(engine, patient, point, payload, most_s=most_s))
            group.create_task(ask(engine, hasty, point, payload, most_s=most_s or grace_s))
    except* JournalError as broken:
        raise JournalError(str(broken.exceptions[0])) from None


def _once(engine: Engine, event: HookEvent, about: tuple[Handler, ...]) -> HookPoint:
    """A point whose answers are never taken for those of another."""
    return HookPoint(event=event, subject=engine.new_id() if about else "")


async def notify(engine: Engine, kind: str, message: str) -> None:
    """Somebody would be told this, if they were there."""
    about = handlers(engine.recorder.state.need, "Notification", kind)
    payload = {"notification_type": kind, "message": message}
    await ask(engine, about, _once(engine, "Notification", about), payload)


async def before_compaction(engine: Engine, trigger: str, instructions: str | None) -> str | None:
    """Why there must be no compaction now; None when there may be one.

    `trigger` is manual or auto. To be called before anything of the compaction is recorded.
    """
    about = handlers(engine.recorder.state.need, "PreCompact", trigger)
    payload = {"trigger": trigger, "custom_instructions": instructions or ""}
    point = HookPoint(event="PreCompact", subject=trigger)
    return block_reason(await ask(engine, about, point, payload))


def say_ignored(engine: Engine, event: HookEvent, blocked: str) -> None:
    """Record that hooks blocked once too often. Raises `JournalError`."""
    message = f"{event} hooks blocked {MAX_STOP_BLOCKS} times in a row; this is ignored: {blocked}"
    engine.recorder.record(SessionWarning(warning_type="hook_limit", message=message))
