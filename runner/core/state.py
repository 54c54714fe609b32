"""The state of a run: everything a decision needs, and nothing that no persisted event said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from runner.core.events import (
    Abort,
    HookStart,
    PermissionCompleted,
    PriceListing,
    RunnerOutputCheck,
    RunnerPreflight,
    RunnerProtection,
    RunnerProtectionCheck,
    RunnerVerifyComplete,
    SessionError,
    SessionStart,
    SessionTaskComplete,
    SessionWarning,
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
)
from runner.core.ledger import Ledger
from runner.core.messages import (
    Usage,
)
from runner.core.spec import TaskSpec
from runner.core.thread import Thread
from runner.core.weight import text_bound

MAIN = ""
"""The agent id of the main loop; sub-agents have their own."""

CLASSIFIER = "permission-classifier"
"""The agent id of the model that decides in mode auto."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subagent:
    """A sub-agent, beyond its thread: what for the main loop stands in `State` itself.

    `model` is the fallback that took over, `note` what it has to be told before it is asked again,
    `tokens` and `tool_calls` are what it came to so far.
    """

    started: SubagentStarted
    ended: SubagentCompleted | SubagentFailed | None = None
    system: str = ""
    model: str | None = None
    known_files: dict[str, str] = field(default_factory=dict)
    decided: Mapping[str, PermissionCompleted] = field(default_factory=dict)
    tripped: SessionWarning | None = None
    failure: SessionError | None = None
    note: str | None = None
    tokens: int = 0
    tool_calls: int = 0

    @property
    def parent(self) -> str:
        """The agent that started it."""
        return self.started.parent_agent_id or MAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that is known about a run.

    `instructions` are the project's, sent before the messages and kept in none of them. `task` is
    the last prompt that asks for work.
    `known_files` are the hashes of files as the model knows them. `resumes` counts how often in a
    row the session was resumed after a kill; `note` is what the model has to be told before it is
    asked again; `elapsed_ms` is what earlier parts took; `attempts_over` counts model calls of
    known outcome over the whole session, by model. `model` is the one that is asked next: the
    spec's, or the fallback that took over; every start of a run begins with the spec's.
    `head_commit` is where the workspace's repository was when the session last began or went on.
    `said` are the warnings that are given once, by their messages.
    `verified` is the last verification, `judged` the same as long as nothing was done since.
    `protection` is what was protected at the start, `guarded` the last comparison with it as long
    as nothing was done since, `violation` the first one that found a change.
    `output` is the object that fits the output schema, `output_check` the last verdict on one as
    long as the reply stands, `output_attempts` how many did not fit.
    `decided` is what was decided about calls of the main loop's last turn.
    `open_hooks` have begun and not ended, each with its agent; `hook_stop` is why a hook wants the
    run to end.
    `agents` are the sub-agents by agent id. `agent_id` is whose state it is: a sub-agent sees the
    run as if it were the main loop.
    """

    agent_id: str = MAIN
    agents: Mapping[str, Subagent] = field(default_factory=dict)
    spec: TaskSpec | None = None
    model: str = ""
    sentences: Mapping[str, str] = field(default_factory=dict)
    session: SessionStart | None = None
    head_commit: str | None = None
    preflight: RunnerPreflight | None = None
    system: str = ""
    instructions: str = ""
    task: str = ""
    threads: Mapping[str, Thread] = field(default_factory=lambda: {MAIN: Thread()})
    ledger: Ledger = Ledger()
    usage: Usage = Usage()
    denials: tuple[Mapping[str, Any], ...] = ()
    survivors: tuple[str, ...] = ()
    said: frozenset[str] = frozenset()
    known_files: dict[str, str] = field(default_factory=dict)
    completion: SessionTaskComplete | None = None
    verified: RunnerVerifyComplete | None = None
    judged: RunnerVerifyComplete | None = None
    verify_attempts: int = 0
    protection: RunnerProtection | None = None
    guarded: RunnerProtectionCheck | None = None
    output: Mapping[str, Any] | None = None
    output_check: RunnerOutputCheck | None = None
    output_attempts: int = 0
    violation: RunnerProtectionCheck | None = None
    decided: Mapping[str, PermissionCompleted] = field(default_factory=dict)
    open_hooks: Mapping[str, tuple[str, HookStart]] = field(default_factory=dict)
    hook_stop: str | None = None
    tripped: SessionWarning | None = None
    abort: Abort | None = None
    failure: SessionError | None = None
    result: Mapping[str, Any] | None = None
    closed: bool = False
    resumes: int = 0
    note: str | None = None
    elapsed_ms: int = 0
    attempts_over: Mapping[str, int] = field(default_factory=dict)
    first_timestamp: str | None = None
    last_timestamp: str | None = None

    @property
    def main(self) -> Thread:
        """The main loop's thread."""
        return self.threads[MAIN]

    @property
    def ended(self) -> bool:
        """The last part of the session ended by itself; one that could not even start did not."""
        return self.closed and (self.result or {}).get("error_type") != "preflight"

    @property
    def read_only_tools(self) -> frozenset[str]:
        """Names of the offered tools whose calls may run together."""
        listed = self.preflight.tools if self.preflight else ()
        return frozenset(tool.name for tool in listed if tool.read_only)

    @property
    def duration_ms(self) -> int:
        """How long the run took so far, times in between two parts of it left out."""
        if self.first_timestamp is None or self.last_timestamp is None:
            return self.elapsed_ms
        first, last = map(datetime.fromisoformat, (self.first_timestamp, self.last_timestamp))
        return self.elapsed_ms + round((last - first).total_seconds() * 1000)

    def price(self, model: str) -> PriceListing | None:
        """The price `model` is charged at; None when it has none (only legal without a cap)."""
        listed = self.preflight.prices if self.preflight else ()
        return next((price for price in listed if price.model == model), None)

    def window(self, model: str) -> int | None:
        """How many tokens `model` can read; None when nobody knows."""
        listed = self.preflight.windows if self.preflight else ()
        return next((window.tokens for window in listed if window.model == model), None)

    @property
    def prefix_bytes(self) -> int:
        """What stands before the conversation in every request: tools, prompt, instructions."""
        tools = self.preflight.tool_definitions_bytes if self.preflight else 0
        return tools + text_bound(self.system) + text_bound(self.instructions)

    @property
    def need(self) -> TaskSpec:
        """The spec, once it was recorded."""
        if self.spec is None:
            raise LookupError("the log has no runner.spec yet")
        return self.spec
