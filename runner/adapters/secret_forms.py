"""The texts a secret can be recognized by: as it is, encoded, escaped, and each line of it.

Rules of this file: forms hold no line breaks, since they are looked for in text that has lost its
own; a form is at least `MIN_CHARS` long, so that innocent text is not hit.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

MIN_CHARS = 6
"""What is shorter stands in innocent text too often."""

MIN_LINE_CHARS = 8
_ARMOUR = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")
_BREAKS = str.maketrans("", "", "\r\n")


def forms(value: str) -> frozenset[str]:
    """Every form of a secret, the longest it can be told by."""
    whole = value.strip("\r\n")
    found = {value, whole, *_escaped(whole), *_lines(whole)}
    for raw in {_bytes(value), _bytes(whole)}:
        found |= {*_base64(raw), raw.hex(), raw.hex().upper()}
    bare = (form.translate(_BREAKS) for form in found)
    return frozenset(form for form in bare if len(form) >= MIN_CHARS)


def squeezed(text: str) -> str:
    """The text without its line breaks, for which `forms` are made."""
    return text.replace("\n", "").replace("\r", "")


def _escaped(value: str) -> Iterator[str]:
    """As it stands in a URL, in JSON, in JSON inside JSON, and in HTML."""
    raw = _bytes(value)
    for coded in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield coded
        yield re.sub("%..", lambda match: match[0].lower(), coded)
    for is_ascii in (True, False):
        inner = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield inner
        yield inner.replace("/", r"\/")
        yield json.dumps(inner, ensure_ascii=is_ascii)[1:-1]
    yield html.escape(value)


def _lines(value: str) -> Iterator[str]:
    """Each line of a key file by itself, but for what stands in every such file."""
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (
            line for line in lines if len(line) >= MIN_LINE_CHARS and not _ARMOUR.fullmatch(line)
        )


def _base64(raw: bytes) -> Iterator[str]:
    """Encoded by itself, and the characters that hold nothing else wherever it starts in what is
    encoded."""
    yield base64.b64encode(raw).decode()
    yield base64.urlsafe_b64encode(raw).decode()
    for before in range(3):
        coded = base64.b64encode(bytes(before) + raw).decode()
        first, end = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        yield coded[first:end]
        yield coded[first:end].translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
