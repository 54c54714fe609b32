"""The shapes of a spec: lists, maps, and records with fixed keys.

Rules of this file: every entry is read, so that all mistakes are found at once; a value is built
only when nothing in it was refused.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from runner.adapters.specfile.problem import INVALID, At, Invalid, Mark
from runner.adapters.specfile.types import ExistingPath, Reader, Refusal, Schema, Text, mismatch
from runner.adapters.specfile.yaml_document import Field, Fields, Items, Node, Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list; a tuple inside."""

    item: Reader
    what: str

    @property
    def expects(self) -> str:
        return f"a list of {self.what}"

    def read(self, node: Node, at: At) -> Any:
        if not isinstance(node, Items):
            hint = None
            if isinstance(node, Scalar) and isinstance(node.value, str):
                hint = f"write [{node.text}]" if len(node.text) < 40 else None
            return mismatch(self, node, at, hint)
        values = [self.item.read(entry, at.item(i)) for i, entry in enumerate(node.entries)]
        return INVALID if INVALID in values else tuple(values)

    def write(self, value: Any) -> Any:
        return [self.item.write(entry) for entry in value]

    def schema(self) -> Schema:
        return {"type": "array", "items": self.item.schema()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A map whose keys the user chooses; `key_check` may refuse one that fits the pattern."""

    value: Reader
    what: str
    key_pattern: str
    key_words: str
    key_check: Callable[[str], Refusal | None] | None = None

    @property
    def expects(self) -> str:
        return f"a map of {self.what}"

    def read(self, node: Node, at: At) -> Any:
        if not isinstance(node, Fields):
            return mismatch(self, node, at)
        values = {}
        for key, entry in node.fields.items():
            here = at.key(key[:60])
            refusal = self._key_refusal(key)
            if refusal is None:
                values[key] = self.value.read(entry.node, here)
            else:
                values[key] = here.refuse(entry.mark, *refusal)
        return INVALID if INVALID in values.values() else values

    def _key_refusal(self, key: str) -> Refusal | None:
        if not re.fullmatch(self.key_pattern, key):
            return f"not {self.key_words}", None
        return self.key_check(key) if self.key_check else None

    def write(self, value: Any) -> Any:
        return {key: self.value.write(entry) for key, entry in value.items()}

    def schema(self) -> Schema:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{self.key_pattern}$"},
            "additionalProperties": self.value.schema(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """A text that stands in a file; `-` is standard input. `mark` is where it is asked for."""

    path: str
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOrStdin:
    """The path of a file to read, or `-`."""

    expects: str = "the path of a file, or - for standard input"

    def read(self, node: Node, at: At) -> Any:
        if isinstance(node, Scalar) and node.value == "-":
            return FileText(path="-", mark=node.mark)
        path = ExistingPath(kind="file").read(node, at)
        return path if isinstance(path, Invalid) else FileText(path=path, mark=node.mark)

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Includes:
    """The files a spec starts from: each node that names one, and where it stands."""

    expects: str = "the path of a file, builtin:NAME, or a list of them"

    def read(self, node: Node, at: At) -> Any:
        entries = node.entries if isinstance(node, Items) else (node,)
        one = Text(expects=self.expects)
        is_list = isinstance(node, Items)
        places = [at.item(i) if is_list else at for i in range(len(entries))]
        read = [one.read(entry, place) for entry, place in zip(entries, places, strict=True)]
        found = zip(entries, places, read, strict=True)
        return tuple((entry, at) for entry, at, text in found if not isinstance(text, Invalid))

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        one: Schema = {"type": "string", "minLength": 1}
        return {"anyOf": [one, {"type": "array", "items": one}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOrFile:
    """A text, or `{file: path}`."""

    expects: str = "text, or {file: path}"

    def read(self, node: Node, at: At) -> Any:
        if not isinstance(node, Fields):
            return Text(expects=self.expects, body=True).read(node, at)
        if node.fields.keys() != {"file"}:
            return at.refuse(node.mark, "a map here has the one key `file`", "write {file: path}")
        entry = node.fields["file"].node
        path = ExistingPath(kind="file").read(entry, at.key("file"))
        return path if isinstance(path, Invalid) else FileText(path=path, mark=entry.mark)

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        path = {"type": "string", "minLength": 1}
        in_file = {
            "type": "object",
            "properties": {"file": path},
            "required": ["file"],
            "additionalProperties": False,
        }
        return {"anyOf": [{"type": "string"}, in_file]}


# -- records -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a record: its type, what it means, an example; `field` is the dataclass field."""

    name: str
    reader: Reader
    means: str
    example: Any
    field: str = ""

    @property
    def attribute(self) -> str:
        """The name of the dataclass field."""
        return self.field or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A map with fixed keys. `shorthand` is the key that a bare value stands for; `planned` maps
    keys that do not work yet to what to do instead; `check` looks at the finished value."""

    cls: type
    keys: tuple[Key, ...]
    expects: str = "a map"
    shorthand: str | None = None
    planned: Mapping[str, str] = dataclasses.field(default_factory=dict)
    required: tuple[str, ...] = ()
    check: Callable[[Any], Refusal | None] | None = None

    def read(self, node: Node, at: At) -> Any:
        values = self.read_fields(node, at)
        if isinstance(values, Invalid) or INVALID in values.values():
            return INVALID
        value = self.cls(**values)
        refusal = self.check(value) if self.check else None
        return value if refusal is None else at.refuse(node.mark, *refusal)

    def read_fields(self, node: Node, at: At) -> Any:
        """The values by dataclass field, with `INVALID` for each that was refused; `INVALID`
        alone when this is no map."""
        if self.shorthand and isinstance(node, Scalar) and isinstance(node.value, str):
            bare = Field(mark=node.mark, node=node)
            node = Fields(mark=node.mark, fields={self.shorthand: bare})
        if not isinstance(node, Fields):
            return mismatch(self, node, at)
        readers = {key.name: key for key in self.keys}
        values: dict[str, Any] = {}
        for name, entry in node.fields.items():
            key = readers.get(name)
            if key is None:
                values[name] = self._refuse_key(name, entry.mark, at)
            elif not (self.unset(key) and is_null(entry.node)):
                values[key.attribute] = key.reader.read(entry.node, at.key(name))
        for name in self.required:
            if name not in node.fields:
                key = readers[name]
                hint = f"write {key.reader.expects}"
                values[name] = at.key(name).refuse(node.mark, "required, but missing", hint)
        return values

    def _refuse_key(self, name: str, mark: Mark, at: At) -> Invalid:
        here = at.key(name[:60])
        if name in self.planned:
            return here.refuse(mark, "not supported yet", self.planned[name])
        return here.refuse(mark, *at.advise(name, here))

    def unset(self, key: Key) -> bool:
        """Whether the key may be `null`, which leaves it out."""
        return key.name not in self.required and self.default(key) is None

    def default(self, key: Key) -> Any:
        """The default as YAML; None when there is none."""
        fields = {f.name: f for f in dataclasses.fields(self.cls)}
        field = fields.get(key.attribute)
        if field is None:
            return None
        value: Any = None
        if field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        return None if value is None else key.reader.write(value)

    def write(self, value: Any) -> Any:
        written = ((key, getattr(value, key.attribute, None)) for key in self.keys)
        return {key.name: key.reader.write(item) for key, item in written if item is not None}

    def schema(self) -> Schema:
        full: Schema = {
            "type": "object",
            "properties": {key.name: self._key_schema(key) for key in self.keys},
            "additionalProperties": False,
        }
        if self.required:
            full["required"] = list(self.required)
        short = next((key for key in self.keys if key.name == self.shorthand), None)
        return full if short is None else {"anyOf": [short.reader.schema(), full]}

    def _key_schema(self, key: Key) -> Schema:
        schema: Schema = {"description": key.means} | key.reader.schema()
        if self.unset(key):
            schema = _or_null(schema)
        elif key.name not in self.required:
            schema["default"] = _json(self.default(key))
        schema["examples"] = [_json(key.example)]
        return schema


def is_null(node: Node) -> bool:
    """Written as null: an empty value is a mistake, and must not lift a cap silently."""
    return isinstance(node, Scalar) and node.value is None and node.text != ""


def _or_null(schema: Schema) -> Schema:
    if isinstance(schema.get("type"), str):
        return schema | {"type": [schema["type"], "null"], "default": None}
    means = schema.pop("description")
    return {"description": means, "anyOf": [schema, {"type": "null"}], "default": None}


def _json(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    return value
