"""Words of the syntax tree of a command, decoded: what the program will get, or unknown.

Rules of this file: a piece that the shell would make more of than it says is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runner.core.rules import Word

Node = Mapping[str, Any]


def decoded(word: Node) -> Word:
    """The pieces of a word; known ones that touch are one."""
    pieces: list[str | None] = []
    parts = word.get("Parts", ())
    if len(parts) == 1 and parts[0].get("Type") == "Lit" and parts[0].get("Value") == "[":
        return ("[",)  # the command; no pattern, since nothing closes it
    for part in parts:
        for piece in _part(part):
            if piece is not None and pieces and pieces[-1] is not None:
                pieces[-1] += piece
            else:
                pieces.append(piece)
    if pieces and (pieces[0] or "").startswith("~") and parts[0].get("Type") == "Lit":
        pieces[0] = None
    return tuple(pieces) if pieces else ("",)


def _part(part: Node) -> Iterator[str | None]:
    kind, value = part.get("Type"), part.get("Value", "")
    if kind == "SglQuoted" and not part.get("Dollar"):
        yield value
    elif kind == "Lit":
        yield _bare(value)
    elif kind == "DblQuoted" and not part.get("Dollar"):
        for inner in part.get("Parts", ()):
            quoted = inner.get("Type") == "Lit"
            yield _unescaped(inner.get("Value", ""), '$`"\\\n') if quoted else None
        yield ""
    else:
        yield None


def _bare(text: str) -> str | None:
    """Text outside of quotes, or None where the shell may make more of it than it says."""
    plain = re.sub(r"\\.", "", text, flags=re.DOTALL)
    if re.search(r"[*?\[]", plain) or ("{" in plain and text != "{}") or re.search("[=:]~", plain):
        return None
    return _unescaped(text, None)


def _unescaped(text: str, escapes: str | None) -> str:
    """Without the backslashes that quote something: anything, or one of `escapes`."""

    def one(found: re.Match[str]) -> str:
        char = found[1]
        if escapes is not None and char not in escapes:
            return found[0]
        return "" if char == "\n" else char

    return re.sub(r"\\(.)", one, text, flags=re.DOTALL)
