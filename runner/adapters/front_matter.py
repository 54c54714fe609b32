"""The head of a Markdown file: YAML between two lines `---`, read as strictly as a spec.

What is wrong is told as `file:line: key: problem`, with the line in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.adapters.specfile.problem import At, Invalid, Mark, Problem, Source, shown
from runner.adapters.specfile.types import Flag, Reader
from runner.adapters.specfile.yaml_document import Broken, Field, Fields, Items, Node, Scalar, parse

MAX_PROBLEMS = 5
"""How many problems of one file are told."""

_FENCE = re.compile(r"---[ \t]*\n")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$\n?", re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class FrontMatter:
    """The keys of a head, the text after it, and what was wrong with it so far.

    The readers take a key and note what does not fit; None is what is not there, or not fitting.
    """

    body: str
    fields: Mapping[str, Field] = field(default_factory=dict)
    found: list[Problem] = field(default_factory=list)

    @property
    def problems(self) -> tuple[str, ...]:
        """What was wrong, in words, without the hints that are for specs."""
        every = tuple(dict.fromkeys(map(_in_words, self.found)))
        more = len(every) - MAX_PROBLEMS
        told = every[:MAX_PROBLEMS]
        return (*told, f"{more} more problems in the same file") if more > 0 else told

    def note(self, key: str, message: str) -> str:
        """What else is to be said about a key, with its place."""
        mark = self.fields[key].mark
        at = At("", [])
        at.key(key[:60]).refuse(mark, message)
        return _in_words(at.problems[0])

    def refuse(self, key: str, message: str) -> None:
        """Something is wrong with the value of a key."""
        node = self.fields[key].node
        if not isinstance(node, Broken):  # that was told
            self._at(key).refuse(node.mark, message)

    def refuse_file(self, path: Path, message: str) -> None:
        """Something is wrong that no key says."""
        At("", self.found).refuse(Mark(source=Source(name=str(path), folder=path.parent)), message)

    def text(self, key: str) -> str | None:
        """A text; a number or a flag as it is written."""
        node = self._node(key)
        if node is None or (isinstance(node, Scalar) and node.value is None):
            return None
        if not isinstance(node, Scalar):
            self.refuse(key, "expected a text")
            return None
        return node.text

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts; a text is divided at commas and blanks outside of brackets."""
        node = self._node(key)
        if node is None or (isinstance(node, Scalar) and node.value is None):
            return None
        if isinstance(node, Scalar):
            return divided(node.text)
        if isinstance(node, Items) and all(isinstance(one, Scalar) for one in node.entries):
            return tuple(one.text for one in node.entries if isinstance(one, Scalar))
        self.refuse(key, "expected a list of texts")
        return None

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.value(key, Flag())
        return default if value is None else bool(value)

    def value(self, key: str, reader: Reader) -> Any:
        """What a reader of specs makes of it."""
        node = self._node(key)
        if node is None:
            return None
        value = reader.read(node, self._at(key))
        return None if isinstance(value, Invalid) else value

    def _node(self, key: str) -> Node | None:
        there = self.fields.get(key)
        return None if there is None else there.node

    def _at(self, key: str) -> At:
        return At("", self.found).key(key[:60])


def read(text: str, path: Path) -> FrontMatter:
    """The head and the text of a file that was read from `path`."""
    if not (opening := _FENCE.match(text)):
        return FrontMatter(body=text)
    source = Source(name=str(path), folder=path.parent)
    end = _END.search(text, opening.end())
    if end is None:
        matter = FrontMatter(body="")
        At("", matter.found).refuse(Mark(source=source), "no line `---` ends the front matter")
        return matter
    head, body = text[opening.end() : end.start()], text[end.end() :]
    if not head.strip():
        return FrontMatter(body=body)
    tree, problems = parse(f"\n{head}".encode("utf-8", "replace"), source)  # lines as in the file
    matter = FrontMatter(body=body, found=problems)
    if isinstance(tree, Fields):
        matter.fields = tree.fields
    elif tree is not None:
        At("", problems).refuse(tree.mark, "front matter is a map: `key: value` on each line")
    return matter


def divided(text: str) -> tuple[str, ...]:
    """The parts between commas and blanks, where those stand in no brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth <= 0 and (char == "," or char.isspace()):
            parts.append("")
        else:
            parts[-1] += char
    return tuple(part for part in parts if part)


def _in_words(problem: Problem) -> str:
    return str(
        Problem(
            file=problem.file,
            line=problem.line,
            column=problem.column,
            path=problem.path,
            message=problem.message,
        )
    )


def named_wrongly(text: str) -> str:
    """What to say about a text that is no name."""
    return f"{shown(text)} is no name: letters, digits, `-`, `_` and `.`, at most 64"
