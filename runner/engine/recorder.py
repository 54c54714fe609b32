"""Mask a fact, write it, fold it, show it: the only way anything is recorded, in this order."""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.core.events import Ephemeral, Persisted, Record
from runner.core.fold import apply
from runner.core.state import State
from runner.core.subagents import child_state
from runner.ports import Journal, Redaction, Sink


@dataclass(slots=True, kw_only=True)
class Recorder:
    """The journal, the state folded from it, and who watches."""

    journal: Journal
    sinks: tuple[Sink, ...] = ()
    state: State = State()
    redaction: Redaction | None = None

    def record(self, event: Persisted, agent_id: str | None = None) -> Record:
        """Make a fact durable, fold it, show it; without secrets. Raises `JournalError`."""
        if self.redaction is not None:
            for rest in self.redaction.before(event):
                self._show(self.journal.stamp(rest, agent_id))
            event = self.redaction.fact(event)
        record = self.journal.append(event, agent_id)
        self.state = apply(self.state, record)
        self._show(record)
        return record

    def show(self, event: Ephemeral, agent_id: str | None = None) -> None:
        """Show something that is not a fact of the run. Never raises."""
        shown = (event,) if self.redaction is None else self.redaction.live(event)
        for one in shown:
            self._show(self.journal.stamp(one, agent_id))

    def masked(self, text: str) -> str:
        """The text without secrets, for what is cut or kept before it is recorded."""
        return text if self.redaction is None else self.redaction.text(text)

    def _show(self, record: Record) -> None:
        for sink in self.sinks:
            sink.show(record)


@dataclass(slots=True, kw_only=True)
class ChildRecorder:
    """What a sub-agent records: on the one log, under its own id. It sees the run its own way."""

    root: Recorder
    agent_id: str
    _seen: State | None = field(default=None, init=False)
    _state: State = field(default=State(), init=False)

    @property
    def journal(self) -> Journal:
        """The one journal."""
        return self.root.journal

    @property
    def state(self) -> State:
        """The run as the sub-agent sees it."""
        if self._seen is not self.root.state:
            self._seen = self.root.state
            self._state = child_state(self._seen, self.agent_id)
        return self._state

    def record(self, event: Persisted, agent_id: str | None = None) -> Record:
        """Record a fact of this agent, or of the one that is named. Raises `JournalError`."""
        return self.root.record(event, agent_id or self.agent_id)

    def show(self, event: Ephemeral, agent_id: str | None = None) -> None:
        """Show something of this agent, or of the one that is named. Never raises."""
        self.root.show(event, agent_id or self.agent_id)

    def masked(self, text: str) -> str:
        """The text without secrets."""
        return self.root.masked(text)


Recording = Recorder | ChildRecorder
"""Where one agent's facts go: the main loop's, or a sub-agent's."""
