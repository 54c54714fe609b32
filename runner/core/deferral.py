"""Which definitions of tools are kept back until the model searches for them, and what it finds.

Only tools of MCP servers are ever kept back. What is loaded stays, after everything else: the
prefix of a request changes no more than it must.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from runner.core.messages import MCP_PREFIX, ToolSpec
from runner.core.state import State
from runner.core.thread import DENSITY
from runner.core.weight import tools_bound

SELECT = "select:"
"""What a search begins with that names tools."""

MOST_LOADED = 5
"""How many definitions one search loads."""

AUTO_PERCENT = 10
"""Definitions above this share of the window are kept back, unless the spec names another."""

USUAL_WINDOW = 200_000
"""Tokens a model is taken to read when nobody knows how many it does."""


def kept_back(
    setting: str, tools: tuple[ToolSpec, ...], exempt: Collection[str], window: int | None
) -> tuple[str, ...]:
    """The names of the tools that a run starts without.

    `setting` is `on`, `off`, `auto` or `auto:PERCENT`; tools of the servers in `exempt` are always
    shown.
    """
    candidates = tuple(
        tool
        for tool in tools
        if tool.name.startswith(MCP_PREFIX) and _server(tool.name) not in exempt
    )
    if setting == "off":
        return ()
    percent = setting.partition(":")[2]
    limit = (window or USUAL_WINDOW) * int(percent or AUTO_PERCENT) / 100
    if setting != "on" and tools_bound(candidates) * DENSITY <= limit:
        return ()
    return tuple(tool.name for tool in candidates)


def shown(state: State, offered: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """What the next request holds of what is `offered`: nothing that is kept back; then what was
    loaded, in the order in which that happened."""
    back = frozenset(state.preflight.deferred if state.preflight else ())
    if not back:
        return offered
    by_name = {tool.name: tool for tool in offered}
    loaded = (by_name[name] for name in state.main.loaded if name in by_name and name in back)
    return (*(tool for tool in offered if tool.name not in back), *loaded)


def is_kept_back(state: State, name: str) -> bool:
    """The model has not been shown this tool's definition yet."""
    back = state.preflight.deferred if state.preflight else ()
    return name in back and name not in state.main.loaded


def found(query: str, tools: Collection[ToolSpec], most: int = MOST_LOADED) -> tuple[str, ...]:
    """The tools a search is about, the best first.

    `select:NAME,NAME` names them. Else words are looked for in names and descriptions; one with a
    `+` before it must be there.
    """
    if query.startswith(SELECT):
        known = {tool.name for tool in tools}
        return tuple(name for name in selected(query) if name in known)[:most]
    words = query.lower().split()
    must = [word.removeprefix("+") for word in words if word.startswith("+")]
    scored = [(_score(tool, words), tool.name) for tool in tools if _has(tool, must)]
    ranked = sorted((-score, name) for score, name in scored if score)
    return tuple(name for _, name in ranked[:most])


def selected(query: str) -> tuple[str, ...]:
    """The names that a search asks for, each once; none when it looks for words."""
    if not query.startswith(SELECT):
        return ()
    names = (name.strip() for name in query.removeprefix(SELECT).split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def _server(name: str) -> str:
    return name.removeprefix(MCP_PREFIX).partition("__")[0]


def _has(tool: ToolSpec, must: list[str]) -> bool:
    text = f"{tool.name} {tool.description}".lower()
    return all(word in text for word in must)


def _score(tool: ToolSpec, words: list[str]) -> int:
    """A word of the name counts most, then a part of it, then the description."""
    name = tool.name.lower()
    parts = set(re.split(r"[_\-.]+", name))
    total = 0
    for word in (word.removeprefix("+") for word in words):
        if word in parts or word == name:
            total += 5
        elif word in name:
            total += 3
        elif word in tool.description.lower():
            total += 1
    return total
