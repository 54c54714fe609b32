"""The layers of a spec: what it extends, the file itself, the command line; later ones win.

Rules of this file: maps merge key by key, everything else replaces; each value keeps the mark of
where it was written, so that a problem names that file, line or flag.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.adapters import configs
from runner.adapters.specfile.keys import TASK
from runner.adapters.specfile.problem import (
    At,
    Mark,
    Problem,
    Source,
    looks_like_key,
    neighbour,
    shown,
)
from runner.adapters.specfile.shapes import Includes, Record, is_null
from runner.adapters.specfile.texts import Unusable, read_bytes
from runner.adapters.specfile.yaml_document import (
    Broken,
    Field,
    Fields,
    Items,
    Node,
    Scalar,
    parse,
    parse_value,
)
from runner.adapters.specfile.yaml_text import MAX_BYTES

_EITHER_OR = ("prompt", "prompt_file")
_SECRET_WORD = re.compile(r"key|token|secret|passw", re.IGNORECASE)
_MAX_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A value from the command line: the flag the user typed, the key, the text."""

    source: str
    path: str
    value: str


def top_level(tree: Node | None, at: At) -> Fields | None:
    """The map a document must be, bare values in it written out; None after a refusal."""
    match tree:
        case Fields():
            return _written_out(tree)
        case None | Broken():
            return None
        case _:
            at.refuse(tree.mark, "the top level must be a map", "write `key: value` lines")
            return None


def merge(base: Fields, over: Fields) -> Fields:
    """Both, where `over` wins; the place of the whole is that of the later file."""
    fields = dict(base.fields)
    for name, entry in over.fields.items():
        below = fields.get(name)
        node = entry.node
        if below is not None and isinstance(below.node, Fields) and isinstance(node, Fields):
            node = merge(below.node, node)
        fields[name] = Field(mark=entry.mark, node=node)
    mark = over.mark if over.mark.source.numbered else base.mark
    return Fields(mark=mark, fields=fields)


def included(tree: Fields, at: At) -> Fields:
    """The spec on top of what it extends."""
    fields = dict(tree.fields)
    entry = fields.pop("extends", None)
    own = Fields(mark=tree.mark, fields=fields)
    if entry is None or is_null(entry.node):
        return own
    below = Fields(mark=tree.mark, fields={})
    for reference, here in Includes().read(entry.node, at.key("extends")):
        layer = _include(reference, here)
        if layer is not None:
            below = _on_top(below, layer)
    return _on_top(below, own)


def included_files(tree: Fields) -> tuple[str, ...]:
    """The files a spec names in `extends`, whether they can be read or not."""
    node = tree.fields["extends"].node if "extends" in tree.fields else None
    entries = node.entries if isinstance(node, Items) else (node,)
    named = [entry for entry in entries if isinstance(entry, Scalar) and entry.text]
    return tuple(str(_file(one)[0]) for one in named if not one.text.startswith("builtin:"))


def overridden(tree: Fields, overrides: Sequence[str | Override], folder: Path, at: At) -> Fields:
    """The spec with the values from the command line; `folder` is where their paths start."""
    for override in overrides:
        layer = _layer(override, folder, at)
        if layer is not None:
            tree = _on_top(tree, layer)
    return tree


def _on_top(base: Fields, over: Fields) -> Fields:
    """Merge two whole specs: the later one's prompt replaces the earlier one's, however given."""
    given = [name for name in _EITHER_OR if name in over.fields]
    if len(given) == 1:
        kept = {name: entry for name, entry in base.fields.items() if name not in _EITHER_OR}
        base = Fields(mark=base.mark, fields=kept)
    return merge(base, over)


def _written_out(tree: Fields) -> Fields:
    """`workspace: path` as `workspace: {path: path}`, so that layers merge."""
    fields = dict(tree.fields)
    for key in TASK.keys:
        entry = fields.get(key.name)
        short = key.reader.shorthand if isinstance(key.reader, Record) else None
        if entry is not None and short is not None and isinstance(entry.node, Scalar):
            inner = Field(mark=entry.mark, node=entry.node)
            node = Fields(mark=entry.node.mark, fields={short: inner})
            fields[key.name] = Field(mark=entry.mark, node=node)
    return Fields(mark=tree.mark, fields=fields)


# -- includes ------------------------------------------------------------------------------------


def _include(reference: Scalar, at: At) -> Fields | None:
    found = _builtin(reference, at) if reference.text.startswith("builtin:") else _file(reference)
    if found is None:
        return None
    path, source = found
    try:
        data = read_bytes(path, MAX_BYTES)
    except Unusable as error:
        hint = "a path starts at the folder of this file; builtin:NAME is one that ships with us"
        at.refuse(reference.mark, f"{path} {error}", hint)
        return None
    node, problems = parse(data, source)
    at.problems.extend(problems)
    tree = top_level(node, At("", at.problems))
    if tree is None or "extends" not in tree.fields:
        return tree
    hint = "includes are one level deep: list all of them in the spec itself"
    place = At("extends", at.problems)
    place.refuse(tree.fields["extends"].mark, "an included file may not extend another", hint)
    rest = {name: entry for name, entry in tree.fields.items() if name != "extends"}
    return Fields(mark=tree.mark, fields=rest)


def _file(reference: Scalar) -> tuple[Path, Source]:
    here = reference.mark.source
    path = (here.folder / reference.text).absolute()
    name = neighbour(here, reference.text)
    return path, Source(name=name, folder=path.parent)


def _builtin(reference: Scalar, at: At) -> tuple[Path, Source] | None:
    name = reference.text.removeprefix("builtin:")
    folder = configs.path("permissions")
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    if name in known:
        return folder / f"{name}.yaml", Source(name=reference.text, folder=folder)
    near = at.nearest(name, known)
    hint = f"did you mean builtin:{near}?" if near else f"there are {', '.join(known)}"
    at.refuse(reference.mark, f"nothing is built in as {shown(name)}", hint)
    return None


# -- the command line ----------------------------------------------------------------------------


def _layer(override: str | Override, folder: Path, at: At) -> Fields | None:
    if isinstance(override, str):
        path, equals, value = override.partition("=")
        label = f"--set {path}={_as_typed(path, value)}" if equals else f"--set {path}"
    else:
        path, equals, value = override.path, "=", override.value
        label = f"{override.source} {_as_typed(path, value)}"
    mark = Mark(source=Source(name=label, folder=folder, numbered=False))
    names = path.strip().split(".")
    if not equals or not all(names):
        at.refuse(mark, "not of the form key=value", "write it like --set limits.tool=10m")
        return None
    if names[0] == "extends":
        at.key("extends").refuse(mark, "cannot be set here", "write it into the spec")
        return None
    node, problems = parse_value(value, mark.source)
    at.problems.extend(_below(names, problem) for problem in problems)
    if node is None:
        return None
    for name in reversed(names):
        node = Fields(mark=mark, fields={name: Field(mark=mark, node=node)})
    return top_level(node, at)


def _below(names: list[str], problem: Problem) -> Problem:
    joint = "." if problem.path and not problem.path.startswith("[") else ""
    return dataclasses.replace(problem, path=".".join(names) + joint + problem.path)


def _as_typed(path: str, value: str) -> str:
    if looks_like_key(value) or (_SECRET_WORD.search(path) and path != "api_key_env"):
        return "..."
    return value if len(value) <= _MAX_SHOWN_CHARS else value[: _MAX_SHOWN_CHARS - 3] + "..."
