"""JSON objects to dataclasses and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Literal

import pytest

from runner.core.wire import WireError, decode, encode, is_deeper, strict_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    part_name: str
    wire_case: ClassVar = "camel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """One field of every shape the codec knows."""

    wire_case: ClassVar = "snake"
    text: str
    number: int = 0
    ratio: float = 0.0
    yes: bool = False
    usd: Decimal = Decimal(0)
    word: Literal["a", "b"] = "a"
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    named: Mapping[str, Part] = field(default_factory=dict)
    free: Mapping[str, Any] = field(default_factory=dict)
    either: int | str = 0
    pass_: str | None = field(default=None, metadata={"wire": "pass"})


WHOLE = Whole(
    text="t",
    number=1,
    ratio=0.5,
    yes=True,
    usd=Decimal("0.000000001"),
    word="b",
    part=Part(part_name="p"),
    parts=(Part(part_name="q"),),
    named={"some_key": Part(part_name="r")},
    free={"snake_key": None, "list": [1, (2,)]},
    either="e",
    pass_="P",
)
JSON: dict[str, Any] = {
    "text": "t",
    "number": 1,
    "ratio": 0.5,
    "yes": True,
    "usd": 1e-09,
    "word": "b",
    "part": {"partName": "p"},
    "parts": [{"partName": "q"}],
    "named": {"some_key": {"partName": "r"}},
    "free": {"snake_key": None, "list": [1, [2]]},
    "either": "e",
    "pass": "P",
}


def test_a_value_is_encoded_field_by_field() -> None:
    """Names follow the class, keys of mappings stay as they are when a value is encoded."""
    assert encode(WHOLE) == JSON


def test_a_value_is_decoded_into_the_same_types() -> None:
    """Every field has its declared type when a JSON object is decoded."""
    wanted = encode(WHOLE) | {"free": {"snake_key": None, "list": [1, [2]]}}
    assert encode(decode(Whole, JSON)) == wanted
    assert decode(Whole, JSON).usd == Decimal("1e-9")


def test_fields_that_are_none_are_left_out() -> None:
    """The key is absent when its value is None."""
    assert "pass" not in encode(Whole(text="t"))


def test_null_and_absent_both_mean_the_default() -> None:
    """The default is taken when a key is null or not there."""
    assert decode(Whole, {"text": "t", "number": None}) == Whole(text="t")


def test_unknown_keys_are_skipped() -> None:
    """A newer writer's keys change nothing when its log is read."""
    assert decode(Whole, {"text": "t", "newer": {"deep": 1}}) == Whole(text="t")


@pytest.mark.parametrize(
    ("usd", "json"),
    [
        ("2", 2),
        ("2.50", 2.5),
        ("0.1", 0.1),
        ("1E+2", 100),
        ("0.123456789012345", 0.123456789012345),
    ],
)
def test_money_is_a_plain_number_and_comes_back_exactly(usd: str, json: float) -> None:
    """Fifteen digits survive when an amount goes through JSON."""
    encoded = encode(Decimal(usd))
    assert (encoded, type(encoded)) == (json, type(json))
    assert decode(Whole, {"text": "", "usd": encoded}).usd == Decimal(usd)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("text", 1, "text: expected str, got int"),
        ("number", "1", "number: expected int, got str"),
        ("number", True, "number: expected int, got bool"),
        ("ratio", "1", "ratio: expected float, got str"),
        ("yes", 1, "yes: expected bool, got int"),
        ("usd", "1", "usd: expected a number, got str"),
        ("usd", True, "usd: expected a number, got bool"),
        ("word", "c", "word: expected one of 'a', 'b', got 'c'"),
        ("part", [], "part: expected an object for Part, got list"),
        ("part", {}, "part: partName: missing"),
        ("parts", {}, "parts: expected a list, got dict"),
        ("parts", [{"partName": "q"}, 1], "parts: 1: expected an object for Part, got int"),
        ("named", [], "named: expected an object, got list"),
        ("named", {"k": 1}, "named: k: expected an object for Part, got int"),
    ],
)
def test_a_wrong_shape_is_named_with_its_place(key: str, value: Any, problem: str) -> None:
    """The error says where and what when a value does not fit."""
    with pytest.raises(WireError) as raised:
        decode(Whole, {"text": "t", key: value})
    assert str(raised.value) == problem


def test_a_missing_key_is_named() -> None:
    """The error names the key when a required one is absent."""
    with pytest.raises(WireError, match=r"^text: missing$"):
        decode(Whole, {})


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", '{"a": 1e999}'])
def test_numbers_that_json_has_not_are_refused(text: str) -> None:
    """They could be read, but not written to the log."""
    with pytest.raises(ValueError, match=r"is not JSON|is out of range"):
        strict_json(text)


def test_json_from_outside_is_read_as_it_is() -> None:
    """Numbers that fit stay what they are."""
    assert strict_json('{"a": [1, 1.5, null]}') == {"a": [1, 1.5, None]}


@pytest.mark.parametrize("shape", ["[{}]", '{{"a": {}}}'])
def test_depth_is_told_without_recursion(shape: str) -> None:
    """Lists and objects count alike, however deep they are."""
    text = "1"
    for _ in range(100):
        text = shape.format(text)
    assert not is_deeper(strict_json(text))
    assert is_deeper(strict_json(shape.format(text)))
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    assert is_deeper(deep)
