"""What the engine needs from the outside world: protocols, their values and their contracts.

Rules of this file: every contract says what may be raised and what cancellation does. All
coroutines may be cancelled at any await; an implementation cleans up in `finally`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from runner.core.events import Ephemeral, Event, Fee, FileEffect, FileState, Persisted, Record
from runner.core.hook_answers import HookRun
from runner.core.messages import ModelReply, ModelRequest, ToolSpec
from runner.core.spec import HookSpec
from runner.core.state import State
from runner.core.subjects import ShellCall
from runner.core.urls import WebUrl

T = TypeVar("T")

ModelErrorKind = Literal[
    "authentication",
    "quota",
    "rate_limit",
    "provider_unavailable",
    "invalid_request",
    "model_not_found",
    "context_limit",
]


class ModelError(Exception):
    """One attempt of a model call failed.

    `retryable` says whether the same request may succeed later; `retry_after_s` is what the
    server asked for. `may_bill` is True when the provider may charge for the attempt although
    no usage was reported (the request was accepted and the stream broke).
    """

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        retryable: bool = False,
        status_code: int | None = None,
        retry_after_s: float | None = None,
        may_bill: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.message = message
        self.retryable = retryable
        self.status_code = status_code
        self.retry_after_s = retry_after_s
        self.may_bill = may_bill


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a reply while it is streamed."""

    kind: Literal["text", "reasoning"]
    text: str


class Model(Protocol):
    """Asks a model. One call of `ask` is exactly one attempt: no hidden retries."""

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Stream one reply. Raises only `ModelError`. Cancelled: the upstream stream is closed
        before this returns, so that it stops billing."""
        ...

    async def ready(self) -> None:
        """Whatever has to be loaded before the first request; nothing is sent and nothing billed.
        Never raises."""
        ...

    async def count_tokens(self, request: ModelRequest) -> int:
        """About how many input tokens the request has, for the first reservation.
        Works offline, never raises."""
        ...

    async def aclose(self) -> None:
        """Let go of connections, in bounded time. Never raises; called once, last."""
        ...


class Retry(Protocol):
    """Repeats an attempt that failed with a retryable `ModelError`."""

    async def __call__(
        self,
        attempt: Callable[[], Awaitable[T]],
        on_retry: Callable[[ModelError, int, float], None],
    ) -> T:
        """Call `attempt` until it returns, or raise its last `ModelError`.
        `on_retry(error, number, wait_s)` is told before each wait."""
        ...


class ToolFailure(Exception):
    """A tool could not do what was asked; the message is what the model reads."""


class ToolDenied(ToolFailure):
    """The call reached for something outside its roots, or protected; it counts as a permission
    denial, by `rule`."""

    def __init__(self, message: str, *, rule: str = "workspace roots") -> None:
        super().__init__(message)
        self.rule = rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool gives back: `content` for the model, `details` for people (a diff, a title).

    `is_error` marks an answer that reports a failure of the thing that was run (a non-zero
    exit). `output_file` is where the whole output is when `content` was cut by the tool. `file`
    is the file whose content the model knows after the call. `facts` are recorded before its end.
    """

    content: str
    details: str | None = None
    is_error: bool = False
    output_file: str | None = None
    file: FileState | None = None
    facts: tuple[Persisted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may use: limits, a place for whole outputs, and live progress.

    `on_progress` is given output as it comes, `on_status` a line on how far the tool is.
    `mask` takes secrets out of a text: to be called before it is cut or put into a file.
    """

    call_id: str
    timeout_s: float
    max_output_bytes: int
    spill_dir: Path
    on_progress: Callable[[str], None]
    on_status: Callable[[str], None] = lambda _: None
    mask: Callable[[str], str] = str


class Tool(Protocol):
    """Something the model can call. `arguments` fit `spec.input_schema` when `run` is called."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description, schema; constant over a run."""
        ...

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The call as a permission request: `kind` (shell, write, read, url, mcp, custom-tool)
        and the fields of that kind (`fullCommandText`, `fileName`, `path`, ...). Pure."""
        ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Do it. Raises `ToolFailure` to fail politely; anything else is a bug that becomes an
        error result. Cancelled: nothing it started is alive when this returns."""
        ...


@runtime_checkable
class FileTool(Tool, Protocol):
    """A tool whose whole effect is the new content of one file."""

    def foresee(self, arguments: Mapping[str, Any]) -> FileEffect:
        """What `run` would do to the file now. Changes nothing. Raises `ToolFailure`."""
        ...

    def recall(self, effect: FileEffect) -> Literal["applied", "pending", "unknown"]:
        """Whether an announced effect happened, by the file's hash: it is there, the file is
        as it was before (a new `run` will not ask for it to be read again), or neither."""
        ...

    def remember(self, file: FileState) -> None:
        """The model knows this content of this file, from before the run was resumed."""
        ...


@runtime_checkable
class PaidTool(Tool, Protocol):
    """A tool whose every call costs something beside the model's tokens."""

    @property
    def fee(self) -> Fee | None:
        """What one call costs; None when it cannot cost anything. Constant over a run."""
        ...


@runtime_checkable
class CommandTool(Tool, Protocol):
    """A tool whose calls are commands, which rules may look into."""

    def command(self, arguments: Mapping[str, Any]) -> ShellCall:
        """What the call would run. Changes nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a process ended. `exit_code` is None when it was killed at `timeout_s`.

    `output` is stdout and stderr together, head and tail when it was long, or stdout alone, when
    stderr was asked for by itself and is in `errors`; `total_bytes` is
    how much there was and `output_file` where the whole of it (up to the file cap) is.
    """

    exit_code: int | None
    output: str
    total_bytes: int
    truncated: bool
    output_file: Path | None = None
    cwd: Path | None = None
    survivors: tuple[int, ...] = ()
    errors: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """One process to run: its own session, exactly this environment, `stdin` to read.

    With `split_errors` stdout and stderr are kept apart.

    With `report_cwd` the process gets the number of a private descriptor as one more argument;
    the last NUL-ended path it writes there becomes `ExecResult.cwd`.
    """

    argv: tuple[str, ...]
    cwd: Path
    timeout_s: float
    max_output_bytes: int
    spill_file: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    report_cwd: bool = False
    stdin: bytes = b""
    split_errors: bool = False


class Sandbox(Protocol):
    """Runs processes for tools."""

    @property
    def tier(self) -> str:
        """What is enforced: `namespaces`, `landlock` or `process`, truthfully."""
        ...

    async def exec(self, request: ExecRequest, on_output: Callable[[str], None]) -> ExecResult:
        """Run to the leader's exit plus a short drain. Output is streamed to `spill_file` and
        kept as head and tail, so memory does not grow with it. Raises `OSError` when the
        program cannot be started. On return, timeout or cancel the process tree is gone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is at a URL, as text. `moved_to` is where else to ask, which nobody did yet.

    `url` is where it was in the end, `kind` its media type; `cut` is set when there was more.
    """

    url: str
    status: int
    kind: str
    text: str
    cut: bool = False
    moved_to: str | None = None


class Web(Protocol):
    """Reads pages of the web."""

    async def read(self, url: WebUrl, timeout_s: float) -> Page:
        """GET one page; redirects are followed on the same host only. Connects to addresses that
        may be connected to and to no others. Raises `ToolFailure`, `ToolDenied`. Cancelled: the
        connection is closed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One result of a search."""

    title: str
    url: str
    snippet: str
    date: str | None = None


class WebSearch(Protocol):
    """Asks a search engine."""

    async def search(self, query: str, timeout_s: float) -> tuple[Hit, ...]:
        """One paid query, never repeated. Raises `ToolFailure`. Cancelled: the connection is
        closed; the query may be billed."""
        ...


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
