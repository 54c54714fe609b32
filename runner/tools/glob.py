"""Glob: files by name, newest first, found by a walk that follows no symlink and has an end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from runner.ports import ToolContext, ToolDenied, ToolOutput
from runner.tools.answers import answer, tool_spec
from runner.tools.globbing import Pattern, State, parse
from runner.tools.paths import (
    Place,
    Roots,
    errors_of,
    lexical,
    locate,
    opened_directory,
    relative,
    shown,
)

MAX_RESULTS = 100
MAX_ENTRIES = 300_000
MAX_DEPTH = 100
MAX_SECONDS = 10.0
GIT_DIR = ".git"


@dataclass(slots=True, kw_only=True)
class _Walk:
    """What a walk found so far, and why it left something out."""

    pattern: Pattern
    deadline: float
    found: list[tuple[int, str]] = field(default_factory=list)
    entries: int = 0
    stopped: str | None = None


class Glob:
    """Lists files; ignore files do not matter to it."""

    def __init__(self, *, roots: Roots, descriptions: Mapping[str, str]) -> None:
        self._roots = roots
        self.spec = tool_spec(
            "Glob",
            descriptions,
            {"pattern": {"type": "string"}, "path": {"type": "string"}},
            required=("pattern",),
            read_only=True,
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return {
            "kind": "read",
            "path": shown(lexical(self._roots, str(arguments.get("path") or "."))),
            "intention": f"List files that match {shown(str(arguments['pattern']))}",
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        path, text = self._split(arguments.get("path") or ".", arguments["pattern"])
        place = locate(self._roots, path)
        pattern = parse(text)
        with errors_of(place), opened_directory(place):
            pass
        deadline = asyncio.get_running_loop().time() + MAX_SECONDS
        walk = _Walk(pattern=pattern, deadline=deadline)
        await _walk(walk, place)
        return answer(self._text(walk, place), context)

    def _split(self, path: str, pattern: str) -> tuple[str, str]:
        """An absolute pattern as a root and the rest of it."""
        if not pattern.startswith("/"):
            return path, pattern
        for root in self._roots.writable:
            if PurePosixPath(pattern).is_relative_to(root):
                return str(root), str(PurePosixPath(pattern).relative_to(root))
        raise ToolDenied(f"{shown(pattern)} does not begin with an allowed directory")

    def _text(self, walk: _Walk, place: Place) -> str:
        newest = sorted(walk.found, key=lambda item: (-item[0], item[1]))
        lines = [relative(self._roots, place.path / name) for _, name in newest[:MAX_RESULTS]]
        if not lines:
            lines = ["No files found."]
        if len(newest) > MAX_RESULTS:
            lines.append(f"[the newest {MAX_RESULTS} of {len(newest)}; narrow the pattern]")
        if walk.stopped:
            lines.append(f"[{walk.stopped}; there may be more: narrow the pattern or the path]")
        return "\n".join(lines)


async def _walk(walk: _Walk, place: Place) -> None:
    """Depth first, by name, directory by directory; each is opened anew beneath the root."""
    todo: list[tuple[tuple[str, ...], State]] = [((), walk.pattern.start)]
    now = asyncio.get_running_loop().time
    while todo:
        below, state = todo.pop()
        if now() > walk.deadline or walk.entries >= MAX_ENTRIES:
            walk.stopped = f"stopped after {walk.entries} entries"
            return
        here = Place(root=place.root, parts=(*place.parts, *below))
        # A directory that vanished or may not be read is no reason to lose the others.
        with suppress(OSError):
            todo += _visit(walk, here, below, state)
        await asyncio.sleep(0)


def _visit(
    walk: _Walk, here: Place, below: tuple[str, ...], state: State
) -> list[tuple[tuple[str, ...], State]]:
    """Look at one directory: note its matches, return the directories to go on with."""
    deeper: list[tuple[tuple[str, ...], State]] = []
    with opened_directory(here) as fd, os.scandir(fd) as entries:
        for entry in entries:
            walk.entries += 1
            state_here = walk.pattern.after(state, entry.name)
            if not entry.is_dir(follow_symlinks=False):
                if walk.pattern.matches(state_here):
                    modified_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                    walk.found.append((modified_ns, "/".join((*below, entry.name))))
            elif _enters(walk, entry.name, state_here, len(below)):
                deeper.append(((*below, entry.name), state_here))
    return sorted(deeper, reverse=True)


def _enters(walk: _Walk, name: str, state: State, depth: int) -> bool:
    if name == GIT_DIR and not walk.pattern.names(GIT_DIR):
        return False
    if not walk.pattern.leads_on(state):
        return False
    if depth >= MAX_DEPTH:
        walk.stopped = f"directories deeper than {MAX_DEPTH} levels were left out"
        return False
    return True
