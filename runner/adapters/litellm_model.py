"""The models behind litellm: imports it beside the rest of the start-up, asks, streams, closes.

Rules of this file:
* litellm takes seconds to import. One daemon thread does it, so that a run that is cancelled
  meanwhile can exit at once; threads of an executor are joined at exit.
* One `ask` is one HTTP request: every retry that litellm or an SDK would make is off.
* Limits are kept here: litellm's own time-out counts from byte to byte and cuts no slow drip.
* litellm logs through the standard library only; it prints nothing.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar
from weakref import WeakSet

from runner.adapters.daemon_thread import in_daemon_thread
from runner.adapters.litellm_effort import Thinking, thinking
from runner.adapters.litellm_environment import own_variables
from runner.adapters.litellm_errors import CUT, classify
from runner.adapters.litellm_onlooker import Onlooker
from runner.adapters.litellm_reply import ReplyParts, is_finished, reported_usage
from runner.adapters.litellm_route import Route, route
from runner.adapters.litellm_wire import (
    WireMessage,
    Wiring,
    wire_messages,
    wire_tools,
)
from runner.core.messages import ModelReply, ModelRequest
from runner.ports import Delta, ModelError

T = TypeVar("T")

_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_CLOSE_S = 2.0
_BYTES_PER_TOKEN = 2
_STUMBLES = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


_ASKING: WeakSet[Any] = WeakSet()
"""Whoever may still need the connections that litellm keeps open."""


@cache
def start_import() -> Future[Any]:
    """Begin to import litellm, once for the process; the future holds the module."""
    return in_daemon_thread(_import, "import-litellm")


class LitellmModel:
    """One model at one endpoint, as a `Model`.

    `api_base` and `api_key` None leave both to litellm: the provider's own address, and its
    usual variable. `idle_s` is the longest silence, `call_s` the longest call, in seconds.
    """

    def __init__(
        self, *, model: str, api_base: str | None, api_key: str | None, idle_s: float, call_s: float
    ) -> None:
        self._model = model
        self._api_base = api_base
        self._api_key = api_key
        self._idle_s = idle_s
        self._call_s = call_s
        self._wiring = Wiring("other")
        begin_asking(self)

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Stream one reply, see `Model`. The import is waited for outside the limits."""
        litellm = await asyncio.wrap_future(start_import())
        ends_at = asyncio.get_running_loop().time() + self._call_s
        way = self._way(litellm, request)
        effort = thinking(litellm, self._model, request)
        arguments = self._arguments(request, effort)
        taken = frozenset(self._wiring.call_ids)  # now: another agent may ask meanwhile
        opening = litellm.acompletion(**arguments, **way.arguments)
        stream = await self._within(litellm, opening, ends_at, reading=False, started=False)
        parts, onlooker, started = ReplyParts(), Onlooker(), False
        onlooker.follow(stream)
        try:
            while chunk := await self._within(
                litellm, anext(stream, None), ends_at, reading=True, started=started
            ):
                started = True
                for delta in parts.add(chunk):
                    on_delta(delta)
        finally:
            await _close(litellm, stream, onlooker)
        kept = getattr(stream, "chunks", None) or ()
        if onlooker.cut or not is_finished(kept):
            raise ModelError("provider_unavailable", CUT, retryable=True, may_bill=True)
        for delta in parts.refuse(onlooker.refusal):
            on_delta(delta)
        usage = None if onlooker.unpaid else reported_usage(kept)
        reply = parts.reply(taken=taken, usage=usage)
        return replace(reply, left_out=effort.said)

    async def ready(self) -> None:
        """Wait for the import; if it failed, the first `ask` says so."""
        with suppress(*_STUMBLES):
            await asyncio.wrap_future(start_import())

    async def count_tokens(self, request: ModelRequest) -> int:
        """About how many tokens the request has, counted by litellm; half its bytes otherwise."""
        messages = wire_messages(request)
        tools = wire_tools(request.tools)
        try:
            litellm = await asyncio.wrap_future(start_import())
            counting = in_daemon_thread(
                lambda: litellm.token_counter(model=self._model, messages=messages, tools=tools),
                "count-tokens",
            )
            return int(await asyncio.wrap_future(counting))
        except _STUMBLES:
            size = len(json.dumps([messages, tools], ensure_ascii=False, default=str).encode())
            return size // _BYTES_PER_TOKEN + 1

    async def aclose(self) -> None:
        """Close the connections that litellm keeps open between calls, see `done_asking`."""
        await done_asking(self)

    def _way(self, litellm: Any, request: ModelRequest) -> Route:
        """Which API is asked; what was converted for another is converted again."""
        way = route(
            litellm,
            self._model,
            api_base=self._api_base,
            effort=request.effort,
            tools=bool(request.tools),
        )
        if way.dialect != self._wiring.dialect:
            self._wiring = Wiring(way.dialect)
        return way

    def _arguments(self, request: ModelRequest, effort: Thinking) -> dict[str, Any]:
        """The keywords of the call. Its own time-out is longer than our limits: these decide."""
        messages = self._wiring.messages(request)
        if request.effort and not effort.arguments:  # who does not think must not have thought
            messages = [_without_thoughts(message) for message in messages]
        arguments: dict[str, Any] = {
            "model": self._model,
            "api_base": self._api_base,
            "api_key": self._api_key,
            "messages": messages,
            "max_tokens": request.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_retries": 0,
            "num_retries": 0,
            "timeout": self._call_s + self._idle_s,
        }
        arguments |= {"tools": wire_tools(request.tools)} if request.tools else {}
        return arguments | dict(effort.arguments)

    async def _within(
        self, litellm: Any, work: Awaitable[T], ends_at: float, *, reading: bool, started: bool
    ) -> T:
        """Wait for the provider's next sign of life, within both limits."""
        now = asyncio.get_running_loop().time()
        limit = asyncio.timeout_at(min(now + self._idle_s, ends_at))
        try:
            with no_lost_cancel():
                async with limit:
                    result = await work
        except failures(litellm) as error:
            if limit.expired():
                raise self._too_slow(now, ends_at) from error
            raise classify(error, reading=reading, started=started, secret=self._api_key) from error
        if limit.expired():  # and the cancel was swallowed on its way
            raise self._too_slow(now, ends_at)
        return result

    def _too_slow(self, waited_from: float, ends_at: float) -> ModelError:
        idle = waited_from + self._idle_s < ends_at
        message = (
            f"no part of a reply came for {self._idle_s:g} s"
            if idle
            else f"the call took longer than {self._call_s:g} s"
        )
        return ModelError("provider_unavailable", message, retryable=True, may_bill=True)


def _import() -> Any:
    # What an import makes stays. The collector would walk it over and over while it grows (it takes
    # 4.2 s of CPU time then, and 3.2 s without it), and again in the middle of a run.
    is_new, collects = "litellm" not in sys.modules, gc.isenabled()
    gc.disable()
    try:
        with own_variables():
            import litellm

            # It reads that table at the first call, from the network without our variables.
            litellm.anthropic_beta_headers_manager.has_beta_headers_config("anthropic")
    finally:
        if collects:
            gc.enable()
    gc.freeze()
    litellm.suppress_debug_info = True  # it prints advice to stdout
    litellm.disable_hf_tokenizer_download = True
    # It takes a hundred equal pieces in a row for a loop, but a table may have them. The output
    # limit bounds a loop too.
    litellm.REPEATED_STREAMING_CHUNK_LIMIT = sys.maxsize
    # A call that is cancelled while a thread prepares it leaves a coroutine of litellm's behind.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    for name in _LOGGERS if is_new else ():  # else they are as the host program wants them
        # Its handlers write to stderr; the NullHandler keeps logging's last resort from doing so.
        logging.getLogger(name).handlers = [logging.NullHandler()]
        logging.getLogger(name).addFilter(_without_trace)
    return litellm


def failures(litellm: Any) -> tuple[type[Exception], ...]:
    """All that may come out of litellm: its own errors (OpenAI's is the root of them), those of
    the connection, and what its code stumbles over when a server sends nonsense."""
    transport = litellm.exceptions.httpx
    return (
        litellm.exceptions.openai.OpenAIError,
        transport.HTTPError,
        transport.InvalidURL,
        *_STUMBLES,
    )


def _without_trace(record: logging.LogRecord) -> bool:
    """Keep what litellm complains about (a chunk that is nonsense), not where in its code."""
    record.msg, record.args = record.getMessage().partition("\n")[0], ()
    record.exc_info = record.exc_text = record.stack_info = None
    return True


def begin_asking(asker: object) -> None:
    """From here on connections stay open between calls, until this one is done, too."""
    _ASKING.add(asker)


async def done_asking(asker: object) -> None:
    """Close litellm's connections, once nobody needs them: it keeps those of all in one place."""
    _ASKING.discard(asker)
    if _ASKING:
        return
    if not start_import.cache_info().currsize or not start_import().done():
        return  # there are none, and litellm need not be waited for
    litellm = start_import().result()
    shared = vars(litellm).pop("module_level_aclient", None)  # made anew when it is needed
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await litellm.close_litellm_async_clients()
            if shared is not None:
                await shared.close()
    litellm.in_memory_llm_clients_cache.flush_cache()


async def _close(litellm: Any, *streams: Any) -> None:
    """Close the connection: what goes on sending goes on billing."""
    with no_lost_cancel(), suppress(*failures(litellm)):  # it is gone, one way or the other
        async with asyncio.timeout(_CLOSE_S):
            for stream in streams:
                await stream.aclose()


@contextmanager
def no_lost_cancel() -> Iterator[None]:
    """Cancel here what was cancelled inside, though litellm has swallowed it (its close does)."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    yield
    if task and task.cancelling() > before:
        raise asyncio.CancelledError


def _without_thoughts(message: WireMessage) -> WireMessage:
    return {key: value for key, value in message.items() if key != "thinking_blocks"}
