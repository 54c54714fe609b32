"""Tool calls: check, permit, start, run, record the one outcome. Every call gets exactly one."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from runner.core import wire
from runner.core.events import (
    ErrorCode,
    FileEffect,
    ToolContent,
    ToolError,
    ToolExecutionComplete,
    ToolExecutionPartialResult,
    ToolExecutionStart,
)
from runner.core.hooks import Ruling
from runner.core.messages import ToolCall
from runner.core.permissions import Verdict, removed
from runner.core.truncate import fit
from runner.engine.engine import Engine
from runner.engine.permit import ask_hooks, hooks_after, permit, record_decision
from runner.ports import (
    FileTool,
    JournalError,
    Tool,
    ToolContext,
    ToolDenied,
    ToolFailure,
    ToolOutput,
)

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
    try:
        async with asyncio.TaskGroup() as group:
            for call, tool in admitted:
                group.create_task(_run_one(engine, call, tool))
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
    refusal = _malformed(engine, call, tool)
    if refusal is None and tool is not None:
        said = await ask_hooks(engine, call, tool)
        if engine.recorder.state.hook_stop is not None:
            return None
        call, refusal = await _judge(engine, call, tool, said)
    if call.id not in engine.recorder.state.main.started:  # else: begun before an interruption
        effect = None if refusal or tool is None else _effect(tool, call)
        engine.recorder.record(
            ToolExecutionStart(
                tool_call_id=call.id,
                tool_name=call.name,
                arguments=call.arguments,
                turn_id=_turn_id(engine),
                effect=effect,
            )
        )
    if refusal is not None or tool is None:
        assert refusal is not None  # without a tool there is one
        _fail(engine, call, refusal.code, refusal.message)
        return None
    return call, tool


async def _judge(
    engine: Engine, call: ToolCall, tool: Tool, said: Ruling
) -> tuple[ToolCall, _Refusal | None]:
    """The call as hooks changed it, judged like any other, and why it must not run."""
    if said.updated_input is not None and said.decision not in ("deny", "ask"):
        call = replace(call, arguments=said.updated_input)
        if (wrong := _malformed(engine, call, tool)) is not None:
            message = f"a hook changed what you asked for into this: {wrong.message}"
            return call, replace(wrong, message=message)
    verdict = await permit(engine, call, tool, said)
    return call, None if verdict.allowed else _denial(engine, call, verdict.reason)


def _effect(tool: Tool, call: ToolCall) -> FileEffect | None:
    """What the call will do to a file, so that a resumed run can tell whether it did."""
    if not isinstance(tool, FileTool):
        return None
    try:
        return tool.foresee(call.arguments)
    except ToolFailure:
        return None  # the run of it will say why


def _malformed(engine: Engine, call: ToolCall, tool: Tool | None) -> _Refusal | None:
    spec = engine.recorder.state.need
    shown = {listed.name for listed in engine.offered}
    if tool is None or (call.name not in shown and not removed(spec, call.name)):
        listing = ", ".join(sorted(shown))
        message = f"there is no tool `{call.name}`; the tools are {listing}"
        return _Refusal(code="unknown_tool", message=message)
    if call.problem is not None:
        return _Refusal(code="invalid_arguments", message=call.problem)
    problems = _schema_problems(tool.spec.name, tool, call.arguments)
    if problems:
        return _Refusal(code="invalid_arguments", message="\n".join(problems))
    return None


def _schema_problems(name: str, tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    validator = _validator(json.dumps(wire.encode(tool.spec.input_schema)))
    errors = sorted(validator.iter_errors(dict(arguments)), key=lambda error: str(error.path))
    return [
        f"{name}: {'.'.join(map(str, error.path)) or 'arguments'}: {fit(error.message, 400)}"
        for error in errors[:10]
    ]


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema))


def _denial(engine: Engine, call: ToolCall, reason: str) -> _Refusal:
    template = engine.recorder.state.sentences.get("denied", "{tool}: {reason}")
    text = template.replace("{tool}", call.name).replace("{reason}", reason)
    return _Refusal(code="denied", message=text)


async def _run_one(engine: Engine, call: ToolCall, tool: Tool) -> None:
    context = _context(engine, call)
    started = engine.clock.monotonic()
    backstop = asyncio.timeout(context.timeout_s + BACKSTOP_S)
    try:
        async with backstop:
            output = _bounded(engine, await tool.run(call.arguments, context))
    except asyncio.CancelledError:
        text = engine.recorder.state.sentences.get("cancelled", "cancelled")
        _fail(engine, call, "cancelled", text, started)
        raise
    except ToolDenied as denied:
        verdict = Verdict(kind="denied-by-rules", reason=str(denied), rule=denied.rule)
        record_decision(engine, call, tool.permission(call.arguments), verdict)
        refusal = _denial(engine, call, verdict.reason)
        _fail(engine, call, refusal.code, refusal.message, started)
    except ToolFailure as failure:
        _fail(engine, call, "failed", fit(str(failure), context.max_output_bytes), started)
    except JournalError:
        raise
    except Exception as bug:  # a tool's bug is the model's problem to work around, not the end
        if backstop.expired():
            text = f"{call.name} took longer than {context.timeout_s:g} s and was stopped"
            _fail(engine, call, "timeout", text, started)
        else:
            text = f"{call.name} failed inside the runner: {type(bug).__name__}: {bug}"
            _fail(engine, call, "failed", fit(text, context.max_output_bytes), started)
    else:
        _complete(engine, call, output, started)


def _context(engine: Engine, call: ToolCall) -> ToolContext:
    limits = engine.recorder.state.need.limits
    reply = engine.recorder.state.main.reply
    ids = [asked.id for asked in reply.calls] if reply else [call.id]

    def progress(text: str) -> None:
        partial = ToolExecutionPartialResult(tool_call_id=call.id, partial_output=text)
        engine.recorder.show(partial)

    return ToolContext(
        call_id=f"{_turn_id(engine)}-{ids.index(call.id)}",  # ours: the model's id is no file name
        timeout_s=limits.tool,
        max_output_bytes=limits.max_tool_output_bytes,
        spill_dir=engine.files_dir,
        on_progress=progress,
        mask=engine.recorder.masked,
    )


def _bounded(engine: Engine, output: ToolOutput) -> ToolOutput:
    """The output cut to the limit, with the whole of it under its lasting name."""
    content, kept = output.content, output.output_file
    if kept is not None:
        lasting = _keep(Path(kept), engine.files_dir)
        content = content.replace(kept, str(engine.files_dir / Path(lasting).name))
        kept = lasting
    limit = engine.recorder.state.need.limits.max_tool_output_bytes
    content = fit(engine.recorder.masked(content), limit)  # a cut would leave half a secret
    return replace(output, content=content, output_file=kept)


def _complete(engine: Engine, call: ToolCall, output: ToolOutput, started: float) -> None:
    engine.recorder.record(
        ToolExecutionComplete(
            tool_call_id=call.id,
            tool_name=call.name,
            success=not output.is_error,
            turn_id=_turn_id(engine),
            result=None
            if output.is_error
            else ToolContent(content=output.content, detailed_content=output.details),
            error=ToolError(message=output.content, code="failed") if output.is_error else None,
            output_file=output.output_file,
            file=output.file,
            hooks=hooks_after(engine, call, engine.tools[call.name], ok=not output.is_error),
            duration_ms=_since_ms(engine, started),
        )
    )


def _keep(spilled: Path, files_dir: Path) -> str:
    """Give a whole output its lasting name, `files/<sha256>`."""
    with spilled.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())  # before a durable line names it
    spilled.replace(files_dir / digest)
    return f"files/{digest}"


def _fail(
    engine: Engine, call: ToolCall, code: ErrorCode, message: str, started: float | None = None
) -> None:
    ran = started is not None and code in ("failed", "timeout")
    engine.recorder.record(
        ToolExecutionComplete(
            tool_call_id=call.id,
            tool_name=call.name,
            success=False,
            turn_id=_turn_id(engine),
            error=ToolError(message=message, code=code),
            hooks=hooks_after(engine, call, engine.tools[call.name], ok=False) if ran else None,
            duration_ms=None if started is None else _since_ms(engine, started),
        )
    )


def _since_ms(engine: Engine, started: float) -> int:
    return round((engine.clock.monotonic() - started) * 1000)


def _turn_id(engine: Engine) -> str:
    return engine.recorder.state.main.open_turn or ""
