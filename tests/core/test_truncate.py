"""Text that has to fit into a byte limit."""

from __future__ import annotations

import pytest

from runner.core.truncate import fit, join


def test_text_that_fits_stays_as_it_is() -> None:
    """Nothing changes when the text is exactly as long as the limit."""
    assert fit("äb", 3) == "äb"


def test_the_head_and_the_tail_stay_and_the_marker_counts_what_is_gone() -> None:
    """The marker says how much is missing and where all of it is."""
    cut = fit("a" * 100 + "b" * 100, 120, saved_as="files/1")
    marker = "\n[... {} bytes left out; all of it is in files/1 ...]\n"
    kept = 120 - len(marker.format(200))
    head, tail = "a" * (kept // 2), "b" * (kept - kept // 2)
    assert cut == head + marker.format(200 - kept) + tail


def test_a_limit_too_small_for_the_marker_keeps_the_head() -> None:
    """Only the first bytes stay when the marker itself does not fit."""
    assert fit("abcdef" * 20, 5) == "abcde"
    assert fit("abcdef", 0) == ""


def test_a_cut_never_splits_a_character() -> None:
    """A character that would be cut is left out whole."""
    assert fit("€" * 50, 4) == "€"


@pytest.mark.parametrize("text", ["\ud800" * 100, "a" * 50 + "\udfff" + "b" * 100])
def test_lone_surrogates_do_no_harm(text: str) -> None:
    """The result is text that can be written when the input had halves of characters."""
    assert fit(text, 90).encode()


def test_head_and_tail_of_a_long_stream_are_joined() -> None:
    """What was never kept is counted as left out."""
    text = join(b"head", b"tail", 1000, 100, saved_as=None)
    assert text == "head\n[... 992 bytes left out ...]\ntail"
