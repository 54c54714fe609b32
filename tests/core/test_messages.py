"""The values of a conversation."""

from __future__ import annotations

from runner.core.messages import Usage


def test_usages_add_up_count_by_count() -> None:
    """Each kind of token is added to its own kind."""
    one = Usage(
        input_tokens=1,
        output_tokens=2,
        cache_read_tokens=3,
        cache_write_tokens=4,
        reasoning_tokens=5,
    )
    assert one + one == Usage(
        input_tokens=2,
        output_tokens=4,
        cache_read_tokens=6,
        cache_write_tokens=8,
        reasoning_tokens=10,
    )


def test_the_prompt_is_everything_that_was_read() -> None:
    """Cached tokens count as read when the size of a request is asked for."""
    usage = Usage(input_tokens=1, cache_read_tokens=10, cache_write_tokens=100, output_tokens=9)
    assert usage.prompt_tokens == 111
