"""The schema of the answer: inline or in a file, checked as a whole before anything runs.

Rules of this file: what could go wrong while an answer is compared is found here: a schema that
is none, a pattern that does not compile, a reference that leads nowhere or out of the schema.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from runner.adapters.specfile.problem import INVALID, At, Invalid, Mark, Source, neighbour, shown
from runner.adapters.specfile.texts import Unusable, read_bytes
from runner.adapters.specfile.types import ExistingPath, Schema, mismatch
from runner.adapters.specfile.yaml_document import Broken, Fields, Items, Node, Scalar, parse
from runner.adapters.specfile.yaml_text import MAX_BYTES

DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
}
_DATA = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords whose values are no schemas."""

_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose values are schemas by name."""

_MAX_PROBLEMS = 10

_Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSchema:
    """A JSON Schema as plain JSON."""

    expects: str = "a JSON Schema, or the path of a file with one"

    def read(self, node: Node, at: At) -> Any:
        """See the protocol."""
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.text:
            found = _from_file(node, at)
            if found is None:
                return INVALID
            node = found
        return mismatch(self, node, at) if not isinstance(node, Fields) else inline(node, at)

    def write(self, value: Any) -> Any:
        """See the protocol."""
        return value

    def schema(self) -> Schema:
        """See the protocol."""
        return {"anyOf": [{"type": "object"}, {"type": "string", "minLength": 1}]}


def inline(node: Fields, at: At, what: str = "the answer") -> Any:
    """The schema of an object that stands in the spec; `what` the object is, in words."""
    try:
        schema = _plain(node)
    except _Unsuitable as error:
        if error.node is None:
            return INVALID  # said already
        return at.refuse(error.node.mark, "a number that JSON cannot hold")
    return _checked(schema, node, at, what)


class _Unsuitable(Exception):
    """Something in the schema is no JSON: `node`, or what was refused before."""

    def __init__(self, node: Node | None) -> None:
        super().__init__()
        self.node = node


def _from_file(node: Scalar, at: At) -> Node | None:
    path = ExistingPath(kind="file").read(node, at)
    if isinstance(path, Invalid):
        return None
    here = node.mark.source
    source = Source(name=neighbour(here, node.text), folder=here.folder)
    try:
        data = read_bytes(here.folder / node.text, MAX_BYTES)
    except Unusable as error:
        at.refuse(node.mark, f"{node.text} {error}")
        return None
    tree, problems = parse(data, source)
    at.problems.extend(problems)
    return tree


def _plain(node: Node) -> Any:
    match node:
        case Fields():
            return {name: _plain(entry.node) for name, entry in node.fields.items()}
        case Items():
            return [_plain(entry) for entry in node.entries]
        case Scalar(value=Decimal() as number):
            if number == number.to_integral_value() and abs(number) < 10**15:
                return int(number)
            if not math.isfinite(float(number)):
                raise _Unsuitable(node)
            return float(number)
        case Scalar():
            return node.value
        case Broken():
            raise _Unsuitable(None)


def _checked(schema: dict[str, Any], node: Fields, at: At, what: str) -> Any:
    kind = str(schema.get("$schema", "")).rstrip("#") or next(iter(DRAFTS))
    found: list[tuple[_Place, str, str | None]] = []
    hint: str | None
    if kind not in DRAFTS:
        hint = f"leave it out, or write {' or '.join(DRAFTS)}"
        found.append((("$schema",), f"{shown(kind)} is no draft that is supported", hint))
    elif not (problems := list(_no_schema(schema, DRAFTS[kind]))):
        found += _unusable(schema)
        if schema.get("type") != "object":
            hint = "put a list or a value into a property: {type: object, properties: {items: ...}}"
            found.append(((), f"{what} must be an object: `type: object` is missing", hint))
    else:
        found += problems
    for place, message, hint in found[:_MAX_PROBLEMS]:
        at_place = at
        for part in place:
            at_place = at_place.item(part) if isinstance(part, int) else at_place.key(part[:60])
        at_place.refuse(_mark(node, place), message, hint)
    return INVALID if found else schema


def _no_schema(schema: Mapping[str, Any], validator: str) -> Iterator[tuple[_Place, str, None]]:
    import jsonschema  # noqa: PLC0415  # takes a tenth of a second; few specs have a schema

    kind = getattr(jsonschema, validator)
    errors = kind(kind.META_SCHEMA).iter_errors(schema)
    for error in sorted(errors, key=lambda each: len(each.absolute_path))[:_MAX_PROBLEMS]:
        yield tuple(error.absolute_path), f"this is no JSON Schema: {error.message[:200]}", None


def _unusable(schema: Mapping[str, Any]) -> Iterator[tuple[_Place, str, str | None]]:
    """What the meta-schema lets pass and an answer could not be compared with."""
    anchors = {
        part[word]
        for _, part in _schemas(schema, ())
        for word in ("$anchor", "$dynamicAnchor")
        if isinstance(part.get(word), str)
    }
    for place, part in _schemas(schema, ()):
        if place and isinstance(part.get("$id"), str):
            yield (*place, "$id"), "an `$id` below the top is not supported", "remove it"
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = part.get(word)
            if isinstance(target, str) and (why := _leads_nowhere(schema, target, anchors)):
                yield (*place, word), *why
        yield from _patterns(place, part)


def _patterns(place: _Place, part: Mapping[str, Any]) -> Iterator[tuple[_Place, str, str | None]]:
    named = part.get("patternProperties")
    patterns = [((*place, "patternProperties", name), name) for name in named or ()]
    if isinstance(part.get("pattern"), str):
        patterns.append(((*place, "pattern"), part["pattern"]))
    for where, pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            yield where, f"the pattern {shown(pattern)} does not compile: {error}", None


def _leads_nowhere(schema: Any, target: str, anchors: set[str]) -> tuple[str, str | None] | None:
    if not target.startswith("#"):
        hint = "put what it refers to under `$defs` and write #/$defs/NAME; nothing is fetched"
        return f"{shown(target)} leads out of the schema", hint
    pointer = unquote(target[1:])
    if not pointer or pointer in anchors:
        return None
    value = schema
    for part in pointer.split("/")[1:] if pointer.startswith("/") else ["\0"]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return f"{shown(target)} leads nowhere", None
    return None if isinstance(value, (dict, bool)) else (f"{shown(target)} is no schema", None)


def _schemas(value: Any, place: _Place) -> Iterator[tuple[_Place, Mapping[str, Any]]]:
    """Every schema in a schema, itself first, with its place."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _schemas(item, (*place, index))
    if not isinstance(value, dict):
        return
    yield place, value
    for word, part in value.items():
        if word in _NAMED and isinstance(part, dict):
            for name, item in part.items():
                yield from _schemas(item, (*place, word, name))
        elif word not in _DATA:
            yield from _schemas(part, (*place, word))


def _mark(node: Node, place: _Place) -> Mark:
    """Where in the text a place of the schema stands; the nearest there is."""
    mark = node.mark
    for part in place:
        if isinstance(node, Fields) and isinstance(part, str) and part in node.fields:
            mark, node = node.fields[part].mark, node.fields[part].node
        elif isinstance(node, Items) and isinstance(part, int) and part < len(node.entries):
            node = node.entries[part]
            mark = node.mark
    return mark
