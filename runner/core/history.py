"""A conversation that only grows: adding to it costs the same however long it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import overload

from runner.core.messages import Message

PART = 64
"""Messages in one part of a history."""

Part = tuple[Message, ...]


class History(Sequence[Message]):
    """Messages in order, as immutable as a tuple, and equal to one with the same messages.

    Full parts are shared between a history and those made from it; what is copied to add a message
    is the part it joins and the list of parts.
    """

    __slots__ = ("_full", "_last")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._full: tuple[Part, ...] = ()
        self._last: Part = ()
        self._full, self._last = self._grown(messages)

    def plus(self, *messages: Message) -> History:
        """This history and these messages after it."""
        more = History()
        more._full, more._last = self._grown(messages)
        return more

    def _grown(self, messages: Iterable[Message]) -> tuple[tuple[Part, ...], Part]:
        rest = (*self._last, *messages)
        ends = len(rest) - len(rest) % PART
        parts = tuple(rest[start : start + PART] for start in range(0, ends, PART))
        return ((*self._full, *parts) if parts else self._full, rest[ends:])

    def __len__(self) -> int:
        return len(self._full) * PART + len(self._last)

    def __iter__(self) -> Iterator[Message]:
        return chain(chain.from_iterable(self._full), self._last)

    @overload
    def __getitem__(self, key: int) -> Message: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, key: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                return tuple(self)[key]
            part = start // PART
            parts = chain.from_iterable((*self._full[part:], self._last))
            return tuple(islice(parts, start - part * PART, max(stop, start) - part * PART))
        index = range(len(self))[key]
        part, at = divmod(index, PART)
        return (self._full[part] if part < len(self._full) else self._last)[at]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, History | tuple):
            return len(self) == len(other) and all(map(_same, self, other))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"History({tuple(self)!r})"


def _same(one: object, other: object) -> bool:
    return one is other or one == other
