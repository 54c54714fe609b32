"""The letters of YAML: bytes to text, plain scalars to values, parser errors to problems."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import yaml

from runner.adapters.specfile.problem import HIDDEN, At, Mark, Source, printable, shown

MAX_BYTES = 256 * 1024
_MAX_NUMBER_CHARS = 40

Value = str | int | Decimal | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A plain scalar that no type fits."""

    message: str
    hint: str


_CONSTANTS: dict[str, Value] = {
    word: value
    for words, value in (
        (("", "~", "null", "Null", "NULL"), None),
        (("true", "True", "TRUE"), True),
        (("false", "False", "FALSE"), False),
    )
    for word in words
}
_LEADING_ZERO = re.compile(r"([-+]?)0+([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)")
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?([0-9]+))?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def plain_value(text: str) -> Value | Unreadable:
    """What an unquoted scalar means in the core schema of YAML 1.2."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _NOT_FINITE.fullmatch(text):
        return Unreadable(message=f"{text} is not a finite number", hint="write a finite number")
    zero = _LEADING_ZERO.fullmatch(text)
    if zero:
        hint = f'write {zero[1]}{zero[2]}, or "{text}" in quotes if it is text'
        message = f"{shown(text)} starts with 0: versions of YAML read it differently"
        return Unreadable(message=message, hint=hint if len(text) < _MAX_NUMBER_CHARS else "")
    integer, decimal = _INTEGER.fullmatch(text), _FLOAT.fullmatch(text)
    if not integer and not decimal:
        return text
    if len(text) > _MAX_NUMBER_CHARS or (decimal and len(decimal[1] or "") > 2):
        message = f"the number {shown(text)} is out of range"
        return Unreadable(message=message, hint="put it in quotes if it is text")
    if integer:
        return int(text, 0)
    return Decimal(text)


def decode(data: bytes, source: Source, at: At) -> str | None:
    """The text of a spec file, or None when it is too large or holds what no text should."""
    start = Mark(source=source)
    if len(data) > MAX_BYTES:
        message = f"larger than {MAX_BYTES // 1024} KiB"
        at.refuse(start, message, "move a long prompt to a file and name it with `prompt_file`")
        return None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        at.refuse(start, "encoded as UTF-16", "save the file as UTF-8")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        at.refuse(Mark(source=source, line=line), "not valid UTF-8", "save the file as UTF-8")
        return None
    for match in HIDDEN.finditer(text):
        if match[0] not in "\t\n\r":
            _refuse_hidden(match, source, at)
            return None
    return text


def _refuse_hidden(match: re.Match[str], source: Source, at: At) -> None:
    before = match.string[: match.start()]
    line = len(re.findall(r"\r\n|\r|\n", before)) + 1
    column = len(before) - max(before.rfind("\n"), before.rfind("\r"))
    hint = "remove it; if it belongs into a text, write that text in double quotes with the escape"
    mark = Mark(source=source, line=line, column=column)
    at.refuse(mark, f"the control character {printable(match[0])} is not allowed", hint)


_SYNTAX_HINTS: tuple[tuple[str, str, str | None], ...] = (
    # what PyYAML says, what we say (empty: the same), what to do
    (r"found character '\\t'", "a tab cannot stand here", "indent with spaces"),
    (
        "mapping values are not allowed",
        "`: ` cannot stand here",
        "put a text that holds `: ` in quotes, or check the indentation of this line",
    ),
    (
        "could not find expected ':'",
        "a line without `key: value`",
        "write `key: value`; a text of several lines starts with `key: |` and is indented",
    ),
    (
        "expected <block end>",
        "the indentation does not fit the lines above",
        "indent the keys of one map, and the dashes of one list, by the same number of spaces",
    ),
    (
        "found character|expected alphabetic or numeric|expected whitespace",
        "",
        "put a text that starts with a special character in quotes",
    ),
    ("found unknown escape", "", "write a text with backslashes in 'single quotes'"),
    (
        "end of stream|<stream end>",
        "the text ends inside a value",
        "close the quote or the bracket",
    ),
    (r"expected ',' or '[\]}]'", "", "separate entries by commas, and close every bracket"),
)


def refuse_syntax(error: yaml.MarkedYAMLError, source: Source, at: At) -> None:
    """Note what the YAML parser says, in words that help."""
    where = error.problem_mark or error.context_mark
    mark = Mark(source=source, line=where.line + 1, column=where.column + 1) if where else None
    problem = error.problem or error.context or "not readable"
    message, hint = next(
        (known[1:] for known in _SYNTAX_HINTS if re.search(known[0], problem)), ("", None)
    )
    at.refuse(mark or Mark(source=source), f"not valid YAML: {message or problem}", hint)
