"""The inputs of a spec: what is declared against what `--input` gives.

Rules of this file: a value is text and nothing else; `@file` is read here, `@@` is a literal `@`;
no message shows a value.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.adapters.specfile.problem import At, Invalid, Mark, Source
from runner.adapters.specfile.texts import Unusable, read_text
from runner.adapters.specfile.yaml_document import Fields, Node
from runner.core.spec import InputSpec
from runner.core.untrusted import fenced


def settle(
    declared: Any, node: Node | None, given: Mapping[str, str], at: At, demand: bool
) -> tuple[dict[str, InputSpec], dict[str, str | None]]:
    """The declared inputs as they are now, and the text of each that is to be filled in.

    `declared` is what the spec's reader made of `inputs`, `node` where that stands, `given` has
    values that are read. One that is given is not required any more. A required one that is not
    given is refused, or, without `demand`, left open: None. Untrusted ones come fenced.
    """
    names = node.fields if isinstance(node, Fields) else {}
    _refuse_unknown(given, names, at)
    if isinstance(declared, Invalid):
        return {}, {name: given.get(name, "") for name in names}
    specs: dict[str, InputSpec] = {}
    values: dict[str, str | None] = {}
    for name, spec in declared.items():
        here, mark = at.key(name), names[name].mark
        if spec.required and name not in given and demand:
            hint = f"add --input {name}=TEXT or --input {name}=@FILE"
            here.refuse(mark, "required, but not given", hint)
        specs[name] = dataclasses.replace(spec, required=spec.required and name not in given)
        values[name] = given.get(name, None if spec.required else spec.default or "")
    strange = {n: v for n, v in values.items() if specs[n].untrusted and v is not None}
    return specs, {**values, **fenced(strange)}


def read_given(given: Mapping[str, str], folder: Path, at: At) -> dict[str, str]:
    """The inputs from the command line, files read; `folder` is where their paths start."""
    values = {}
    for name, raw in given.items():
        value = _read_one(name, raw, folder, at.key(name[:60]))
        # Refused or not, it was given: nothing more is to be said about it.
        values[name] = "" if isinstance(value, Invalid) else value
    return values


def _read_one(name: str, raw: str, folder: Path, at: At) -> str | Invalid:
    if raw.startswith("@") and not raw.startswith("@@"):
        path = folder / raw[1:]
        try:
            return read_text(path)
        except Unusable as error:
            hint = "a value that starts with @ names a file; write @@ for a literal @"
            return at.refuse(_mark(name), f"{path} {error}", hint)
    text = raw[1:] if raw.startswith("@@") else raw
    if re.search("[\0\ud800-\udfff]", text):
        return at.refuse(_mark(name), "not text: it holds what UTF-8 cannot")
    return text


def _refuse_unknown(given: Mapping[str, str], declared: Mapping[str, object], at: At) -> None:
    for name in given:
        if name not in declared:
            near = at.nearest(name, declared)
            known = f"declared are {', '.join(declared)}" if declared else "the spec declares none"
            hint = f"did you mean {near}?" if near else known
            at.key(name[:60]).refuse(_mark(name), "not an input of this spec", hint)


def _mark(name: str) -> Mark:
    source = Source(name=f"--input {name[:60]}", folder=Path(), numbered=False)
    return Mark(source=source)
