"""Changes for people: what a write would do, and what it did."""

from __future__ import annotations

import difflib

from runner.core.truncate import fit

MAX_DIFF_CHARS = 1024 * 1024
MAX_INTENDED_BYTES = 16 * 1024


def unified(old: str | None, new: str, name: str) -> str:
    """A unified diff of two texts with `\\n` line ends; a plain word when they are very long.

    `old` is None for a new file.
    """
    if len(old or "") + len(new) > MAX_DIFF_CHARS:
        return f"{name}: changed; too long for a diff"
    before, after = _lines(old or ""), _lines(new)
    origin = "/dev/null" if old is None else f"a/{name}"
    return "\n".join(difflib.unified_diff(before, after, origin, f"b/{name}", lineterm=""))


def intended(old: str, new: str) -> str:
    """What a call wants to change, from its arguments alone."""
    removed = [f"-{line}" for line in _lines(old)]
    added = [f"+{line}" for line in _lines(new)]
    return fit("\n".join([*removed, *added]), MAX_INTENDED_BYTES)


def _lines(text: str) -> list[str]:
    # Not splitlines: that also splits at characters that end no line in a file.
    return text.removesuffix("\n").split("\n") if text else []
