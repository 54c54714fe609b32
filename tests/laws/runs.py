"""Runs made up by hypothesis: the real engine over a model, tools and signals that are drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, get_args

from hypothesis import strategies as st

from runner.core.context import request_bound
from runner.core.events import AbortCause
from runner.core.messages import ModelReply, ModelRequest, Usage
from runner.engine.recover import recover
from runner.ports import Delta, ModelError, Tool, ToolContext, ToolFailure, ToolOutput
from tests.crew import AgentTool, with_crew
from tests.fakes import FakeTool, RetryUpTo, done, reply
from tests.laws.strategies import answers, prices, specs
from tests.stage import Stage, go_on, set_of_tools, set_stage
from tests.virtual_time import run_virtual


class HonestModel:
    """Says what it was given to say, then completes the task for ever. Takes a second a reply.

    A request weighs a fixed part of its bytes, and a reply stays within its limit: what the
    provider reports is what a reservation must have foreseen.
    """

    def __init__(self, said: Iterable[ModelReply | ModelError], bytes_per_token: int) -> None:
        self._said = iter(said)
        self._bytes_per_token = bytes_per_token

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """The next answer, with a usage that fits the request."""
        await asyncio.sleep(1)
        answer = next(self._said, None) or _last_word(request)
        if isinstance(answer, ModelError):
            raise answer
        if answer.text:
            on_delta(Delta(kind="text", text=answer.text))
        weighed = answer.usage and self._weighed(request, answer.usage)
        return replace(answer, usage=weighed)

    async def ready(self) -> None:
        """There is nothing to load."""

    async def count_tokens(self, request: ModelRequest) -> int:
        """What the request weighs."""
        return request_bound(request) // self._bytes_per_token

    def _weighed(self, request: ModelRequest, share: Usage) -> Usage:
        prompt = request_bound(request) // self._bytes_per_token
        cached = prompt * share.cache_read_tokens // 100
        written = (prompt - cached) * share.cache_write_tokens // 100
        return Usage(
            input_tokens=prompt - cached - written,
            cache_read_tokens=cached,
            cache_write_tokens=written,
            output_tokens=request.max_output_tokens * share.output_tokens // 100,
        )

    async def aclose(self) -> None:
        """There is nothing to let go of."""


async def work(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Takes a second, and fails when it is given a blank."""
    await asyncio.sleep(1)
    if " " in arguments.values():
        raise ToolFailure("a blank")
    return ToolOutput(content="ok")


@st.composite
def runs(draw: st.DrawFn) -> Stage:
    """A run that is over: any spec, any answers, perhaps a signal or a deadline in between."""
    spec = draw(specs())
    priced = draw(st.booleans()) or spec.max_budget_usd is not None
    deadline_s = draw(st.none() | st.none() | st.integers(0, 12).map(lambda n: n + 0.5))
    spec = replace(spec, timeout=deadline_s)
    tools = all_tools()
    stage = set_stage(
        [],
        spec=spec,
        tools=tools,
        price=draw(prices) if priced else None,
        retry=RetryUpTo(attempts=draw(st.integers(1, 3))),
    )
    with_crew(stage, HonestModel(draw(answers), draw(st.integers(1, 6))), tools)
    signal_s = draw(st.none() | st.none() | st.integers(0, 12).map(lambda n: n + 0.25))
    cause = draw(st.sampled_from([c for c in get_args(AbortCause) if c != "timeout"]))
    run_virtual(_perform(stage, deadline_s, signal_s, cause))
    return stage


@st.composite
def killed_runs(draw: st.DrawFn) -> Stage:
    """A run that was killed after any line but its last, once or twice, and resumed to its end."""
    stage = draw(runs())
    for _ in range(draw(st.integers(1, 2))):
        lines = draw(st.integers(1, len(stage.journal.records) - 1))
        stage = resumed(stage, lines)
    return stage


def resumed(stage: Stage, lines: int) -> Stage:
    """The same session killed after this many lines and run to its end; nothing else stops it."""
    tools = all_tools()
    again = go_on(stage, lines=lines, tools=tools)
    with_crew(again, stage.engine.model, tools)  # what it said is said
    again.sink.records[:0] = stage.journal.records[:lines]
    run_virtual(_recover_and_perform(again))
    return again


async def _recover_and_perform(stage: Stage) -> None:
    await recover(stage.engine)
    stage.ending = await stage.steps()
    stage.finish()


def all_tools() -> tuple[Tool, ...]:
    """The tools of these runs, sub-agents among them."""
    return (*map(replace_work, set_of_tools()), AgentTool())


def _last_word(request: ModelRequest) -> ModelReply:
    """The task is done, or what a sub-agent was asked."""
    is_main = any(tool.name == "task_complete" for tool in request.tools)
    return done() if is_main else reply("found")


def replace_work(tool: FakeTool) -> FakeTool:
    """The same tool, doing the work of these runs."""
    return replace(tool, work=work, ran=[])


async def _perform(
    stage: Stage, deadline_s: float | None, signal_s: float | None, cause: AbortCause
) -> None:
    running = asyncio.current_task()
    assert running is not None

    def stop() -> None:
        stage.interruption.cause = cause
        running.cancel()

    timer = signal_s and asyncio.get_running_loop().call_later(signal_s, stop)
    stage.ending = await stage.steps(deadline_s)
    if timer:
        timer.cancel()
    stage.finish()
