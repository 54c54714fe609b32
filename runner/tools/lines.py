"""Text with line ends of any kind, edited without touching a byte that was not meant.

Rules of this file:
* The model sees every line end as `\\n`; a file holds `\\n`, `\\r\\n`, a lone `\\r`, or a mix.
* An edit works on bytes: what is outside the changed part is copied, not decoded and encoded.
* New lines take the line end that is usual at their place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

BOM = b"\xef\xbb\xbf"
ANY_END = re.compile(rb"\r\n|\r|\n")
ONE_END = rb"(?:\r\n|\r(?!\n)|(?<!\r)\n)"  # never one half of a \r\n


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Where a text stands in the bytes of a file, and on which line it begins (from 1)."""

    start: int
    end: int
    line: int


def normal(text: str) -> str:
    """`text` with every line end as `\\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decode(raw: bytes) -> str:
    """The text the model sees: no BOM, every line end `\\n`. Raises `UnicodeDecodeError`."""
    return normal(raw.removeprefix(BOM).decode("utf-8"))


def usual_end(raw: bytes) -> bytes:
    """The most frequent line end; of equals the first; `\\n` when there is none."""
    ends = Counter(ANY_END.findall(raw)).most_common(1)
    return ends[0][0] if ends else b"\n"


def encode_like(text: str, old: bytes) -> bytes:
    """New content for a whole file that keeps the BOM and the usual line end of `old`.

    Raises `UnicodeEncodeError`.
    """
    body = normal(text).encode("utf-8").replace(b"\n", usual_end(old))
    return BOM + body if old.startswith(BOM) and not body.startswith(BOM) else body


def find(raw: bytes, text: str, *, overlapping: bool) -> Iterator[Match]:
    """The places of `text` (not empty) in a UTF-8 file, in order. Raises `UnicodeEncodeError`."""
    pattern = _pattern(normal(text))
    at = len(BOM) if raw.startswith(BOM) else 0
    counted, line = 0, 1
    while (found := pattern.search(raw, at)) is not None:
        start, end = found.span()
        line += len(ANY_END.findall(raw, counted, start))
        counted = start
        yield Match(start=start, end=end, line=line)
        at = start + 1 if overlapping else end


def splice(raw: bytes, matches: Sequence[Match], old: str, new: str) -> bytes:
    """`raw` with `old` replaced by `new` at each of `matches`, which do not overlap.

    Raises `UnicodeEncodeError`.
    """
    old, new = normal(old), normal(new)
    ends = _Ends(raw)
    pieces: list[bytes] = []
    done = 0
    for match in matches:
        start, end, text = _changed_part(raw, match, old, new)
        middle = text.encode("utf-8")
        if b"\n" in middle:
            middle = middle.replace(b"\n", _end_near(raw, match, ends))
        before = pieces[-1][-1:] if pieces and start == done else raw[max(start - 1, done) : start]
        seamless = _seam(before, middle, raw[end : end + 1])
        pieces += [piece for piece in (raw[done:start], seamless) if piece]
        done = end
    return b"".join([*pieces, raw[done:]])


def _pattern(text: str) -> re.Pattern[bytes]:
    return re.compile(ONE_END.join(re.escape(part.encode("utf-8")) for part in text.split("\n")))


def _changed_part(raw: bytes, match: Match, old: str, new: str) -> tuple[int, int, str]:
    """The part of a match that really changes, and its new text.

    What `old` and `new` have in common at both ends keeps its bytes, line ends included.
    """
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    stop = len(old) - tail
    first = _pattern(old[:head]).match(raw, match.start)
    assert first is not None
    last = _pattern(old[head:stop]).match(raw, first.end())
    assert last is not None
    return first.end(), last.end(), new[head : len(new) - tail]


def _common(one: str, other: str) -> int:
    """How many characters the two begin with together."""
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)


class _Ends:
    """The line ends of a file, gone through once: lines can be long, and matches on them many."""

    def __init__(self, raw: bytes) -> None:
        self._coming = ANY_END.finditer(raw)
        self._next = next(self._coming, None)
        self._passed: bytes | None = None

    def near(self, at: int) -> bytes | None:
        """The first line end from `at` on, else the last before it; `at` never goes back."""
        while self._next is not None and self._next.start() < at:
            self._passed = self._next.group()
            self._next = next(self._coming, None)
        return self._passed if self._next is None else self._next.group()


def _end_near(raw: bytes, match: Match, ends: _Ends) -> bytes:
    """The line end usual in the match, else that of its line, else of the line before."""
    if ANY_END.search(raw, match.start, match.end):
        return usual_end(raw[match.start : match.end])
    return ends.near(match.end) or b"\n"


def _seam(before: bytes, middle: bytes, after: bytes) -> bytes:
    """`middle`, so that a `\\r` and a `\\n` from its two sides do not become one line end."""
    if not middle:
        return b"\n" if (before, after) == (b"\r", b"\n") else b""
    if before == b"\r" and middle.startswith(b"\n"):
        middle = b"\r" + middle
    if middle.endswith(b"\r") and after == b"\n":
        middle += b"\n"
    return middle
