"""What a server says of its tools, made fit to be shown to a model, or left out with the reason.

A server is text of strangers. Its descriptions are cut and lose what could hide in them; a schema
that no model should see withdraws its tool; nothing it says gives a tool a name that another has.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.adapters.ci_text import visible
from runner.core.messages import MCP_PREFIX, ToolSpec
from runner.core.truncate import fit
from runner.core.wire import is_deeper

MAX_DESCRIPTION_BYTES = 2048
MAX_SCHEMA_BYTES = 64 * 1024
MAX_SCHEMA_DEPTH = 32
MAX_TOOLS = 500
MAX_LEFT_OUT = 20
"""How many of the tools that are left out are named."""

NAME = re.compile(r"[A-Za-z0-9_.-]+")
MAX_NAME_CHARS = 128
"""What the providers take as the name of a tool; a `.` becomes `_`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One tool of a server: what the server calls it, what the model is shown, and the hash of
    all that the server said of it."""

    name: str
    spec: ToolSpec
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The tools of a server, and why others are left out."""

    tools: tuple[Listed, ...] = ()
    left_out: tuple[str, ...] = ()


def listing(
    server: str, said: Sequence[Mapping[str, Any]], wanted: tuple[str, ...] | None
) -> Listing:
    """The tools among what a server `said`, in the protocol's own words, by name.

    `wanted` are the server's tools that the spec asks for; None is all of them.
    """
    tools: dict[str, Listed] = {}
    left_out: list[str] = []
    for number, one in enumerate(said):
        if number >= MAX_TOOLS:
            left_out.append(f"it has more than {MAX_TOOLS} tools; the rest is left out")
            break
        name = str(one.get("name", ""))
        if wanted is not None and name not in wanted and "*" not in wanted:
            continue
        full = full_name(server, name)
        why = _unfit(name, full, one.get("inputSchema"))
        if why is None and full in tools:
            why = "another one has this name"
        if why is not None:
            left_out.append(f"its tool {visible(name[:80])!r} is left out: {why}")
            continue
        tools[full] = Listed(name=name, spec=_spec(full, one), sha256=_hash(one))
    left_out += _lacking(said, wanted or ())
    if len(left_out) > MAX_LEFT_OUT:
        more = len(left_out) - MAX_LEFT_OUT
        left_out[MAX_LEFT_OUT:] = [f"there are {more} more reasons like these"]
    return Listing(tools=tuple(tools[full] for full in sorted(tools)), left_out=tuple(left_out))


def _lacking(said: Sequence[Mapping[str, Any]], wanted: tuple[str, ...]) -> list[str]:
    names = {one.get("name") for one in said}
    return [f"it has no tool {name!r}" for name in wanted if name != "*" and name not in names]


def full_name(server: str, tool: str) -> str:
    """What the model calls a tool of a server."""
    return f"{MCP_PREFIX}{server}__{tool.replace('.', '_')}"


def plain(text: str, max_bytes: int) -> str:
    """A text of a server without control characters and what turns text around, cut."""
    lines = (visible(line) for line in text.replace("\t", " ").split("\n"))
    return fit("\n".join(lines).strip(), max_bytes)


def _unfit(name: str, full: str, schema: Any) -> str | None:
    if not NAME.fullmatch(name) or len(full) > MAX_NAME_CHARS:
        return f"a name is letters, digits, `_`, `-` and `.`, at most {MAX_NAME_CHARS} in all"
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return "its input schema describes no object"
    if is_deeper(schema, MAX_SCHEMA_DEPTH):
        return f"its input schema is nested deeper than {MAX_SCHEMA_DEPTH}"
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except ValueError:  # no provider could read the request
        return "its input schema holds a number that JSON has not"
    too_long = f"its input schema is longer than {MAX_SCHEMA_BYTES // 1024} KiB"
    return too_long if size > MAX_SCHEMA_BYTES else None


def _spec(full: str, one: Mapping[str, Any]) -> ToolSpec:
    annotations = one.get("annotations") or {}
    return ToolSpec(
        name=full,
        description=plain(str(one.get("description") or ""), MAX_DESCRIPTION_BYTES),
        input_schema=_cleaned(one["inputSchema"]),
        read_only=annotations.get("readOnlyHint") is True,
        checks_itself=True,
    )


def _cleaned(schema: Any) -> Any:
    """The schema, with its descriptions treated as the tool's own is."""
    if isinstance(schema, Mapping):
        return {
            key: plain(value, MAX_DESCRIPTION_BYTES)
            if key in ("description", "title") and isinstance(value, str)
            else _cleaned(value)
            for key, value in schema.items()
        }
    return [_cleaned(value) for value in schema] if isinstance(schema, list) else schema


def _hash(one: Mapping[str, Any]) -> str:
    """Of everything that tells what a tool is, however the server orders it."""
    said = {key: one.get(key) for key in ("name", "description", "inputSchema", "annotations")}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
