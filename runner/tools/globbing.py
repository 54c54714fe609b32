"""Glob patterns, matched name by name while a tree is walked.

`*`, `?` and `[...]` stay inside one name, `**` stands for any number of directories, `{a,b}` for
either. A state of the match is how many parts of a pattern are used up; a directory whose state
set is empty cannot hold a match and is not entered.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from runner.ports import ToolFailure

MAX_VARIANTS = 64
BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

State = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """The variants of one pattern, each as its parts."""

    variants: tuple[tuple[str, ...], ...]

    @property
    def start(self) -> State:
        """The state at the top of the tree."""
        return self._closed({(number, 0) for number in range(len(self.variants))})

    def after(self, state: State, name: str) -> State:
        """The state below `name`."""
        reached: set[tuple[int, int]] = set()
        for variant, used in state:
            parts = self.variants[variant]
            if used == len(parts):
                continue
            if parts[used] == "**":
                reached.add((variant, used))
            elif _name_pattern(parts[used]).match(name):
                reached.add((variant, used + 1))
        return self._closed(reached)

    def matches(self, state: State) -> bool:
        """Whether a file in this state matches."""
        return any(used == len(self.variants[variant]) for variant, used in state)

    def leads_on(self, state: State) -> bool:
        """Whether a match can lie below a directory in this state."""
        return any(used < len(self.variants[variant]) for variant, used in state)

    def names(self, name: str) -> bool:
        """Whether the pattern itself asks for a directory of exactly this name."""
        return any(name in parts for parts in self.variants)

    def _closed(self, state: set[tuple[int, int]]) -> State:
        """With the states that `**` reaches by standing for nothing."""
        todo = list(state)
        while todo:
            variant, used = todo.pop()
            parts = self.variants[variant]
            skipped = (variant, used + 1)
            if used < len(parts) - 1 and parts[used] == "**" and skipped not in state:
                state.add(skipped)
                todo.append(skipped)
        return frozenset(state)


def parse(text: str) -> Pattern:
    """Raises `ToolFailure` when the pattern makes no sense beneath one directory."""
    variants: list[tuple[str, ...]] = []
    for variant in _expanded(text):
        parts = [part for part in variant.split("/") if part not in ("", ".")]
        if not parts or ".." in parts:
            raise ToolFailure("the pattern is empty or holds `..`; give the directory as path")
        if parts[-1] == "**":
            parts.append("*")
        # Several `**` in a row mean what one means.
        variants.append(tuple(p for p, q in pairwise([*parts, ""]) if not p == q == "**"))
    return Pattern(variants=tuple(variants))


def _expanded(text: str) -> list[str]:
    """`a{b,c}` as `ab` and `ac`, braces in braces too."""
    todo, done = [text], []
    while todo:
        item = todo.pop()
        group = BRACES.search(item)
        if group is None:
            done.append(item)
            continue
        todo += [
            item[: group.start()] + choice + item[group.end() :]
            for choice in group.group(1).split(",")
        ]
        if len(todo) + len(done) > MAX_VARIANTS:
            raise ToolFailure(f"the braces stand for more than {MAX_VARIANTS} patterns")
    return done


@cache
def _name_pattern(part: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(part), re.DOTALL)
