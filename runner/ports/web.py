"""Pages and searches of the web."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runner.core.urls import WebUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is at a URL, as text. `moved_to` is where else to ask, which nobody did yet.

    `url` is where it was in the end, `kind` its media type; `cut` is set when there was more.
    """

    url: str
    status: int
    kind: str
    text: str
    cut: bool = False
    moved_to: str | None = None


class Web(Protocol):
    """Reads pages of the web."""

    async def read(self, url: WebUrl, timeout_s: float) -> Page:
        """GET one page; redirects are followed on the same host only. Connects to addresses that
        may be connected to and to no others. Raises `ToolFailure`, `ToolDenied`. Cancelled: the
        connection is closed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One result of a search."""

    title: str
    url: str
    snippet: str
    date: str | None = None


class WebSearch(Protocol):
    """Asks a search engine."""

    async def search(self, query: str, timeout_s: float) -> tuple[Hit, ...]:
        """One paid query, never repeated. Raises `ToolFailure`. Cancelled: the connection is
        closed; the query may be billed."""
        ...
