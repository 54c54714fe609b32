"""Which pending calls run next: read-only ones and sub-agents together, anything else alone."""

from __future__ import annotations

from collections.abc import Set
from itertools import takewhile

from runner.core.messages import AGENT_TOOL, ToolCall

MAX_CONCURRENT = 10


def next_batch(pending: tuple[ToolCall, ...], read_only: Set[str]) -> tuple[ToolCall, ...]:
    """The longest run of calls at the front that may run together, else the first call.

    Those are the read-only ones, at most ten, and any number of sub-agents, who have caps of their
    own. What sub-agents change, they change one after the other.
    """
    together = takewhile(lambda call: call.name == AGENT_TOOL or call.name in read_only, pending)
    batch: list[ToolCall] = []
    reads = 0
    for call in together:
        reads += call.name != AGENT_TOOL
        if reads > MAX_CONCURRENT:
            break
        batch.append(call)
    return tuple(batch) or pending[:1]
