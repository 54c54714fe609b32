"""JSON Schemas of what a run writes, drawn from the dataclasses that write it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from runner.core import wire
from runner.core.events import EPHEMERAL_TYPES, PERSISTED_TYPES, RunnerResult
from runner.core.outcome import Result

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: Mapping[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Decimal: {"type": "number"},
}


def result_schema() -> Schema:
    """The schema of `result.json`. Keys that are not listed are allowed: more may come."""
    return {
        "$schema": _DIALECT,
        "title": "The result of a run",
        "description": "result.json, the runner.result event, and the last line of stdout.",
        **_of(Result),
    }


def event_schema() -> Schema:
    """The schema of one line of `events.jsonl`, or of stdout in the format `events`."""
    kinds = {**PERSISTED_TYPES, **EPHEMERAL_TYPES}
    return {
        "$schema": _DIALECT,
        "title": "An event of a run",
        "description": "One line of events.jsonl, or of stdout with --output-format events. "
        "A reader skips types it does not know.",
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "timestamp": {"type": "string", "format": "date-time"},
            "parentId": {"type": ["string", "null"]},
            "agentId": {"type": "string"},
            "ephemeral": {"const": True},
            "seq": {"type": "integer", "minimum": 0},
            "prev": {"type": ["string", "null"], "pattern": "^[0-9a-f]{64}$"},
            "type": {"type": "string"},
            "data": {"type": "object"},
        },
        "required": ["id", "timestamp", "parentId", "type", "data"],
        "allOf": [_variant(name, cls) for name, cls in kinds.items()],
    }


def _variant(name: str, cls: type) -> Schema:
    data = _of(Result) if cls is RunnerResult else _of(cls)
    about = (cls.__doc__ or "").strip().partition("\n")[0]
    then: Schema = {"properties": {"data": data}, "description": about}
    if name in PERSISTED_TYPES:
        then["required"] = ["seq", "prev"]
    else:
        then["required"] = ["ephemeral"]
    return {"if": {"properties": {"type": {"const": name}}}, "then": then}


def _of(hint: Any) -> Schema:
    """The schema of a type hint, the way `wire.encode` writes its values."""
    if dataclasses.is_dataclass(hint):
        return _object(hint)  # type: ignore[arg-type]  # a class: hints are no instances
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = [_of(arg) for arg in args if arg is not type(None)]
        return inner[0] if len(inner) == 1 else {"anyOf": inner}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple:
        return {"type": "array", "items": _of(args[0])}
    if origin is not None and issubclass(origin, Mapping):
        values = _of(args[1])
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    return dict(_SCALARS.get(hint, {}))


def _object(cls: type) -> Schema:
    hints = get_type_hints(cls)
    snake = getattr(cls, "wire_case", "camel") == "snake"
    properties: Schema = {}
    required = []
    for field in dataclasses.fields(cls):
        name = field.name if snake else wire.camel(field.name)
        properties[name] = _of(hints[field.name])
        if not _may_be_none(hints[field.name]):  # None is left out, all else is written
            required.append(name)
    if cls is Result:
        properties["stop_reason"] = {"type": ["string", "null"]}
        required.append("stop_reason")  # Claude's readers want the key, so it may be null
    return {"type": "object", "properties": properties, "required": required}


def _may_be_none(hint: Any) -> bool:
    return type(None) in get_args(hint)
