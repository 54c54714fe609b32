"""Amounts, durations and calls in words."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.words import count, gist, one_line, span, usd


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("0", "$0.00"),
        ("0.000000001", "<$0.0001"),
        ("0.0001", "$0.0001"),
        ("0.0053", "$0.0053"),
        ("0.0529999", "$0.0530"),
        ("0.5", "$0.50"),
        ("12", "$12.00"),
        ("-0.25", "$-0.25"),
    ],
)
def test_money_is_shown_to_a_hundredth_of_a_cent(amount: str, words: str) -> None:
    """What was spent never shows as nothing, and even cents show as cents."""
    assert usd(Decimal(amount)) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0s"),
        (0.24, "0.2s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.6, "1m"),
        (119, "1m59s"),
        (3599.7, "1h"),
        (7500, "2h05m"),
    ],
)
def test_a_duration_has_two_figures(seconds: float, words: str) -> None:
    """Tenths below ten seconds, then the two largest units."""
    assert span(seconds) == words


def test_a_count_agrees_with_its_noun() -> None:
    """One of something is singular."""
    assert [count(n, "turn") for n in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]


@given(st.text(), st.integers(min_value=4, max_value=40))
def test_one_line_is_one_short_line(text: str, max_chars: int) -> None:
    """Whatever the text, the result has no line break and at most so many characters."""
    line = one_line(text, max_chars)
    assert len(line) <= max_chars
    assert len(line.splitlines()) <= 1


def test_one_line_reads_no_more_of_a_long_text_than_it_needs() -> None:
    """A text that is mostly white space is still marked as cut."""
    assert one_line("a" + " " * 1000 + "b", 10) == "a..."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"description": "Run the tests", "command": "make\n test"}, "make test"),
        ({"pattern": "limit", "path": "src"}, "limit"),
        ({"file_path": " ", "subject": "Tidy"}, "Tidy"),
        ({"limit": 3}, '{"limit": 3}'),
        ({}, ""),
    ],
)
def test_a_call_is_named_by_its_most_telling_argument(
    arguments: Mapping[str, Any], words: str
) -> None:
    """The argument that says what it is about, else any text, else all of them."""
    assert gist(arguments, 40) == words
