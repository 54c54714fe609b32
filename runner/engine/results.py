"""The one outcome of a tool call: its output within the limit, or why there is none."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from runner.core.events import ErrorCode, ToolContent, ToolError, ToolExecutionComplete
from runner.core.messages import ToolCall
from runner.core.truncate import fit
from runner.engine.engine import Engine
from runner.engine.permit import hooks_after
from runner.ports import ToolOutput


def bounded(engine: Engine, output: ToolOutput) -> ToolOutput:
    """The output cut to the limit, with the whole of it under its lasting name."""
    content, kept = output.content, output.output_file
    if kept is not None:
        lasting = _keep(Path(kept), engine.files_dir)
        content = content.replace(kept, str(engine.files_dir / Path(lasting).name))
        kept = lasting
    limit = engine.recorder.state.need.limits.max_tool_output_bytes
    content = fit(engine.recorder.masked(content), limit)  # a cut would leave half a secret
    return replace(output, content=content, output_file=kept)


def complete(engine: Engine, call: ToolCall, output: ToolOutput, started: float) -> None:
    """Record what a call gave. Raises `JournalError`."""
    for fact in output.facts:
        engine.recorder.record(fact)
    engine.recorder.record(
        ToolExecutionComplete(
            tool_call_id=call.id,
            tool_name=call.name,
            success=not output.is_error,
            turn_id=open_turn(engine),
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


def fail(
    engine: Engine, call: ToolCall, code: ErrorCode, message: str, started: float | None = None
) -> None:
    """Record why a call gave nothing; `started` unless it was not run. Raises `JournalError`."""
    ran = started is not None and code in ("failed", "timeout")
    engine.recorder.record(
        ToolExecutionComplete(
            tool_call_id=call.id,
            tool_name=call.name,
            success=False,
            turn_id=open_turn(engine),
            error=ToolError(message=message, code=code),
            hooks=hooks_after(engine, call, engine.tools[call.name], ok=False) if ran else None,
            duration_ms=None if started is None else _since_ms(engine, started),
        )
    )


def _since_ms(engine: Engine, started: float) -> int:
    return round((engine.clock.monotonic() - started) * 1000)


def open_turn(engine: Engine) -> str:
    """The id of the open turn."""
    return engine.recorder.state.main.open_turn or ""
