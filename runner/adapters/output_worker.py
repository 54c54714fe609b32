"""Compares an object with a JSON Schema: a program of its own, so that it can be stopped.

A pattern of the schema may take for ever on a text, and a schema may refer to itself without
end. Standard input is `{"schema": ..., "value": ...}`, standard output the list of errors.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from jsonschema import Draft7Validator, Draft202012Validator
from referencing import Registry

CPU_S = 10
MEMORY_BYTES = 1024 * 1024 * 1024
MAX_LOOKED_AT = 1_000
MAX_TOLD = 10
MAX_CHARS = 400


def main() -> None:
    """Read, compare, answer."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    asked = json.load(sys.stdin)
    try:
        told = list(errors(asked["schema"], asked["value"]))
    except RecursionError:
        told = ["the schema or the object is nested too deeply to be compared"]
    json.dump(told, sys.stdout)


def errors(schema: dict[str, Any], value: Any) -> Iterator[str]:
    """What does not fit, each with its place; the outermost first, a few of them."""
    kind = Draft7Validator if "draft-07" in schema.get("$schema", "") else Draft202012Validator
    # An empty registry: no reference is ever fetched.
    found = kind(schema, registry=Registry()).iter_errors(value)
    listed = sorted(islice(found, MAX_LOOKED_AT), key=lambda error: len(error.absolute_path))
    for error in listed[:MAX_TOLD]:
        place = "".join(f"/{part}" for part in error.absolute_path) or "the object"
        text = f"{place}: {error.message}"
        yield text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + "..."
    if len(listed) > MAX_TOLD:
        yield f"and {len(listed) - MAX_TOLD} more"


if __name__ == "__main__":
    main()
