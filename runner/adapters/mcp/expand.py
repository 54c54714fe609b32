"""Fills `$VAR`, `${VAR}` and `${VAR:-default}` into what a spec says of a server.

Late, and for the server alone: the values stand in no log, and no other server sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from runner.core.spec import McpServerSpec

_VARIABLE = re.compile(
    r"\$(?:(?P<bare>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\})"
)


def expanded(spec: McpServerSpec, environ: Mapping[str, str]) -> McpServerSpec:
    """The server with the values filled in. A variable that is missing becomes nothing: whoever
    starts a server asks `missing` first."""

    def fill(text: str) -> str:
        return _VARIABLE.sub(lambda found: _value(found, environ) or "", text)

    return replace(
        spec,
        command=None if spec.command is None else fill(spec.command),
        args=tuple(map(fill, spec.args)),
        env={name: fill(text) for name, text in spec.env.items()},
        url=None if spec.url is None else fill(spec.url),
        headers={name: fill(text) for name, text in spec.headers.items()},
    )


def missing(spec: McpServerSpec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that are asked for, are not set and have no default."""
    return tuple(
        dict.fromkeys(_name(found) for found in _all(spec) if _value(found, environ) is None)
    )


def variables(texts: Iterable[str]) -> tuple[str, ...]:
    """The variables that these texts ask for."""
    return tuple(dict.fromkeys(_name(one) for text in texts for one in _VARIABLE.finditer(text)))


def _all(spec: McpServerSpec) -> Iterator[re.Match[str]]:
    texts = (spec.command or "", *spec.args, *spec.env.values(), spec.url or "")
    for text in (*texts, *spec.headers.values()):
        yield from _VARIABLE.finditer(text)


def _name(found: re.Match[str]) -> str:
    return found["bare"] or found["name"]


def _value(found: re.Match[str], environ: Mapping[str, str]) -> str | None:
    """As in a shell, `:-` stands in for what is empty, too."""
    value = environ.get(_name(found))
    return value or found["default"] if found["default"] is not None else value
