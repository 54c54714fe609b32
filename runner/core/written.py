"""Words of a command as they are written: patterns stay, quotes are gone, the rest is unknown.

What a word comes to is decoded in `shell`; this is for judging what a pattern may mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.core.rules import Word

_KNOWN_VARIABLES = {"HOME": "~", "PWD": "."}


def as_written(word: Mapping[str, Any]) -> Word:
    """The pieces of a word of the syntax tree; None for what only the shell will know.

    The variables HOME and PWD become `~` and `.`.
    """
    pieces: list[str | None] = []
    for piece in _pieces(word):
        if piece is not None and pieces and pieces[-1] is not None:
            pieces[-1] += piece
        elif piece != "" or not pieces:
            pieces.append(piece)
    return tuple(pieces) or ("",)


def _pieces(word: Mapping[str, Any]) -> Iterator[str | None]:
    for part in word.get("Parts", ()):
        kind, value = part.get("Type"), str(part.get("Value", ""))
        if kind == "DblQuoted":
            yield from _pieces(part)
        elif kind == "ParamExp":
            yield _variable(part)
        elif kind == "Lit" or (kind == "SglQuoted" and not (part.get("Dollar") and "\\" in value)):
            yield value.replace("\\\n", "").replace("\\", "")
        else:
            yield None


def _variable(part: Mapping[str, Any]) -> str | None:
    plain = {"Type", "Param", "Short", "Dollar", "Rbrace", "Pos", "End"}
    name = str((part.get("Param") or {}).get("Value"))
    return _KNOWN_VARIABLES.get(name) if part.keys() <= plain else None
