"""Strict YAML: text to a tree of values that know their place, with every mistake at once.

Rules of this file:
* Scalars follow the YAML 1.2 core schema: `no`, `on` and `22:22` are text, `1e-06` is a number.
  What versions of YAML read differently (`010`) is refused.
* Tags, anchors, aliases, merge keys, duplicate keys and a second document are refused.
* Nothing is built from what the text says except text, numbers, true, false and null.
* Depth and number of values are bounded, so that hostile text is refused quickly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

from runner.adapters.specfile.problem import HIDDEN, At, Mark, Problem, Source, printable, shown
from runner.adapters.specfile.yaml_text import Unreadable, Value, decode, plain_value, refuse_syntax

MAX_DEPTH = 50
MAX_NODES = 5_000
_CORE_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One value. `plain` is written without quotes; `literal` is a `|` block, whose text starts
    on the line after its mark."""

    mark: Mark
    text: str
    value: Value
    plain: bool = False
    literal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list."""

    mark: Mark
    entries: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A value in a map, and where its key stands."""

    mark: Mark
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """A map."""

    mark: Mark
    fields: Mapping[str, Field]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Something that was refused already; whoever meets it says nothing more."""

    mark: Mark


Node = Scalar | Items | Fields | Broken


def parse(data: bytes, source: Source) -> tuple[Node | None, list[Problem]]:
    """Read one document. The tree is None when the text as a whole cannot be read."""
    problems: list[Problem] = []
    text = decode(data, source, At("", problems))
    if text is None:
        return None, problems
    tree = _Tree(source, problems)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            tree.take(event)
            if tree.stopped:
                return None, problems
    except yaml.MarkedYAMLError as error:
        refuse_syntax(error, source, At("", problems))
        return None, problems
    except (yaml.YAMLError, ValueError, OverflowError):  # a number in a directive or an escape
        message = "a number in an escape or a directive is out of range"
        At("", problems).refuse(tree.last_mark, message)
        return None, problems
    if tree.root is None:
        hint = "a spec needs at least `name`, `prompt` and `model`"
        At("", problems).refuse(Mark(source=source), "the document is empty", hint)
    return tree.root, problems


def parse_value(text: str, source: Source) -> tuple[Node | None, list[Problem]]:
    """Read one value from the command line: a list, map or quoted text as in YAML; anything else
    is one plain scalar to its end, so that `prompt=Fix: it #1` needs no quotes."""
    if text.lstrip()[:1] in ("[", "{", '"', "'"):
        return parse(text.encode("utf-8", "surrogatepass"), source)
    problems: list[Problem] = []
    mark = Mark(source=source)
    value = plain_value(text)
    if isinstance(value, Unreadable):
        At("", problems).refuse(mark, value.message, value.hint)
        return Broken(mark=mark), problems
    return Scalar(mark=mark, text=text, value=value, plain=True), problems


# -- the tree ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """A list or map that is being read; `key` is the key that waits for its value."""

    mark: Mark
    at: At
    is_map: bool
    tagged: bool
    entries: list[Node] = field(default_factory=list)
    fields: dict[str, Field] = field(default_factory=dict)
    key: str | None = None
    key_mark: Mark | None = None

    def child(self) -> At:
        """Where the next value will stand."""
        if not self.is_map:
            return self.at.item(len(self.entries))
        return self.at if self.key is None else self.at.key(printable(self.key[:60]))

    def close(self) -> Node:
        """The finished node."""
        if self.tagged:
            return Broken(mark=self.mark)
        if self.is_map:
            return Fields(mark=self.mark, fields=self.fields)
        return Items(mark=self.mark, entries=tuple(self.entries))


class _Tree:
    """Takes the parser's events one by one and grows the tree."""

    def __init__(self, source: Source, problems: list[Problem]) -> None:
        self.root: Node | None = None
        self.stopped = False
        self.last_mark = Mark(source=source)
        self._source = source
        self._top = At("", problems)
        self._open: list[_Open] = []
        self._nodes = 0

    def take(self, event: yaml.Event) -> None:
        """Add what one event says."""
        where = event.start_mark
        if where is not None:
            self.last_mark = Mark(source=self._source, line=where.line + 1, column=where.column + 1)
        match event:
            case yaml.DocumentStartEvent():
                self._start_document(event)
            case yaml.ScalarEvent():
                self._add(self._scalar(event))
            case yaml.AliasEvent():
                hint = "write the value out, or use `extends`; quote a text that starts with `*`"
                self._child().refuse(self.last_mark, f"aliases (*{event.anchor}) are refused", hint)
                self._add(Broken(mark=self.last_mark))
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._start(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._add(self._open.pop().close())
            case _:
                pass  # stream and document ends carry nothing

    def _start_document(self, event: yaml.DocumentStartEvent) -> None:
        if self.root is not None:
            hint = "one file is one task: remove the `---`, or split the file"
            self._top.refuse(self.last_mark, "a second document", hint)
            self.stopped = True
        if event.version not in (None, (1, 2)):
            hint = "remove the %YAML line: YAML 1.2 is what is read here"
            self._top.refuse(self.last_mark, "another version of YAML", hint)

    def _start(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent) -> None:
        at = self._child()
        tagged = self._refuse_extras(event.tag, event.anchor, at)
        is_map = isinstance(event, yaml.MappingStartEvent)
        self._open.append(_Open(self.last_mark, at, is_map, tagged))
        if len(self._open) > MAX_DEPTH:
            self._top.refuse(self.last_mark, f"nested deeper than {MAX_DEPTH} levels")
            self.stopped = True

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        at, mark = self._child(), self.last_mark
        if self._refuse_extras(event.tag, event.anchor, at):
            return Broken(mark=mark)
        # JSON, which is YAML, writes some characters as two escapes, the halves of a pair.
        text = event.value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if re.search("[\0\ud800-\udfff]", text):
            at.refuse(mark, "an escape names a character that text cannot hold")
            return Broken(mark=mark)
        plain = not event.style
        value = plain_value(text) if plain else text
        if isinstance(value, Unreadable):
            at.refuse(mark, value.message, value.hint or None)
            return Broken(mark=mark)
        return Scalar(mark=mark, text=text, value=value, plain=plain, literal=event.style == "|")

    def _refuse_extras(self, tag: str | None, anchor: str | None, at: At) -> bool:
        if anchor is not None:
            hint = "write the value out where it is needed, or use `extends`"
            at.refuse(self.last_mark, f"anchors (&{anchor}) are refused", hint)
        if tag is not None:
            hint = "remove the tag: the key decides the type; quote a text that starts with `!`"
            short = shown(tag.replace(_CORE_TAG, "!!"))
            at.refuse(self.last_mark, f"the tag {short} is refused", hint)
        return tag is not None

    def _child(self) -> At:
        return self._open[-1].child() if self._open else self._top

    def _add(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._top.refuse(node.mark, f"more than {MAX_NODES} values")
            self.stopped = True
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if not parent.is_map:
            parent.entries.append(node)
        elif parent.key_mark is None:
            parent.key = _key(node, parent)
            parent.key_mark = node.mark
        else:
            if parent.key is not None:
                parent.fields[parent.key] = Field(mark=parent.key_mark, node=node)
            parent.key = parent.key_mark = None


def _key(node: Node, parent: _Open) -> str | None:
    """The text of a key, or None when it was refused and its value is to be dropped."""
    if isinstance(node, Broken):
        return None
    if not isinstance(node, Scalar):
        hint = "put a text that starts with `{` or `[` in quotes"
        parent.at.refuse(node.mark, "a key must be text", hint)
        return None
    key = node.text
    at = parent.at.key(printable(key[:60]))
    if not isinstance(node.value, str):
        parent.at.refuse(node.mark, f"a key must be text, not {key or 'empty'}", "quote the key")
    elif HIDDEN.search(key):
        parent.at.refuse(node.mark, f"the key {shown(key)} holds a control character")
    elif key == "<<" and node.plain:
        parent.at.refuse(node.mark, "merge keys (<<) are refused", "use `extends`")
    elif key in parent.fields:
        first = parent.fields[key].mark
        message = "a duplicate of the key"
        if first.source.numbered:
            message += f" in line {first.line}"
        at.refuse(node.mark, message, "keep one of the two")
    else:
        return key
    return None
