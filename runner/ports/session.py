"""Around a run: the log, what is protected, hooks, time, and whoever looks on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from runner.core.events import Ephemeral, Event, Persisted, Record
from runner.core.hook_answers import HookRun
from runner.core.spec import HookSpec
from runner.core.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One look at everything protected, by name: what is there (as `runner.protection` has it),
    and a mark that changes with each write."""

    there: Mapping[str, str]
    writes: Mapping[str, str]


class Guard(Protocol):
    """Looks at what is protected."""

    async def look(self, known: tuple[str, ...]) -> Sight:
        """What is there now. Of `known` names that no longer are files or links it says what
        they are. Changes nothing, follows no link, runs nothing, never raises."""
        ...


class JournalError(Exception):
    """A fact could not be made durable; the run must stop at once and pay for nothing more."""


class Redaction(Protocol):
    """Takes secrets out of events before anybody sees them. Synchronous, never raises."""

    def text(self, text: str) -> str:
        """The text with every secret masked."""
        ...

    def fact(self, event: Persisted) -> Persisted:
        """The event as it may stand in the log."""
        ...

    def live(self, event: Ephemeral) -> tuple[Ephemeral, ...]:
        """What of it can be shown now: a piece that may begin a secret waits for the next."""
        ...

    def before(self, event: Persisted) -> tuple[Ephemeral, ...]:
        """The pieces that waited, now that this event says the whole."""
        ...


class Journal(Protocol):
    """The session's log. Synchronous on purpose: no await between writing and folding."""

    def append(self, event: Persisted, agent_id: str | None = None) -> Record:
        """Write one line, durably, and return it. Raises `JournalError`, after which every
        further call raises it too."""
        ...

    def stamp(self, event: Event, agent_id: str | None = None) -> Record:
        """The envelope of an ephemeral event; writes nothing, never raises."""
        ...

    @property
    def head(self) -> str | None:
        """SHA-256 of the last line written."""
        ...


class Hooks(Protocol):
    """Runs the hooks of the spec."""

    async def run(self, hook: HookSpec, payload: Mapping[str, Any], timeout_s: float) -> HookRun:
        """Tell one hook of an event and wait for its end, `timeout_s` at most. `payload` holds
        what is particular to the event. Never raises. On return, timeout or cancel the process
        tree is gone."""
        ...


class Clock(Protocol):
    """Time. Limits use `monotonic`; `now` is only for labels and never runs backwards."""

    def now(self) -> str:
        """UTC, ISO 8601 with milliseconds and `Z`."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        ...


class Sink(Protocol):
    """Shows records as they happen. Never raises, never blocks the loop for long."""

    def catch_up(self, state: State) -> None:
        """A session goes on from this state; called once, before anything is shown."""
        ...

    def show(self, record: Record) -> None:
        """Show one record, persisted or ephemeral."""
        ...

    def close(self, result: Mapping[str, Any]) -> None:
        """The run is over and this is its result; called once, last."""
        ...
