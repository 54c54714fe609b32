"""Masks secrets in whatever leaves the runner or reaches the model: text, bytes, values, streams.

Everything goes through a `Mask`: events before their line is built, output of commands before it
is kept or cut, patches, logs, results.

Rules of this file:
* A secret is found in every form of `secret_forms`, and with line breaks anywhere in it.
* A piece of a long secret is found too: output that is cut must not leave half a key.
* What a stream gives piece by piece is what the whole text gives, however it was cut.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from runner.adapters.secret_forms import forms, squeezed

T = TypeVar("T")
Span = tuple[int, int]
ReadAs = Callable[[str], str]

MASKED = "***"

PIECES_OF = range(24, 8193)
"""How long a secret is whose pieces are masked too, in characters."""

MAX_TEXT_CHARS = 256
"""A longer one with spaces or quotes in it is a text, such as JSON, whose pieces say nothing."""

PIECE_CHARS = 16
BLOCK_CHARS = 8
BLOCK_STEP = PIECE_CHARS - BLOCK_CHARS + 1
"""Every piece holds a whole block, when the blocks begin this far apart."""

MAX_HELD_CHARS = 64 * 1024
"""How much of a stream may wait, unless a secret is longer than half of that."""


def _has_pieces(value: str) -> bool:
    is_token = len(value) <= MAX_TEXT_CHARS or re.fullmatch(r"[A-Za-z0-9+/=_.~:-]+", value)
    return len(value) in PIECES_OF and len(value.splitlines()) == 1 and bool(is_token)


class Mask:
    """Replaces secrets by `***`. Without secrets everything stays as it is.

    `read_as` is how text looks to whoever searches: bytes are read one character each.
    """

    def __init__(self, values: Iterable[str] = (), *, read_as: ReadAs = str) -> None:
        self._values = frozenset(values)
        found = set[str]().union(*map(forms, self._values))
        self._forms = sorted(map(read_as, found))
        self._long = sorted(map(read_as, filter(_has_pieces, self._values)))
        self._all = "\n".join([*self._forms, *self._long])
        self._longest = max(map(len, self._forms), default=0)
        self._most_held = max(MAX_HELD_CHARS, 2 * self._longest)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def text(self, text: str) -> str:
        """The text with every secret masked."""
        return replaced(text, self.spans(text))

    def data(self, raw: bytes) -> bytes:
        """The same for bytes."""
        return self._of_bytes().text(raw.decode("latin-1")).encode("latin-1")

    def value(self, value: T) -> T:
        """The same for every text in a dataclass, mapping, list or tuple, keys included."""
        return cast(T, self._masked(value)) if self else value

    def stream(self) -> Stream:
        """A stream of text."""
        return Stream(self)

    def byte_stream(self) -> ByteStream:
        """A stream of bytes."""
        return ByteStream(self._of_bytes())

    def spans(self, text: str) -> list[Span]:
        """Where the secrets are, in order; they do not overlap."""
        bare = squeezed(text)
        found = [span for form in self._forms for span in _occurrences(bare, form)]
        for value in self._long:
            found += _pieces(bare, value)
        if not found:
            return []
        merged = _merged(found)
        return merged if len(bare) == len(text) else _with_breaks(text, merged)

    def open_from(self, text: str) -> int:
        """Where a secret might begin that is not over at the end of the text."""
        part = text[-self._most_held :]
        bare = squeezed(part)
        # An end of the text that is part of a secret has shorter ends that are, too.
        lengths = range(1, min(len(bare), self._longest) + 1)
        length = bisect_left(lengths, True, key=lambda n: bare[-n:] not in self._all)
        if not length:
            return len(text)
        if len(bare) == len(part):
            return len(text) - length
        ((start, _),) = _with_breaks(part, [(len(bare) - length, len(bare))])
        return len(text) - len(part) + start

    def _of_bytes(self) -> Mask:
        """The mask for bytes that are read as Latin-1, one character each."""
        if all(form.isascii() for form in self._forms):
            return self
        return Mask(self._values, read_as=_as_latin)

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            before = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            after = {name: self._masked(item) for name, item in before.items()}
            changed = {n: item for n, item in after.items() if item is not before[n]}
            return dataclasses.replace(value, **changed) if changed else value
        if isinstance(value, Mapping):
            pairs = [
                (key, item, self._masked(key), self._masked(item)) for key, item in value.items()
            ]
            same = all(key is k and item is i for key, item, k, i in pairs)
            return value if same else {k: i for _, _, k, i in pairs}
        if isinstance(value, (list, tuple)):
            entries = [self._masked(item) for item in value]
            same = all(new is old for new, old in zip(entries, value, strict=True))
            return value if same else type(value)(entries)
        return value


class Stream:
    """Text that comes in pieces: what may be the beginning of a secret waits for the next one."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take a piece; what can be shown now, masked."""
        if not self._mask:
            return piece
        self._held += piece
        cut = self._mask.open_from(self._held)
        spans = self._mask.spans(self._held)
        for start, end in reversed(spans):
            if start < cut < end:
                cut = start
        shown = replaced(self._held[:cut], [span for span in spans if span[1] <= cut])
        self._held = self._held[cut:]
        return shown

    def close(self) -> str:
        """The rest, masked."""
        rest, self._held = self._held, ""
        return self._mask.text(rest)


class ByteStream:
    """The same for bytes. `mask` is one for Latin-1."""

    def __init__(self, mask: Mask) -> None:
        self._stream = Stream(mask)

    def feed(self, piece: bytes) -> bytes:
        """Take a piece; what can be shown now, masked."""
        return self._stream.feed(piece.decode("latin-1")).encode("latin-1")

    def close(self) -> bytes:
        """The rest, masked."""
        return self._stream.close().encode("latin-1")


NOTHING = Mask()
"""Masks nothing."""


def replaced(text: str, spans: list[Span]) -> str:
    """The text with these parts masked."""
    if not spans:
        return text
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], MASKED]
        at = end
    return "".join([*parts, text[at:]])


def _as_latin(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _occurrences(text: str, form: str) -> Iterator[Span]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + 1)


def _pieces(text: str, value: str) -> Iterator[Span]:
    """Where at least `PIECE_CHARS` of the value stand in the text, but not the whole of it."""
    blocks = range(0, len(value) - BLOCK_CHARS + 1, BLOCK_STEP)
    hits = ((at, n) for n in blocks for at, _ in _occurrences(text, value[n : n + BLOCK_CHARS]))
    seen: dict[int, int] = {}  # how far a piece was followed, by where the value would begin
    for at, first in sorted(hits):
        begin = at - first
        if at < seen.get(begin, 0) or (begin >= 0 and text.startswith(value, begin)):
            continue
        start = at - _common(text[max(begin, 0) : at][::-1], value[:first][::-1])
        end = seen[begin] = at + _common(text[at : at + len(value)], value[first:])
        if end - start >= PIECE_CHARS:
            yield start, end


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _merged(spans: list[Span]) -> list[Span]:
    """In order, and overlapping ones as one; those that touch stay two."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _with_breaks(text: str, spans: list[Span]) -> list[Span]:
    """The same places in the text that still has its line breaks."""
    before = [match.start() - n for n, match in enumerate(re.finditer("[\r\n]", text))]

    def place(position: int) -> int:
        return position + bisect_right(before, position)

    return [(place(start), place(end - 1) + 1) for start, end in spans]
