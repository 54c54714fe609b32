"""From tool calls as a model wrote them to ours: readable arguments, unique ids, or a problem."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.core.messages import ToolCall

_UNNAMED = "unnamed"
"""Stands in for a missing tool name: providers refuse a history in which a call has none."""

MAX_DEPTH = 100
"""No tool needs arguments that are nested deeper; whoever walks deeper ones runs out of stack."""


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
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        return {}, cut_off if cut else f"arguments are not valid JSON: {error}"
    if not isinstance(value, dict):
        return {}, f"arguments are not a JSON object but {type(value).__name__}"
    if _is_deeper(value, MAX_DEPTH):
        return {}, f"arguments are nested deeper than {MAX_DEPTH} levels"
    return value, None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is out of range")
    return number


def _is_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects are nested deeper than that; level by level, not by recursion."""
    here = [value]
    for _ in range(levels):
        here = [child for item in here for child in _children(item)]
    return any(isinstance(item, dict | list) for item in here)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _free(wanted: str, used: Collection[str]) -> str:
    """`wanted`, or with the first number behind it that makes it new."""
    if wanted not in used:
        return wanted
    number = 2
    while f"{wanted}_{number}" in used:
        number += 1
    return f"{wanted}_{number}"
