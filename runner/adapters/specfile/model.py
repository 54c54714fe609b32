"""What is known about the keys of a spec as a whole: their list, their JSON Schema, advice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from runner.adapters.specfile.keys import TASK
from runner.adapters.specfile.problem import At
from runner.adapters.specfile.shapes import Key, MapOf, Record
from runner.adapters.specfile.types import Choice, Schema
from runner.adapters.specfile.words import OTHER_NAMES

KeyRow = tuple[str, str, str, str]
"""Key, type, default and meaning, in words."""


def task_schema() -> Schema:
    """The JSON Schema (2020-12) of a spec file, for editors and for `autopilot schema`."""
    schema = TASK.schema()
    del schema["required"]  # an included file may bring them
    complete = {
        "required": list(TASK.required),
        "oneOf": [{"required": ["prompt"]}, {"required": ["prompt_file"]}],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A task for autopilot",
        "description": "One task: what to do, with which model, and within which limits.",
        **schema,
        "anyOf": [{"required": ["extends"]}, complete],
        "not": {"required": ["prompt", "prompt_file"]},
    }


def spec_keys() -> tuple[KeyRow, ...]:
    """One row for each key, in the order of the schema; nested ones as `limits.tool`."""
    return tuple(
        (path, _type_words(key), _default_words(record, key), key.means)
        for path, record, key in _walk(TASK)
    )


def planned_keys() -> tuple[str, ...]:
    """Keys, and values as `key: value`, that are known but do not work yet."""
    names = list(TASK.planned)
    for path, _, key in _walk(TASK):
        inner = key.reader.value if isinstance(key.reader, MapOf) else key.reader
        if isinstance(inner, Record):
            prefix = f"{path}.NAME" if inner is not key.reader else path
            names += [f"{prefix}.{name}" for name in inner.planned]
        if isinstance(inner, Choice):
            names += [f"{path}: {word}" for word in inner.planned]
    return tuple(names)


def advise(name: str, at: At) -> tuple[str, str | None]:
    """What to say about a key that is unknown where it stands; `at` is the key itself."""
    if re.fullmatch(r"(.*[_-])?api[_-]?keys?|((api|auth)[_-]?)?token", name, re.IGNORECASE):
        hint = "name the variable that holds it: `api_key_env: ANTHROPIC_API_KEY`"
        return "a key does not belong into a spec", hint
    record = at.path.removesuffix(name).removesuffix(".")
    record = re.sub(r"^(inputs|agents|custom_tools|mcp_servers)\..*", r"\1.NAME", record)
    record = re.sub(r"^pricing\..*", "pricing", record)
    here = _siblings(record)
    plain = re.sub(r"[^a-z]", "", name.lower())
    other = OTHER_NAMES.get(plain) if not record else None
    near = other or at.nearest(name, here)
    if near is not None:
        path = f"{record}.{near}" if record else near
        later = " It is not supported yet." if path in planned_keys() else ""
        return "unknown key", f"did you mean `{near}`?{later}"
    elsewhere = _places().get(name)
    if elsewhere is not None:
        where = f"is `{elsewhere}`" if "." in elsewhere else "belongs to the top level"
        return "unknown key", f"`{name}` {where}"
    return "unknown key", f"the keys here are {', '.join(here)}" if record else None


@cache
def _siblings(record: str) -> tuple[str, ...]:
    paths = (*(path for path, _, _ in _walk(TASK)), *planned_keys())
    split = (path.rpartition(".") for path in paths if ":" not in path)
    return tuple(name for parent, _, name in split if parent == record)


@cache
def _places() -> dict[str, str]:
    paths = [path for path, _, _ in _walk(TASK)]
    return {path.rpartition(".")[2]: path for path in reversed(paths)}


def _walk(record: Record, prefix: str = "") -> Iterator[tuple[str, Record, Key]]:
    for key in record.keys:
        path = f"{prefix}{key.name}"
        yield path, record, key
        if isinstance(key.reader, Record):
            yield from _walk(key.reader, f"{path}.")
        elif isinstance(key.reader, MapOf) and isinstance(key.reader.value, Record):
            yield from _walk(key.reader.value, f"{path}.NAME.")


def _type_words(key: Key) -> str:
    return re.sub(r"^(an?|the) ", "", key.reader.expects)


def _default_words(record: Record, key: Key) -> str:
    if key.name in record.required:
        return "required"
    default = record.default(key)
    if default is None or default == {} or isinstance(key.reader, Record):
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


SPEC_KEYS = spec_keys()
