"""The single values of a spec: each type reads a node, writes a value, and knows its schema.

Rules of this file: a reader never converts silently (no `"5"` for 5, no 1.5 for a whole number);
what `write` gives, `read` takes back to the same value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Protocol

from runner.adapters.specfile.problem import HIDDEN, INVALID, At, Invalid, shown
from runner.adapters.specfile.yaml_document import Broken, Items, Node, Scalar
from runner.adapters.specfile.yaml_text import plain_value

Schema = dict[str, Any]
Refusal = tuple[str, str | None]
"""Why a text does not do, and what to do about it."""

MAX_MONEY = 100_000
"""US dollars. With nine decimals this is what a JSON number carries exactly."""


class Reader(Protocol):
    """One type. `expects` completes the sentence "expected ..."."""

    @property
    def expects(self) -> str:
        """The type in words, with its article."""
        ...

    def read(self, node: Node, at: At) -> Any:
        """The value, or `INVALID` after what is wrong was noted. Never raises."""
        ...

    def write(self, value: Any) -> Any:
        """The value as YAML: text, numbers, lists and maps."""
        ...

    def schema(self) -> Schema:
        """The type as JSON Schema."""
        ...


def mismatch(reader: Reader, node: Node, at: At, hint: str | None = None) -> Invalid:
    """Refuse a node of the wrong type, in the words that all readers share."""
    if isinstance(node, Broken):
        return INVALID
    if isinstance(node, Scalar) and node.value is None:
        return at.refuse(node.mark, "the key has no value", f"write {reader.expects}")
    if hint is None and isinstance(node, Scalar) and isinstance(node.value, str):
        unquoted = plain_value(node.text)
        if not node.plain and isinstance(unquoted, (int, Decimal)):
            hint = "remove the quotes"
    return at.refuse(node.mark, f"expected {reader.expects}, got {_described(node)}", hint)


def _described(node: Node) -> str:
    match node:
        case Scalar(value=str()):
            return f"the text {shown(node.text)}"
        case Scalar():
            return node.text
        case Items():
            return "a list"
        case _:
            return "a map"


# -- single values -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text. `body` may have lines and any characters; else it is one line without controls."""

    expects: str = "text"
    body: bool = False
    empty: bool = False
    pattern: str | None = None
    check: Callable[[str], Refusal | None] | None = None

    def read(self, node: Node, at: At) -> Any:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            is_word = isinstance(node, Scalar) and node.value is not None
            hint = f'quote it: "{node.text}"' if is_word and isinstance(node, Scalar) else None
            return mismatch(self, node, at, hint)
        text = node.value
        if not text.strip() and not self.empty:
            return at.refuse(node.mark, "the text is empty", f"write {self.expects}")
        if not self.body and HIDDEN.search(text):
            return at.refuse(node.mark, "a control character or a line break in a one-line text")
        refusal = self.check(text) if self.check else None
        if refusal:
            return at.refuse(node.mark, *refusal)
        return text

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"type": "string"} | ({"pattern": self.pattern} if self.pattern else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number."""

    minimum: int = 0
    maximum: int = 1_000_000_000

    @property
    def expects(self) -> str:
        return f"a whole number >= {self.minimum}"

    def read(self, node: Node, at: At) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < self.minimum:
            return mismatch(self, node, at)
        if value > self.maximum:
            return at.refuse(node.mark, f"{value} is more than the most, {self.maximum}")
        return value

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """US dollars, exact; a price may be 0, a budget may not."""

    zero: bool = False

    @property
    def expects(self) -> str:
        return f"a number {'>=' if self.zero else '>'} 0"

    def read(self, node: Node, at: At) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, (int, Decimal)) or isinstance(value, bool):
            return mismatch(self, node, at)
        amount = Decimal(value)
        if amount < 0 or (amount == 0 and not self.zero):
            return mismatch(self, node, at)
        if amount > MAX_MONEY:
            return at.refuse(node.mark, f"{value} is more than the most, {MAX_MONEY} USD")
        if amount != round(amount, 9):
            return at.refuse(node.mark, f"{value} has more than nine decimals")
        return amount

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        minimum = "minimum" if self.zero else "exclusiveMinimum"
        return {"type": "number", minimum: 0, "maximum": MAX_MONEY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """true or false."""

    expects: str = "true or false"

    def read(self, node: Node, at: At) -> Any:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        words = {"yes": "true", "on": "true", "no": "false", "off": "false"}
        word = words.get(node.text.lower()) if isinstance(node, Scalar) else None
        return mismatch(self, node, at, f"write {word}" if word else None)

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"type": "boolean"}


_UNITS_S = {
    unit: Decimal(seconds)
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1), ("ms", "0.001"))
}
_DURATION = "".join(rf"(?:([0-9]{{1,9}}(?:\.[0-9]{{1,20}})?){unit})?" for unit in _UNITS_S)
_MAX_DURATION_S = 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Seconds inside, `1h30m` outside. A number without a unit is refused: of what?"""

    expects: str = "a duration such as 30m, 90s or 1h30m"

    def read(self, node: Node, at: At) -> Any:
        if not isinstance(node, Scalar) or node.value is None or isinstance(node.value, bool):
            return mismatch(self, node, at)
        if not isinstance(node.value, str):
            hint = f"add a unit: {node.text}s for seconds, {node.text}m for minutes"
            return mismatch(self, node, at, hint)
        match = re.fullmatch(_DURATION, node.value)
        if not node.value or not match:
            return mismatch(self, node, at, "units are d, h, m, s and ms, the largest first")
        parts = zip(match.groups(), _UNITS_S.values(), strict=True)
        seconds = sum((Decimal(number) * unit for number, unit in parts if number), Decimal(0))
        if seconds < Decimal("0.001"):
            return at.refuse(node.mark, f"{node.text} is too short", "the least is 1ms")
        if seconds > _MAX_DURATION_S:
            return at.refuse(node.mark, f"{node.text} is too long", "the most is 365d")
        return float(seconds)

    def write(self, value: Any) -> Any:
        left = Decimal(repr(value))
        if left % _UNITS_S["ms"]:
            return f"{left:f}s"
        words = ""
        for unit, length in _UNITS_S.items():
            count, left = divmod(left, length)
            words += f"{count:f}{unit}" if count else ""
        return words

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 2, "pattern": f"^{_DURATION}$"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a few words; `planned` ones are known but do not work yet."""

    options: tuple[str, ...]
    planned: tuple[str, ...] = ()

    @property
    def expects(self) -> str:
        return f"one of {', '.join(self.options)}"

    def read(self, node: Node, at: At) -> Any:
        word = node.value if isinstance(node, Scalar) else None
        if not isinstance(word, str):
            return mismatch(self, node, at)
        if word in self.options:
            return word
        if word in self.planned:
            hint = f"use {self.expects}"
            return at.refuse(node.mark, f"{word} is not supported yet", hint)
        near = at.nearest(word, self.options)
        return mismatch(self, node, at, f"did you mean {near}?" if near else None)

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"enum": list(self.options)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingPath:
    """A file or folder that must exist. Relative paths start where they are written."""

    kind: Literal["file", "folder"]

    @property
    def expects(self) -> str:
        return f"the path of a {self.kind}"

    def read(self, node: Node, at: At) -> Any:
        text = Text(expects=self.expects).read(node, at)
        if isinstance(text, Invalid):
            return text
        path = node.mark.source.folder / text
        try:
            path = path.resolve()
            found = path.is_dir() if self.kind == "folder" else path.is_file() or path.is_fifo()
        except (OSError, RuntimeError):  # too long, not permitted, a circle of links
            found = False
        if found and path == path.parent:
            return at.refuse(node.mark, "the root of the file system", "name a folder below it")
        if found and self.kind == "folder" and path.parts[1] in ("proc", "sys", "dev"):
            return at.refuse(node.mark, "a folder of the kernel", "tools never open it")
        if found:
            return str(path)
        hint = "a relative path starts at the folder of the file it is written in"
        if not node.mark.source.numbered:
            hint = "on the command line a relative path starts at the current folder"
        if text.startswith("~") or "$" in text:
            hint = "`~` and variables are not expanded: write the path out"
        return at.refuse(node.mark, f"no such {self.kind}: {path}", hint)

    def write(self, value: Any) -> Any:
        return value

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}
