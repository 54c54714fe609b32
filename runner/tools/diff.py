"""Changes for people: what a write would do, and what it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from runner.core.truncate import fit

Step: TypeAlias = Literal["replace", "delete", "insert", "equal"]

MAX_DIFF_CHARS = 1024 * 1024
MAX_PAIRS = 16_000_000
"""Of lines to compare with each other: some texts take even longer than their number says."""

MAX_INTENDED_BYTES = 16 * 1024


def unified(old: str | None, new: str, name: str) -> str:
    """A unified diff of two texts with `\\n` line ends; a plain word when that takes too long.

    `old` is None for a new file.
    """
    if len(old or "") + len(new) > MAX_DIFF_CHARS:
        return f"{name}: changed; too long for a diff"
    before, after = _lines(old or ""), _lines(new)
    if before == after:
        return ""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    if (len(before) - head - tail) * (len(after) - head - tail) > MAX_PAIRS:
        return f"{name}: changed; too much of it for a diff"
    origin = "/dev/null" if old is None else f"a/{name}"
    return "\n".join([f"--- {origin}", f"+++ b/{name}", *_hunks(before, after, head, tail)])


def intended(old: str, new: str) -> str:
    """What a call wants to change, from its arguments alone."""
    removed = [f"-{line}" for line in _lines(old)]
    added = [f"+{line}" for line in _lines(new)]
    return fit("\n".join([*removed, *added]), MAX_INTENDED_BYTES)


def _lines(text: str) -> list[str]:
    # Not splitlines: that also splits at characters that end no line in a file.
    return text.removesuffix("\n").split("\n") if text else []


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines the two begin with together."""
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)


class _Compared(SequenceMatcher[str]):
    """Two texts of which it is known how the one becomes the other, to be grouped into hunks."""

    def __init__(self, steps: list[tuple[Step, int, int, int, int]]) -> None:
        super().__init__()
        self._steps = steps

    def get_opcodes(self) -> list[tuple[Step, int, int, int, int]]:
        return self._steps


def _hunks(before: list[str], after: list[str], head: int, tail: int) -> Iterator[str]:
    """The lines of the hunks; only what lies between the common ends is compared."""
    old_end, new_end = len(before) - tail, len(after) - tail
    middle = SequenceMatcher(None, before[head:old_end], after[head:new_end])
    compared = _Compared(
        [
            ("equal", 0, head, 0, head),
            *(
                (step, i1 + head, i2 + head, j1 + head, j2 + head)
                for step, i1, i2, j1, j2 in middle.get_opcodes()
            ),
            ("equal", old_end, len(before), new_end, len(after)),
        ]
    )
    for group in compared.get_grouped_opcodes():
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
        for step, i1, i2, j1, j2 in group:
            if step == "equal":
                yield from (f" {line}" for line in before[i1:i2])
            else:
                yield from (f"-{line}" for line in before[i1:i2])
                yield from (f"+{line}" for line in after[j1:j2])


def _range(start: int, stop: int) -> str:
    """A range of lines as a hunk's first line names it; an empty one by the line before it."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
