"""Write a fact, fold it, show it: the only way anything is recorded, in this order."""

from __future__ import annotations

from dataclasses import dataclass

from runner.core.events import Ephemeral, Persisted, Record
from runner.core.fold import apply
from runner.core.state import State
from runner.ports import Journal, Sink


@dataclass(slots=True, kw_only=True)
class Recorder:
    """The journal, the state folded from it, and who watches."""

    journal: Journal
    sinks: tuple[Sink, ...] = ()
    state: State = State()

    def record(self, event: Persisted, agent_id: str | None = None) -> Record:
        """Make a fact durable, fold it, show it. Raises `JournalError`."""
        record = self.journal.append(event, agent_id)
        self.state = apply(self.state, record)
        self._show(record)
        return record

    def show(self, event: Ephemeral, agent_id: str | None = None) -> None:
        """Show something that is not a fact of the run. Never raises."""
        self._show(self.journal.stamp(event, agent_id))

    def _show(self, record: Record) -> None:
        for sink in self.sinks:
            sink.show(record)
