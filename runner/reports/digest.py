"""A run as people look at it: its turns with their calls, and what happened in between.

Every report is made from a `Digest`, so no two of them can tell different stories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from runner.core.ledger import ZERO
from runner.core.messages import Usage
from runner.core.state import State

Outcome = Literal["ok", "failed", "denied", "stopped", "not run", "open"]
NoteKind = Literal[
    "prompt",
    "nudge",
    "feedback",
    "checks",
    "warning",
    "info",
    "error",
    "stop",
    "resume",
    "model",
    "completion",
    "compaction",
    "hook",
    "output",
    "protected",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool. `output` is what the model was given, or why there is nothing.

    `diff` is what the call changed in a file; `refusal` says why it was denied; `output_file` is
    where the whole output is when it was cut. A call of outcome `open` has no result in the log.
    """

    id: str
    tool: str
    arguments: Mapping[str, Any]
    outcome: Outcome = "open"
    code: str = ""
    output: str = ""
    diff: str = ""
    refusal: str = ""
    output_file: str | None = None
    duration_ms: int | None = None
    began: str | None = None
    ended: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One model call and its consequences. `number` counts over the whole session, from 1.

    `agent` is the name of the sub-agent, numbered where several have it, `agent_id` its id in the
    log; both are empty for the main loop. `cost_usd` is this call's, `total_usd` the run's so far.
    `replied` is None when no reply is in the log. `usage` holds every attempt that was charged,
    `context_tokens` what the last one read.
    """

    number: int
    agent: str
    model: str
    began: str
    agent_id: str = ""
    replied: str | None = None
    ended: str | None = None
    text: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    usage: Usage = Usage()
    context_tokens: int = 0
    cost_usd: Decimal = ZERO
    total_usd: Decimal = ZERO
    basis: str = ""
    api_ms: int = 0
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that happened between turns, or beside them; `began` if it took its time, `agent`
    if it was a sub-agent's."""

    kind: NoteKind
    text: str
    at: str
    good: bool | None = None
    began: str | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A run. `result` is the object of `result.json`, None for a run that has not finished.

    `items` are in the order of the log. `last_event` is the type of the last line read.
    """

    name: str
    session_id: str
    state: State
    result: Mapping[str, Any] | None
    items: tuple[Turn | Note, ...]
    last_event: str | None = None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns, without what is between them."""
        return tuple(item for item in self.items if isinstance(item, Turn))

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is between the turns."""
        return tuple(item for item in self.items if isinstance(item, Note))

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call of every turn."""
        return tuple(call for turn in self.turns for call in turn.calls)

    @property
    def is_good(self) -> bool:
        """The run ended with success."""
        return self.result is not None and not self.result["is_error"]
