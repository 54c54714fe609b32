"""The texts of a spec: read from files or standard input, with placeholders filled in.

Rules of this file: a placeholder is replaced exactly once, and what replaces it is never looked
at again; `{{ "{{" }}` stands for a literal `{{`; what cannot be a placeholder of ours is left.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import select
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.adapters.specfile.problem import At, Invalid, Mark, Source, neighbour, shown
from runner.adapters.specfile.shapes import FileText
from runner.adapters.specfile.yaml_document import Fields, Node, Scalar

MAX_TEXT_BYTES = 1024 * 1024
"""Of a prompt file or an input file."""

WRITER_MS = 10_000
"""How long a pipe that nobody has opened yet is waited for."""

_PLACEHOLDER = re.compile(r'\{\{\s*(?:inputs\b([^{}]*)|"\{\{"\s*)\}\}')
_WOULD_BE = re.compile(
    r"\{\{\s*\$?([A-Za-z_][A-Za-z0-9_]*)\s*(?:\.\s*([A-Za-z_][A-Za-z0-9_-]*)\s*)?\}\}"
)
_LITERAL = 'A literal {{ is written {{ "{{" }}'
_CLOSE = 0.75
"""How much like `inputs` a word is that was meant to be it: `input`, `Inputs`, `imputs`."""
_NAME = re.compile(r"\s*\.\s*([A-Za-z_][A-Za-z0-9_-]*)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A text and where its first line stands; `follows` says whether its other lines do too."""

    text: str
    mark: Mark
    follows: bool

    def mark_at(self, position: int) -> Mark:
        """Where the character at `position` stands."""
        if not self.follows:
            return self.mark
        line = self.mark.line + self.text.count("\n", 0, position)
        return dataclasses.replace(self.mark, line=line, column=1)


class Unusable(Exception):
    """A file cannot be used; the message says why."""


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file or pipe. Raises `Unusable`; reads one byte over the limit at
    most, so that the caller sees that it was passed."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise Unusable("is a folder")
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise Unusable("is not a regular file")
        if stat.S_ISFIFO(mode):
            return _read_pipe(path, max_bytes)
        with path.open("rb") as file:
            return file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a possible path"
        raise Unusable(f"cannot be read: {reason}") from None


def _read_pipe(path: Path, max_bytes: int) -> bytes:
    """The same for a pipe: a slow writer is waited for, one that never comes is not."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb", buffering=0) as pipe:
        readable = select.poll()
        readable.register(fd, select.POLLIN)
        data = b""
        while not data and not readable.poll(WRITER_MS):
            first = pipe.read(1)  # None from a writer that is there and silent
            if first == b"":
                raise Unusable(f"is a pipe that nobody wrote to for {WRITER_MS / 1000:g} s")
            data = first or b""
        os.set_blocking(fd, True)
        while chunk := pipe.read(max_bytes + 1 - len(data)):
            data += chunk
        return data


def read_text(path: Path) -> str:
    """The text of a prompt or input file. Raises `Unusable`."""
    data = read_bytes(path, MAX_TEXT_BYTES)
    if len(data) > MAX_TEXT_BYTES:
        raise Unusable(f"is larger than {MAX_TEXT_BYTES // 1024} KiB")
    if b"\0" in data:
        raise Unusable("is not text: it holds a NUL byte")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unusable("is not valid UTF-8") from None


def body(
    value: str | FileText, node: Node, at: At, stdin: Callable[[], str] | None
) -> Body | Invalid:
    """The text that a key holds or points to. `stdin` is None when it was read already."""
    if isinstance(value, str):
        return _body_in_spec(value, node)
    if value.path != "-":
        return _body_in_file(value, node, at)
    if stdin is None:
        hint = "write the prompt into the spec, or give the spec as a file"
        return at.refuse(value.mark, "standard input was read already: as the spec", hint)
    text = stdin()
    if not text.strip():
        return at.refuse(value.mark, "standard input is empty", "pipe the task in")
    if re.search("[\0\ud800-\udfff]", text):
        return at.refuse(value.mark, "standard input is not UTF-8 text")
    name = Source(name="<stdin>", folder=value.mark.source.folder)
    return Body(text=text, mark=Mark(source=name), follows=True)


def _body_in_spec(text: str, node: Node) -> Body:
    literal = isinstance(node, Scalar) and node.literal
    below = dataclasses.replace(node.mark, line=node.mark.line + 1) if literal else node.mark
    return Body(text=text, mark=below, follows=literal)


def _body_in_file(value: FileText, node: Node, at: At) -> Body | Invalid:
    path = Path(value.path)
    try:
        text = read_text(path)
    except Unusable as error:
        return at.refuse(value.mark, f"{path} {error}")
    if not text.strip():
        return at.refuse(value.mark, f"{path} is empty")
    named = node.fields["file"].node if isinstance(node, Fields) else node
    shown_as = named.text if isinstance(named, Scalar) else value.path
    source = Source(name=neighbour(value.mark.source, shown_as), folder=path.parent)
    return Body(text=text, mark=Mark(source=source), follows=True)


def fill(
    text: Body,
    values: Mapping[str, str | None],
    at: At,
    closed_to: Collection[str] = (),
) -> str:
    """Replace the placeholders, once. `values` has every declared input; None keeps its
    placeholder as it is. The text is closed to some inputs: naming one of them is a mistake."""
    for match in _WOULD_BE.finditer(text.text):
        if (meant := _meant(match, values, at)) is not None:
            hint = f"did you mean {{{{ inputs.{meant} }}}}? {_LITERAL}"
            at.refuse(text.mark_at(match.start()), f"{shown(match[0])} is no placeholder", hint)

    def replacement(match: re.Match[str]) -> str:
        inner = match[1]
        if inner is None:
            return "{{"
        name = _NAME.fullmatch(inner)
        if name is None:
            hint = 'write {{ inputs.NAME }}; a literal {{ is written {{ "{{" }}'
            at.refuse(text.mark_at(match.start()), f"{shown(match[0])} is no placeholder", hint)
        elif name[1] not in values:
            _refuse_undeclared(name[1], text.mark_at(match.start()), values, at)
        elif name[1] in closed_to:
            message = f"the input {name[1]} is untrusted, and this is where the rules stand"
            at.refuse(text.mark_at(match.start()), message, "use it in `prompt`")
        else:
            value = values[name[1]]
            return match[0] if value is None else value
        return match[0]

    return _PLACEHOLDER.sub(replacement, text.text)


def _meant(match: re.Match[str], declared: Iterable[str], at: At) -> str | None:
    """The input that something like a placeholder was to name; None when it is somebody else's.

    `{{ input.x }}` is misspelt, and `{{ x }}` lacks its first half when x is an input.
    """
    first, second = match[1], match[2]
    if second is None:
        return first if first in declared else None
    close = difflib.get_close_matches(first.lower(), ["inputs"], cutoff=_CLOSE)
    return (at.nearest(second, declared) or second) if close and first != "inputs" else None


def literal(text: str, declared: Collection[str] = ()) -> str:
    """The text, written so that `fill` gives it back as it is."""

    def escaped(match: re.Match[str]) -> str:
        return '{{ "{{" }}' + match[0][2:]

    def escaped_if_meant(match: re.Match[str]) -> str:
        return match[0] if _meant(match, declared, At("", [])) is None else escaped(match)

    return _WOULD_BE.sub(escaped_if_meant, _PLACEHOLDER.sub(escaped, text))


def _refuse_undeclared(name: str, mark: Mark, values: Mapping[str, str | None], at: At) -> None:
    near = at.nearest(name, values)
    hint = f"did you mean {near}?" if near else f"declare it: `inputs: {{{name}: {{}}}}`"
    at.refuse(mark, f"the input {name} is not declared", hint)
