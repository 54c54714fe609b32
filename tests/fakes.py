"""Stand-ins for the outside world, one a port: everything a run over fakes is made of."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from runner.core.events import Event, Persisted, Record, to_json
from runner.core.messages import (
    FinishReason,
    ModelReply,
    ModelRequest,
    ReasoningBlock,
    ToolCall,
    ToolSpec,
    Usage,
)
from runner.core.state import State
from runner.ports import (
    Delta,
    ExecRequest,
    ExecResult,
    JournalError,
    ModelError,
    ToolContext,
    ToolOutput,
)

T = TypeVar("T")

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class FakeClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0

    def now(self) -> str:
        """The label of this moment."""
        moment = START + timedelta(seconds=self._elapsed_s)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed_s

    def tick(self, seconds: float) -> None:
        """Let time pass."""
        self._elapsed_s += seconds


def counted_ids() -> Callable[[], str]:
    """UUIDs that count up from 1."""
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"


@dataclass(slots=True, kw_only=True)
class MemoryJournal:
    """A journal of lines in memory; the append of number `breaks_at` fails, and all after it."""

    clock: FakeClock = field(default_factory=FakeClock)
    new_id: Callable[[], str] = field(default_factory=counted_ids)
    breaks_at: int | None = None
    records: list[Record] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def head(self) -> str | None:
        """SHA-256 of the last line."""
        return hashlib.sha256(self.lines[-1].encode()).hexdigest() if self.lines else None

    def append(self, event: Persisted, agent_id: str | None = None) -> Record:
        """Keep one line, unless the journal is broken."""
        if self.breaks_at is not None and len(self.lines) >= self.breaks_at:
            raise JournalError("no space left on device")
        stamped = self.stamp(event, agent_id)
        record = Record(
            id=stamped.id,
            timestamp=stamped.timestamp,
            parent_id=stamped.parent_id,
            agent_id=agent_id,
            seq=len(self.lines),
            prev=self.head,
            event=event,
        )
        self.lines.append(json.dumps(to_json(record), allow_nan=False))
        self.records.append(record)
        return record

    def stamp(self, event: Event, agent_id: str | None = None) -> Record:
        """An envelope that is kept nowhere."""
        return Record(
            id=self.new_id(),
            timestamp=self.clock.now(),
            parent_id=self.records[-1].id if self.records else None,
            agent_id=agent_id,
            event=event,
        )


@dataclass(slots=True, kw_only=True)
class RecordingSink:
    """Remembers everything it was shown."""

    records: list[Record] = field(default_factory=list)
    results: list[Mapping[str, Any]] = field(default_factory=list)
    begun_from: list[State] = field(default_factory=list)

    def catch_up(self, state: State) -> None:
        """Remember where the session stood."""
        self.begun_from.append(state)

    def show(self, record: Record) -> None:
        """Remember one record."""
        self.records.append(record)

    def close(self, result: Mapping[str, Any]) -> None:
        """Remember the result."""
        self.results.append(result)


Answer = ModelReply | ModelError | Callable[[ModelRequest], Awaitable[ModelReply]]
"""What a fake model does when it is asked: reply, fail, or whatever the callable does."""


class FakeModel:
    """Answers one request after the other from a list, and remembers the requests."""

    def __init__(self, answers: Iterable[Answer], *, counted_tokens: int = 100) -> None:
        self.requests: list[ModelRequest] = []
        self._answers: Iterator[Answer] = iter(answers)
        self._counted_tokens = counted_tokens

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """The next answer; the text and the reasoning of a plain reply are streamed whole."""
        self.requests.append(request)
        answer = next(self._answers, None)
        if answer is None:
            raise AssertionError(f"request {len(self.requests)} is one more than was scripted")
        if isinstance(answer, ModelError):
            raise answer
        reply = answer if isinstance(answer, ModelReply) else await answer(request)
        for block in reply.reasoning:
            on_delta(Delta(kind="reasoning", text=block.text))
        if reply.text:
            on_delta(Delta(kind="text", text=reply.text))
        return reply

    async def ready(self) -> None:
        """There is nothing to load."""

    async def count_tokens(self, request: ModelRequest) -> int:
        """The number the model was made with."""
        return self._counted_tokens

    async def aclose(self) -> None:
        """There is nothing to let go of."""


class NoRetry:
    """One attempt is all there is."""

    async def __call__(
        self,
        attempt: Callable[[], Awaitable[T]],
        on_retry: Callable[[ModelError, int, float], None],
    ) -> T:
        """Attempt it."""
        return await attempt()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryUpTo:
    """At most this many attempts, `wait_s` apart."""

    attempts: int
    wait_s: float = 1.0

    async def __call__(
        self,
        attempt: Callable[[], Awaitable[T]],
        on_retry: Callable[[ModelError, int, float], None],
    ) -> T:
        """Attempt it until it works, or fails for good."""
        for number in range(1, self.attempts):
            try:
                return await attempt()
            except ModelError as error:
                if not error.retryable:
                    raise
                on_retry(error, number, self.wait_s)
                await asyncio.sleep(self.wait_s)
        return await attempt()


Work = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolOutput]]


async def say_ok(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """The work of a tool that has nothing to do."""
    return ToolOutput(content="ok")


@dataclass(slots=True, kw_only=True)
class FakeTool:
    """A tool that does `work`; `kind` is that of its permission request."""

    name: str
    read_only: bool = False
    kind: str = "custom-tool"
    work: Work = say_ok
    required: tuple[str, ...] = ()
    ran: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it; every argument is a text."""
        schema = {
            "type": "object",
            "properties": {name: {"type": "string"} for name in self.required},
            "required": list(self.required),
        }
        return ToolSpec(
            name=self.name, description=self.name, input_schema=schema, read_only=self.read_only
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The request of the tool's kind, with every field that kind needs."""
        return {"kind": self.kind, **PERMISSION_FIELDS[self.kind]}

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Remember the call, then do the work."""
        self.ran.append(arguments)
        return await self.work(arguments, context)


PERMISSION_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "shell": {
        "fullCommandText": "true",
        "intention": "run a command",
        "commands": [{"identifier": "true", "readOnly": False}],
        "possiblePaths": [],
        "possibleUrls": [],
        "hasWriteFileRedirection": False,
        "canOfferSessionApproval": False,
    },
    "write": {
        "fileName": "a.txt",
        "diff": "",
        "intention": "write a file",
        "canOfferSessionApproval": False,
    },
    "read": {"path": "a.txt", "intention": "read a file"},
    "custom-tool": {"toolName": "custom", "toolDescription": "a tool"},
}


def barrier_work(parties: int) -> Work:
    """Work that returns once `parties` calls are in it at the same time."""
    barrier = asyncio.Barrier(parties)

    async def work(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        await barrier.wait()
        return ToolOutput(content="met")

    return work


def call(name: str, call_id: str | None = None, /, **arguments: Any) -> ToolCall:
    """A tool call; its id is its name unless it is given."""
    return ToolCall(id=call_id or f"{name}-1", name=name, arguments=arguments)


def reply(
    text: str = "",
    *calls: ToolCall,
    reasoning: tuple[ReasoningBlock, ...] = (),
    usage: Usage | None = Usage(input_tokens=100, output_tokens=10),
    finish_reason: FinishReason | None = None,
) -> ModelReply:
    """What a model says: text, calls, or both."""
    reason = finish_reason or ("tool_calls" if calls else "stop")
    return ModelReply(
        text=text, calls=calls, reasoning=reasoning, finish_reason=reason, usage=usage
    )


def done(summary: str = "done") -> ModelReply:
    """A reply that completes the task."""
    return reply("", call("task_complete", summary=summary))


@dataclass(slots=True, kw_only=True)
class FakeSandbox:
    """A sandbox whose processes take a second and exit as scripted, the last one for ever; it
    keeps the requests. None: the program cannot be started."""

    exit_codes: list[int | None]
    tier: str = "process"
    requests: list[ExecRequest] = field(default_factory=list)

    async def exec(self, request: ExecRequest, on_output: Callable[[str], None]) -> ExecResult:
        """See the port."""
        self.requests.append(request)
        on_output("out\n")
        await asyncio.sleep(1)
        last = len(self.exit_codes) == 1
        exit_code = self.exit_codes[0] if last else self.exit_codes.pop(0)
        if exit_code is None:
            raise FileNotFoundError(2, "No such file or directory")
        return ExecResult(exit_code=exit_code, output="out\n", total_bytes=4, truncated=False)
