"""From tool calls as a model wrote them to ours: readable arguments, unique ids, or a problem."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.core.messages import ToolCall
from runner.core.wire import MAX_DEPTH, is_deeper, strict_json

_UNNAMED = "unnamed"
"""Stands in for a missing tool name: providers refuse a history in which a call has none."""

_EXCERPT_CHARS = 40
"""Shown before and behind a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawCall:
    """A call as it was received; every field may be empty or nonsense."""

    id: str = ""
    name: str = ""
    arguments: str = ""


def tool_calls(
    written: Iterable[RawCall], *, taken: Collection[str] = (), cut: bool = False
) -> tuple[ToolCall, ...]:
    """Read the calls of one reply. `taken` are the ids of earlier replies; `cut` says that the
    reply ran into its output limit, so that arguments may end in the middle."""
    calls: list[ToolCall] = []
    for number, raw in enumerate(written, start=len(taken) + 1):
        here = {call.id for call in calls}
        arguments, problem = read_arguments(raw.arguments, cut=cut)
        if not raw.name.strip():
            problem = "the call has no tool name"
        elif raw.id and raw.id in here:
            problem = f"the call id {raw.id} is used twice in one reply"
        call_id = _free(raw.id or f"call_{number}", here | set(taken))
        calls.append(
            ToolCall(
                id=call_id,
                name=raw.name.strip() or _UNNAMED,
                arguments={} if problem else arguments,
                problem=problem,
                raw_arguments=raw.arguments if problem and raw.arguments else None,
            )
        )
    return tuple(calls)


def read_arguments(text: str, *, cut: bool = False) -> tuple[Mapping[str, Any], str | None]:
    """The arguments and, if they cannot be read, what is wrong with them. No text at all is no
    arguments, unless the reply was cut."""
    cut_off = "the arguments are cut off: the reply reached its output limit"
    if not text.strip():
        return {}, cut_off if cut else None
    try:
        value = strict_json(text)
    except (ValueError, RecursionError) as error:
        near = _around(text, getattr(error, "pos", None))
        return {}, cut_off if cut else f"arguments are not valid JSON: {error}{near}"
    if not isinstance(value, dict):
        return {}, f"arguments are not a JSON object but {type(value).__name__}"
    if is_deeper(value):
        return {}, f"arguments are nested deeper than {MAX_DEPTH} levels"
    return value, None


def _around(text: str, position: int | None) -> str:
    """The place of a mistake; a model that gets its broken text back as no text can find it."""
    if position is None:
        return ""
    start = max(position - _EXCERPT_CHARS, 0)
    return f", in {text[start : position + _EXCERPT_CHARS]!r}"


def _free(wanted: str, used: Collection[str]) -> str:
    """`wanted`, or with the first number behind it that makes it new."""
    if wanted not in used:
        return wanted
    number = 2
    while f"{wanted}_{number}" in used:
        number += 1
    return f"{wanted}_{number}"
