"""A history is a tuple that grows cheaply."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.core.history import PART, History
from runner.core.messages import Message, User

MESSAGES = st.integers(0, 3 * PART).map(lambda n: tuple(map(_said, range(n))))
BOUNDS = st.none() | st.integers(-4 * PART, 4 * PART)


def _said(number: int) -> Message:
    return User(text=str(number))


@given(first=MESSAGES, second=MESSAGES, start=BOUNDS, stop=BOUNDS, step=st.sampled_from((1, 2, -1)))
def test_it_is_what_a_tuple_would_be(
    first: tuple[Message, ...],
    second: tuple[Message, ...],
    start: int | None,
    stop: int | None,
    step: int,
) -> None:
    """However it was put together: length, order, every slice, equality and hash; and what it was
    made from has not changed."""
    before = History(first)
    history, whole = before.plus(*second), (*first, *second)
    assert (len(history), tuple(history), bool(history)) == (len(whole), whole, bool(whole))
    assert history[start:stop:step] == whole[start:stop:step]
    assert [history[n] for n in range(-len(whole), len(whole))] == [*whole, *whole]
    assert history == whole
    assert history == History(whole)
    assert hash(history) == hash(whole)
    assert before == first
    assert history != (*whole, _said(-1))


def test_it_is_no_list_and_shows_what_it_holds() -> None:
    """Equality is that of tuples, and a failing test shows the messages."""
    history = History((_said(1),))
    assert history != [_said(1)]
    assert history != (_said(2),)
    assert repr(history) == "History((User(text='1'),))"


def test_an_index_beyond_its_end_is_an_error() -> None:
    """Both ways."""
    history = History((_said(1),))
    for index in (1, -2):
        try:
            history[index]
        except IndexError:
            continue
        raise AssertionError(index)


def test_adding_to_a_long_history_copies_little_of_it() -> None:
    """Full parts are the same objects before and after."""
    before = History(map(_said, range(10 * PART + 3)))
    after = before.plus(_said(0))
    assert all(one is other for one, other in zip(before._full, after._full, strict=True))
