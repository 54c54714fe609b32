"""Which pending calls run next: read-only ones together, anything else alone, in order."""

from __future__ import annotations

from collections.abc import Set
from itertools import takewhile

from runner.core.messages import ToolCall

MAX_CONCURRENT = 10


def next_batch(pending: tuple[ToolCall, ...], read_only: Set[str]) -> tuple[ToolCall, ...]:
    """The longest run of read-only calls at the front (at most ten), else the first call."""
    together = tuple(takewhile(lambda call: call.name in read_only, pending))
    return together[:MAX_CONCURRENT] or pending[:1]
