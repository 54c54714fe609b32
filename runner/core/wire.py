"""JSON objects to frozen dataclasses and back: camelCase or snake_case outside, typed inside.

Rules of this file:
* `encode` leaves out fields that are None; `decode` skips keys it does not know, so that a log
  written by a newer version still reads.
* Mappings are free-form (tool arguments, schemas): their keys are never renamed.
* Money is `Decimal` inside and a plain JSON number outside; up to 15 significant digits survive.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache
from typing import (
    Any,
    Final,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")
Decoder = Callable[[Any], Any]

MAX_DEPTH: Final = 100
"""Nobody means JSON that is nested deeper; whoever walks it later would run out of stack."""


class WireError(ValueError):
    """A JSON value does not have the shape its dataclass asks for."""


def encode(value: Any) -> Any:
    """Turn a dataclass (or a value inside one) into what `json.dumps` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = _wire_names(type(value))
        items = ((wire, getattr(value, name)) for name, wire in names)
        return {wire: encode(item) for wire, item in items if item is not None}
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(cls: type[T], data: Mapping[str, Any]) -> T:
    """Build `cls` from a JSON object. Raises `WireError` when a value has the wrong shape."""
    return cast(T, _decoder(cast(Any, cls))(data))


def strict_json(text: str) -> Any:
    """JSON from outside: without NaN and numbers that are out of range.

    Raises `ValueError` and `RecursionError`. How deep it may be is up to `is_deeper`.
    """
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)


def is_deeper(value: object, levels: int = MAX_DEPTH) -> bool:
    """Whether lists and objects are nested deeper than that; level by level, not by recursion."""
    here = [value]
    for _ in range(levels):
        here = [child for item in here for child in _children(item)]
    return any(isinstance(item, dict | list) for item in here)


def camel(name: str) -> str:
    """`tool_call_id` is `toolCallId` on the wire."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is out of range")
    return number


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


@cache
def _wire_names(cls: type) -> tuple[tuple[str, str], ...]:
    snake = getattr(cls, "wire_case", "camel") == "snake"
    return tuple(
        (f.name, f.metadata.get("wire") or (f.name if snake else camel(f.name)))
        for f in dataclasses.fields(cls)
    )


@cache
def _decoder(hint: Any) -> Decoder:
    if dataclasses.is_dataclass(hint):
        return _dataclass_decoder(cast(type, hint))
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _optional_decoder(args)
    if origin is tuple:
        return _tuple_decoder(args[0])
    if origin is Literal:
        return _literal_decoder(args)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_decoder(args[1])
    return _SCALARS.get(hint, _anything)


def _dataclass_decoder(cls: type) -> Decoder:
    hints = get_type_hints(cls)
    names = _wire_names(cls)
    required = {
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }

    def decode_object(data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise WireError(f"expected an object for {cls.__name__}, got {type(data).__name__}")
        values = {}
        for name, wire in names:
            if data.get(wire) is not None:
                values[name] = _at(wire, _decoder(hints[name]), data[wire])
            elif name in required:
                raise WireError(f"{wire}: missing")
        return cls(**values)

    return decode_object


def _at(where: str, decoder: Decoder, data: Any) -> Any:
    try:
        return decoder(data)
    except WireError as error:
        raise WireError(f"{where}: {error}") from None


def _optional_decoder(args: tuple[Any, ...]) -> Decoder:
    inner = [arg for arg in args if arg is not type(None)]
    if len(inner) != 1:
        return _anything
    decoder = _decoder(inner[0])
    return lambda data: None if data is None else decoder(data)


def _tuple_decoder(item: Any) -> Decoder:
    decoder = _decoder(item)

    def decode_tuple(data: Any) -> tuple[Any, ...]:
        if not isinstance(data, (list, tuple)):
            raise WireError(f"expected a list, got {type(data).__name__}")
        return tuple(_at(str(i), decoder, entry) for i, entry in enumerate(data))

    return decode_tuple


def _mapping_decoder(item: Any) -> Decoder:
    decoder = _decoder(item)

    def decode_mapping(data: Any) -> Mapping[str, Any]:
        if not isinstance(data, Mapping):
            raise WireError(f"expected an object, got {type(data).__name__}")
        return {key: _at(key, decoder, entry) for key, entry in data.items()}

    return decode_mapping


def _literal_decoder(allowed: tuple[Any, ...]) -> Decoder:
    def decode_literal(data: Any) -> Any:
        if data not in allowed:
            raise WireError(f"expected one of {', '.join(map(repr, allowed))}, got {data!r}")
        return data

    return decode_literal


def _scalar(kind: type, *accepted: type) -> Decoder:
    def decode_scalar(data: Any) -> Any:
        if not isinstance(data, accepted) or (isinstance(data, bool) and bool not in accepted):
            raise WireError(f"expected {kind.__name__}, got {type(data).__name__}")
        return data

    return decode_scalar


def _decimal(data: Any) -> Decimal:
    if isinstance(data, bool) or not isinstance(data, (int, float, Decimal)):
        raise WireError(f"expected a number, got {type(data).__name__}")
    return data if isinstance(data, Decimal) else Decimal(repr(data))


def _anything(data: Any) -> Any:
    return data


_SCALARS: dict[Any, Decoder] = {
    str: _scalar(str, str),
    int: _scalar(int, int),
    bool: _scalar(bool, bool),
    float: lambda data: float(_scalar(float, int, float)(data)),
    Decimal: _decimal,
}
