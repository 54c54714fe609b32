"""Tool calls: check, permit, start, run, record the one outcome. Every call gets exactly one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from jsonschema import Draft7Validator, Draft202012Validator

from runner.core import wire
from runner.core.deferral import is_kept_back
from runner.core.events import (
    ErrorCode,
    Fee,
    FileEffect,
    ToolExecutionPartialResult,
    ToolExecutionProgress,
    ToolExecutionStart,
)
from runner.core.hooks import Ruling
from runner.core.limits import budget_left_usd, budget_reached
from runner.core.messages import AGENT_TOOL, ToolCall
from runner.core.permissions import removed
from runner.core.state import MAIN
from runner.core.truncate import fit
from runner.core.verdicts import Verdict
from runner.engine.engine import Crew, Engine
from runner.engine.permit import ask_hooks, permit, record_decision
from runner.engine.results import bounded, complete, fail, open_turn
from runner.ports import (
    FileTool,
    JournalError,
    PaidTool,
    Tool,
    ToolContext,
    ToolDenied,
    ToolFailure,
)

_UNBOUNDED = frozenset({"$dynamicRef", "$recursiveRef", "$ref", "patternProperties", "uniqueItems"})

BACKSTOP_S = 10.0
"""How much longer than its own limit a tool may take before the engine cuts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """Why a call is not run."""

    code: ErrorCode
    message: str


async def run_tools(engine: Engine, calls: tuple[ToolCall, ...]) -> None:
    """Carry out a batch: checks one after the other, then everything allowed together.

    Cancelled: what runs is stopped, and its outcome is recorded as cancelled.
    """
    admitted = []
    for call in calls:
        if (ready := await _admit(engine, call)) is not None:
            admitted.append(ready)
        if engine.recorder.state.hook_stop is not None:
            break
    together: list[asyncio.Task[None]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for call, tool in admitted:
                together.append(group.create_task(_carry_out(engine, call, tool, together)))
    except* JournalError as broken:
        failure = broken
    else:
        return
    raise JournalError(str(failure.exceptions[0]))


async def _admit(engine: Engine, call: ToolCall) -> tuple[ToolCall, Tool] | None:
    """The call as it may run, its start recorded, and its tool; else its refusal is recorded.

    When a hook stops the run instead, nothing is: the loop answers what is open.
    """
    tool = engine.tools.get(call.name)
    refusal = await _malformed(engine, call, tool)
    if refusal is None and tool is not None:
        said = await ask_hooks(engine, call, tool)
        if engine.recorder.state.hook_stop is not None:
            return None
        call, refusal = await _judge(engine, call, tool, said)
    is_new = call.id not in engine.recorder.state.main.started  # else: begun before, and paid
    fee = tool.fee if is_new and refusal is None and isinstance(tool, PaidTool) else None
    if fee is not None:
        refusal = _unaffordable(engine, fee)
    if is_new:
        effect = None if refusal or tool is None else _effect(tool, call)
        engine.recorder.record(
            ToolExecutionStart(
                tool_call_id=call.id,
                tool_name=call.name,
                arguments=call.arguments,
                turn_id=open_turn(engine),
                effect=effect,
                fee=None if refusal else fee,
            )
        )
    if refusal is not None or tool is None:
        assert refusal is not None  # without a tool there is one
        fail(engine, call, refusal.code, refusal.message)
        return None
    return call, tool


async def _judge(
    engine: Engine, call: ToolCall, tool: Tool, said: Ruling
) -> tuple[ToolCall, _Refusal | None]:
    """The call as hooks changed it, judged like any other, and why it must not run."""
    if said.updated_input is not None and said.decision not in ("deny", "ask"):
        call = replace(call, arguments=said.updated_input)
        if (wrong := await _malformed(engine, call, tool)) is not None:
            message = f"a hook changed what you asked for into this: {wrong.message}"
            return call, replace(wrong, message=message)
    verdict = await permit(engine, call, tool, said)
    return call, None if verdict.allowed else _denial(engine, call, verdict.reason)


def _unaffordable(engine: Engine, fee: Fee) -> _Refusal | None:
    """Why a call that costs by itself is not made; None when the budget pays for it."""
    left = budget_left_usd(engine.recorder.state, MAIN)
    if left is None or fee.cost_usd <= left:
        return None
    message = f"the call costs ${fee.cost_usd:f}, and ${left:f} of `max_budget_usd` are left"
    return _Refusal(code="not_run", message=message)


def _effect(tool: Tool, call: ToolCall) -> FileEffect | None:
    """What the call will do to a file, so that a resumed run can tell whether it did."""
    if not isinstance(tool, FileTool):
        return None
    try:
        return tool.foresee(call.arguments)
    except ToolFailure:
        return None  # the run of it will say why


async def _malformed(engine: Engine, call: ToolCall, tool: Tool | None) -> _Refusal | None:
    spec = engine.recorder.state.need
    shown = {listed.name for listed in engine.offered}
    if tool is None or (call.name not in shown and not removed(spec, call.name)):
        listing = ", ".join(sorted(shown))
        message = f"there is no tool `{call.name}`; the tools are {listing}"
        return _Refusal(code="unknown_tool", message=message)
    if is_kept_back(engine.recorder.state, call.name):
        message = f"{call.name} is not loaded yet: call ToolSearch with `select:{call.name}` first"
        return _Refusal(code="unknown_tool", message=message)
    if call.problem is not None:
        return _Refusal(code="invalid_arguments", message=call.problem)
    if tool.spec.checks_itself:
        return None
    problems = await _schema_problems(engine, tool, call.arguments)
    if problems:
        return _Refusal(code="invalid_arguments", message="\n".join(problems))
    return None


async def _schema_problems(
    engine: Engine, tool: Tool, arguments: Mapping[str, Any]
) -> Sequence[str]:
    """What of the arguments does not fit. Where that may take for ever, it is found out in a
    process that can be stopped: here it would stop the clock and the signals."""
    name, schema = tool.spec.name, tool.spec.input_schema
    if engine.output_errors is not None and _is_unbounded(schema):
        found = await engine.output_errors(schema, arguments)
        return [f"{name}: {problem}" for problem in found]
    validator = _validator(json.dumps(wire.encode(schema)))
    errors = sorted(validator.iter_errors(dict(arguments)), key=lambda error: str(error.path))
    return [
        f"{name}: {'.'.join(map(str, error.path)) or 'arguments'}: {fit(error.message, 400)}"
        for error in errors[:10]
    ]


def _is_unbounded(schema: object) -> bool:
    """Whether comparing may take longer than the two are long: a pattern, a schema in itself."""
    if isinstance(schema, Mapping):
        # A property may well be called `pattern`; then its value is a schema and no text.
        has_pattern = isinstance(schema.get("pattern"), str)
        return has_pattern or bool(_UNBOUNDED & schema.keys()) or _is_unbounded([*schema.values()])
    return (
        isinstance(schema, Sequence)
        and not isinstance(schema, str)
        and any(map(_is_unbounded, schema))
    )


@cache
def _validator(schema: str) -> Draft202012Validator | Draft7Validator:
    read = json.loads(schema)
    kind = Draft7Validator if "draft-07" in read.get("$schema", "") else Draft202012Validator
    return kind(read)


def _denial(engine: Engine, call: ToolCall, reason: str) -> _Refusal:
    template = engine.recorder.state.sentences.get("denied", "{tool}: {reason}")
    text = template.replace("{tool}", call.name).replace("{reason}", reason)
    return _Refusal(code="denied", message=text)


async def _carry_out(
    engine: Engine, call: ToolCall, tool: Tool, together: Sequence[asyncio.Task[None]]
) -> None:
    """One call of a batch. Of all the agents of a run only one changes something at a time.

    A sub-agent that spent the last of the budget, or was told by a hook that the run has to stop,
    ends the whole batch.
    """
    if call.name == AGENT_TOOL and engine.crew is not None:
        await _run_agent(engine, engine.crew, call)
        state = engine.recorder.state
        if budget_reached(state) or state.hook_stop is not None:
            for other in together:
                if other is not asyncio.current_task():
                    other.cancel()
        return
    async with contextlib.nullcontext() if tool.spec.read_only else engine.effects:
        await _run_one(engine, call, tool)


async def _run_agent(engine: Engine, crew: Crew, call: ToolCall) -> None:
    """Cancelled: nothing is recorded. The table closes the sub-agent, and then answers the call."""
    started = engine.clock.monotonic()
    try:
        output = bounded(engine, await crew.spawn(engine, call))
    except ToolFailure as failure:
        fail(engine, call, "failed", str(failure), started)
    else:
        complete(engine, call, output, started)


async def _run_one(engine: Engine, call: ToolCall, tool: Tool) -> None:
    context = _context(engine, call)
    started = engine.clock.monotonic()
    backstop = asyncio.timeout(context.timeout_s + BACKSTOP_S)
    try:
        async with backstop:
            output = bounded(engine, await tool.run(call.arguments, context))
    except asyncio.CancelledError:
        text = engine.recorder.state.sentences.get("cancelled", "cancelled")
        fail(engine, call, "cancelled", text, started)
        raise
    except ToolDenied as denied:
        verdict = Verdict(kind="denied-by-rules", reason=str(denied), rule=denied.rule)
        record_decision(engine, call, tool.permission(call.arguments), verdict)
        refusal = _denial(engine, call, verdict.reason)
        fail(engine, call, refusal.code, refusal.message, started)
    except ToolFailure as failure:
        fail(engine, call, "failed", fit(str(failure), context.max_output_bytes), started)
    except JournalError:
        raise
    except Exception as bug:  # a tool's bug is the model's problem to work around, not the end
        if backstop.expired():
            text = f"{call.name} took longer than {context.timeout_s:g} s and was stopped"
            fail(engine, call, "timeout", text, started)
        else:
            text = f"{call.name} failed inside the runner: {type(bug).__name__}: {bug}"
            fail(engine, call, "failed", fit(text, context.max_output_bytes), started)
    else:
        complete(engine, call, output, started)


def _context(engine: Engine, call: ToolCall) -> ToolContext:
    limits = engine.recorder.state.need.limits
    reply = engine.recorder.state.main.reply
    ids = [asked.id for asked in reply.calls] if reply else [call.id]
    agent = engine.recorder.state.agent_id

    def progress(text: str) -> None:
        partial = ToolExecutionPartialResult(tool_call_id=call.id, partial_output=text)
        engine.recorder.show(partial)

    def status(text: str) -> None:
        engine.recorder.show(ToolExecutionProgress(tool_call_id=call.id, progress_message=text))

    return ToolContext(
        # ours: the model's id is no file name
        call_id=f"{agent}-{open_turn(engine)}-{ids.index(call.id)}".removeprefix("-"),
        timeout_s=limits.tool,
        max_output_bytes=limits.max_tool_output_bytes,
        spill_dir=engine.files_dir,
        on_progress=progress,
        on_status=status,
        mask=engine.recorder.masked,
    )
