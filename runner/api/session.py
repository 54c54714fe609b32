"""A session of a host program: prompts one after another, and whoever listens."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypedDict, TypeVar, overload

from runner.adapters.clock import SystemClock
from runner.adapters.journal import read_log, session_dir
from runner.adapters.orphans import hosted
from runner.adapters.sessions import default_home, find_session
from runner.api.listeners import Listeners
from runner.api.result import Result, result_of
from runner.api.shared_loop import is_inside, work
from runner.api.tools import Tool, joined
from runner.app import Conversation, Run, RunOptions, Switch, World
from runner.core.events import AbortCause, Record
from runner.core.spec import TaskSpec

E = TypeVar("E")
OnEvent = Callable[[Record], object]
"""Told of every record: the event in its envelope. What is on disk has a `seq`."""

SHORTEST_S = 0.001
AWAKE_S = 0.5
"""How long one wait of a waiting thread is."""


class Where(TypedDict, total=False):
    """Where a session goes, what it sees and who watches: see `Session`."""

    home: str | Path | None
    session_id: str | None
    resume: str | None
    fork: bool
    artifacts: str | Path | None
    environ: Mapping[str, str] | None
    on_event: OnEvent | None
    tools: Sequence[Tool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A prompt that waits. `ends_at` is on the monotonic clock."""

    prompt: str | None
    ends_at: float | None
    switch: Switch = field(default_factory=Switch)
    result: Future[Result] = field(default_factory=Future)


class Session:
    """One conversation with the agent, in one log: prompts are run in the order they were sent.

    Each prompt has its own result, its own caps (`max_turns`, `max_autopilot_continues`,
    `max_budget_usd` unless `resume.budget_scope` is `session`) and its own `timeout`. A prompt
    that failed or was stopped does not keep the next from going on where it stopped.

    `home` is where sessions are kept, by default as for the command. `session_id` names a new
    session; `resume` is the id of one to go on with, or a beginning of it, and `fork` goes on with
    a copy. `environ` is what the run takes from the environment, keys included, by default this
    process's. `artifacts` is a folder that gets copies of the papers. `on_event` is told of every
    record. Listeners are called in the runner's thread, one after another: they must not block,
    and what they raise is in `Result.problems`. `tools` are functions of this program that the
    agent may call.

    Raises `SessionError` when the id is none, unknown or ambiguous, `TypeError` for a spec that
    was not loaded, and `ValueError` for two tools of one name.
    """

    def __init__(
        self,
        spec: TaskSpec,
        *,
        home: str | Path | None = None,
        session_id: str | None = None,
        resume: str | None = None,
        fork: bool = False,
        artifacts: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        on_event: OnEvent | None = None,
        tools: Sequence[Tool] = (),
    ) -> None:
        if not isinstance(spec, TaskSpec):
            raise TypeError(f"not a spec but {type(spec).__name__}: load it with `load_spec`")
        if fork and resume is None:
            raise ValueError("`fork` needs `resume`")
        if resume is not None and session_id is not None and not fork:
            raise ValueError("`session_id` names a new session: leave it out, or `fork`")
        world = World() if environ is None else World(environ=dict(environ))
        spec = joined(spec, tools)
        self._world = replace(world, functions={tool.name: tool.function for tool in tools})
        kept_in = Path(home or default_home(self._world.environ)).absolute()
        is_new = resume is None or fork
        options = RunOptions(
            home=kept_in,
            session_id=(session_id or self._world.new_id()) if is_new else None,
            resume=None if resume is None else find_session(kept_in, resume).name,
            fork=fork,
            artifacts=None if artifacts is None else Path(artifacts).absolute(),
        )
        self._conversation = Conversation(spec=spec, options=options)
        self._folder = session_dir(kept_in, self.id)
        self._lock = threading.Lock()
        self._waiting: deque[_Sent] = deque()
        self._running: _Sent | None = None
        self._works = False
        self._listeners = Listeners()
        if on_event is not None:
            self._listeners.add(None, on_event)

    @property
    def id(self) -> str:
        """The session's id, from the beginning on."""
        return self._conversation.session_id

    @overload
    def on(self, kind: type[E], fn: Callable[[E], object]) -> Callable[[], None]: ...
    @overload
    def on(self, kind: str, fn: Callable[[Any], object]) -> Callable[[], None]: ...
    def on(self, kind: type[Any] | str, fn: Callable[[Any], object]) -> Callable[[], None]:
        """Tell `fn` of every event of this kind: a class of `runner.events`, or its name in the
        log, such as `assistant.message`. What comes back ends it.

        `session.idle` is told when no prompt is left; the other kinds as they happen. Raises
        `ValueError` when there is no such event.
        """
        name = kind if isinstance(kind, str) else str(getattr(kind, "type", kind))
        return self._listeners.add(name, fn)

    def send(self, prompt: str | None = None, *, timeout_s: float | None = None) -> Future[Result]:
        """Have a prompt run, after those that were sent before; None is the prompt of the spec.

        Returns at once. The future gives the result; cancelling it takes a prompt back that has
        not begun. In a program with an event loop, await `asyncio.wrap_future(session.send(..))`.
        `timeout_s` counts from now; when it is over the prompt is stopped, and its result is
        `error_timeout`. A program that ends without waiting still waits for it, once its main
        thread is over; Ctrl-C stops it then.

        Raises `TypeError` and `ValueError` for a prompt that is no text or has none, and for a
        time that is no number of seconds above zero.
        """
        _refuse_nonsense(prompt, timeout_s)
        ends_at = None if timeout_s is None else SystemClock().monotonic() + timeout_s
        sent = _Sent(prompt=prompt, ends_at=ends_at)
        with self._lock:
            self._waiting.append(sent)
            begins, self._works = not self._works, True
        if begins:
            self._begin()
        return sent.result

    def send_and_wait(self, prompt: str | None = None, *, timeout_s: float | None = None) -> Result:
        """The same, and wait until the prompt is over.

        What interrupts the waiting, such as KeyboardInterrupt, aborts the session and is raised
        once nothing of it is alive. Raises `CancelledError` when `abort` took the prompt back
        before it began, and `RuntimeError` when called by a listener.
        """
        _refuse_inside()
        sent = self.send(prompt, timeout_s=timeout_s)
        try:
            _wait_for(sent)
            return sent.result()
        finally:
            if not sent.done():
                self.abort()
                _wait_for(sent)

    def abort(self) -> None:
        """Stop the prompt that runs, and take back those that wait. Returns at once.

        The result of the one that ran is `cancelled`; the futures of the others are cancelled. Of
        a session where nothing runs nothing changes.
        """
        self.stop("interrupt")

    def stop(self, cause: AbortCause) -> None:
        """The same, for another cause."""
        with self._lock:
            dropped, running = tuple(self._waiting), self._running
            self._waiting.clear()
        for sent in dropped:
            sent.result.cancel()
        if running is not None:
            running.switch.throw(cause)

    def events(self) -> Iterator[Record]:
        """Every record of the log so far, oldest first, with those of earlier runs.

        Raises `SessionError` when nothing was recorded yet, and `LogDamaged` where the log is.
        """
        return read_log(self._folder)

    def close(self) -> None:
        """Wait until every prompt that was sent is over. Raises `RuntimeError` in a listener."""
        _refuse_inside()
        with self._lock:
            sent = (*self._waiting, *(() if self._running is None else (self._running,)))
        wait([one.result for one in sent])

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        """Wait for what was sent; after an exception stop it first."""
        if kind is not None:
            self.abort()
        self.close()
        return False

    def _begin(self) -> None:
        try:
            work(self._work, self.abort)
        except BaseException:
            with self._lock:
                self._waiting.clear()
                self._works = False
            raise

    async def _work(self) -> None:
        with hosted():
            while (sent := self._next()) is not None:
                if sent.result.set_running_or_notify_cancel():
                    await self._run(sent)

    def _next(self) -> _Sent | None:
        """The prompt whose turn it is; without one the work is over."""
        with self._lock:
            self._running = self._waiting.popleft() if self._waiting else None
            self._works = self._running is not None
            return self._running

    async def _run(self, sent: _Sent) -> None:
        try:
            left_s = None
            if sent.ends_at is not None:
                left_s = max(sent.ends_at - SystemClock().monotonic(), SHORTEST_S)
            spec, options = self._conversation.part(sent.prompt, left_s)
            one = Run(
                spec,
                options,
                (self._listeners,),
                self._world,
                switch=sent.switch,
                handle_signals=False,
            )
            finished = await one.to_the_end()
            with self._lock:
                idle = not self._waiting
            if idle:
                self._listeners.tell_idle()
            sent.result.set_result(result_of(finished, self._listeners.take_problems()))
        except BaseException as bug:  # raised again where the future is waited for
            sent.result.set_exception(bug)


def _refuse_nonsense(prompt: object, timeout_s: float | None) -> None:
    """Before it is on the log: what stands there has to be readable for ever."""
    if prompt is not None and not isinstance(prompt, str):
        raise TypeError(f"a prompt is a text, not {type(prompt).__name__}")
    if prompt is not None and not prompt.encode().strip():  # a `ValueError` for half a character
        raise ValueError("the prompt has no text")
    if timeout_s is not None and not 0 < timeout_s < math.inf:
        raise ValueError(f"timeout_s: a number of seconds above 0, not {timeout_s}")


def _wait_for(sent: Future[Result]) -> None:
    """Until it is over. A signal that comes in the instant before a wait begins does not end it, so
    that there are many: the handler runs between two of them."""
    while not wait([sent], timeout=AWAKE_S).done:
        pass


def _refuse_inside() -> None:
    if is_inside():
        raise RuntimeError("a listener cannot wait for the run that it listens to")
