"""How tools describe themselves and answer: schemas with their texts, output within its limit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.core.events import FileState
from runner.core.messages import ToolSpec
from runner.core.truncate import fit
from runner.ports import ToolContext, ToolOutput

UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME_CHARS = 80


def tool_spec(
    name: str,
    descriptions: Mapping[str, str],
    properties: Mapping[str, Mapping[str, Any]],
    *,
    required: tuple[str, ...] = (),
    read_only: bool = False,
) -> ToolSpec:
    """A tool whose texts are `descriptions[name]` and, per property, `descriptions[name.property]`.

    Raises `KeyError` with the key of a text that is missing.
    """
    described = {
        key: {**schema, "description": descriptions[f"{name}.{key}"].strip()}
        for key, schema in properties.items()
    }
    schema = {
        "type": "object",
        "properties": described,
        "required": list(required),
        "additionalProperties": False,
    }
    description = descriptions[name].strip()
    return ToolSpec(name=name, description=description, input_schema=schema, read_only=read_only)


def answer(
    text: str,
    context: ToolContext,
    *,
    details: str | None = None,
    is_error: bool = False,
    file: FileState | None = None,
) -> ToolOutput:
    """`text` in at most `max_output_bytes`; when it is cut, all of it is in a file."""
    text = context.mask(text)
    raw = text.encode("utf-8", "surrogatepass")
    if details is not None:
        details = fit(context.mask(details), context.max_output_bytes)
    if len(raw) <= context.max_output_bytes:
        return ToolOutput(content=text, details=details, is_error=is_error, file=file)
    saved = _saved(raw, spill_file(context))
    return ToolOutput(
        content=fit(text, context.max_output_bytes, saved_as=saved),
        details=details,
        is_error=is_error,
        output_file=saved,
        file=file,
    )


def _saved(raw: bytes, file: Path) -> str | None:
    try:
        file.touch(mode=0o600)
        file.write_bytes(raw)
    except OSError:
        # The answer still has head and tail; the log says when the disk is the trouble.
        return None
    return str(file)


def spill_file(context: ToolContext) -> Path:
    """Where the whole output of this call goes; a model chooses call ids, so they are cleaned."""
    name = UNSAFE.sub("_", context.call_id)[:MAX_NAME_CHARS]
    if name != context.call_id:
        name += "-" + hashlib.sha256(context.call_id.encode("utf-8", "replace")).hexdigest()[:8]
    return context.spill_dir / f"{name}.txt"
