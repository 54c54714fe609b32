"""Tells a host program's functions of what happens, and lets none of them harm the run."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.core.events import EPHEMERAL_TYPES, PERSISTED_TYPES, Record, SessionIdle
from runner.core.state import State

KNOWN: Mapping[str, type] = {**PERSISTED_TYPES, **EPHEMERAL_TYPES}
"""Every event class by its wire name."""


@dataclass(frozen=True, slots=True, eq=False)
class _Listener:
    """A function, and the wire name of what it is told; None is told of every record."""

    kind: str | None
    fn: Callable[[Any], object]


@dataclass(slots=True)
class Listeners:
    """Who listens to a session, as a `Sink`.

    `idle` is held back: only who knows that no prompt waits can say that the session is idle.
    """

    idle: Record | None = None
    _all: tuple[_Listener, ...] = ()
    _failed: dict[_Listener, str] = field(default_factory=dict)

    def add(self, kind: str | None, fn: Callable[[Any], object]) -> Callable[[], None]:
        """Tell `fn` from now on; what comes back ends that. Raises `ValueError`."""
        if kind is not None and kind not in KNOWN:
            raise ValueError(f"no event is called `{kind}`; there are {', '.join(sorted(KNOWN))}")
        listener = _Listener(kind, fn)
        self._all += (listener,)

        def remove() -> None:
            self._all = tuple(one for one in self._all if one is not listener)

        return remove

    def catch_up(self, state: State) -> None:
        """Nothing: what was before was told before."""

    def show(self, record: Record) -> None:
        """Tell whoever wants to know."""
        if isinstance(record.event, SessionIdle):
            self.idle = record
        else:
            self._tell(record)

    def close(self, result: Mapping[str, Any]) -> None:
        """Nothing: the result is what the prompt's future gives."""

    def tell_idle(self) -> None:
        """The session is idle, if its last run came so far as to say so."""
        if (record := self.idle) is not None:
            self.idle = None
            self._tell(record)

    def take_problems(self) -> tuple[str, ...]:
        """What listeners raised since the last time, once for each."""
        problems = tuple(self._failed.values())
        self._failed.clear()
        return problems

    def _tell(self, record: Record) -> None:
        kind = type(record.event).type
        for listener in self._all:
            if listener.kind not in (None, kind):
                continue
            try:
                listener.fn(record if listener.kind is None else record.event)
            except Exception as bug:  # the host's, which must not end a paid run; it is told of it
                trace = "".join(traceback.format_exception(bug))
                self._failed.setdefault(listener, f"a listener of `{kind}` failed: {trace}")
