"""Which calls of a reply run together."""

from __future__ import annotations

import pytest

from runner.core.batching import MAX_CONCURRENT, next_batch
from runner.core.messages import ToolCall
from tests.fakes import call

READ_ONLY = frozenset({"Read", "Glob"})


def calls(names: str) -> tuple[ToolCall, ...]:
    return tuple(call(name, f"{name}-{number}") for number, name in enumerate(names.split()))


@pytest.mark.parametrize(
    ("pending", "batch"),
    [
        ("", ""),
        ("Read", "Read"),
        ("Read Glob Edit Read", "Read Glob"),
        ("Edit Read Glob", "Edit"),
        ("Edit Edit", "Edit"),
        ("Unknown Read", "Unknown"),
        ("Agent Agent Read Edit", "Agent Agent Read"),
        ("Read Agent Edit Agent", "Read Agent"),
        ("Edit Agent", "Edit"),
    ],
)
def test_reading_calls_at_the_front_run_together_and_anything_else_alone(
    pending: str, batch: str
) -> None:
    """The batch ends before the first call that may change something."""
    assert next_batch(calls(pending), READ_ONLY) == calls(batch)


def test_at_most_ten_run_together() -> None:
    """The eleventh waits when eleven calls only read."""
    pending = calls("Read " * 11)
    assert next_batch(pending, READ_ONLY) == pending[:MAX_CONCURRENT]
    assert MAX_CONCURRENT == 10


def test_sub_agents_do_not_count_among_the_ten() -> None:
    """They have a cap of their own: twenty of them start together, and ten reads beside them."""
    pending = calls("Agent Read " * 10 + "Agent " * 10 + "Read Agent")
    assert next_batch(pending, READ_ONLY) == pending[:30]
