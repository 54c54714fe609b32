"""A sub-agent: the same loop, over the run as that agent sees it, until it ends."""

from __future__ import annotations

from runner.core import spawning, subagents
from runner.core.events import SystemMessage, UserMessage
from runner.core.messages import ToolCall
from runner.core.thread import STOP_HOOK
from runner.engine.agent_hooks import subagent_start, subagent_stop
from runner.engine.child import child_engine, crew_of
from runner.engine.engine import Engine
from runner.engine.loop import perform
from runner.engine.recover import recover_own
from runner.ports import ToolFailure, ToolOutput

PROMPT = "agent"
"""The source of the message in which an agent tells a sub-agent what to do."""


async def spawn(engine: Engine, call: ToolCall) -> ToolOutput:
    """Run the sub-agent that a call asks for, or the rest of one that a kill interrupted.

    Raises `ToolFailure` when none can be started, and `JournalError`. Cancelled: it is left open,
    and what it had begun is settled as far as that needs no decision.
    """
    agent_id = subagents.of_call(engine.recorder.state, call)
    if agent_id is None:
        agent_id = _start(engine, call)
    child = child_engine(engine, agent_id)
    if child.recorder.state.agents[agent_id].ended is None:
        await _live(child, str(call.arguments["prompt"]))
    text, is_error = spawning.told(child.recorder.state)
    return ToolOutput(content=text, is_error=is_error)


def _start(engine: Engine, call: ToolCall) -> str:
    """Record that it begins, if it may. Raises `ToolFailure`."""
    state = engine.recorder.state
    refused = spawning.refusal(state, call)
    if refused is not None:
        raise ToolFailure(refused)
    name, agent_id = spawning.agent_name(call), engine.new_id()
    below = subagents.depth(state, state.agent_id) + 1
    shown = spawning.offered_to(state, name, engine.offered, below)
    description = crew_of(engine).description(name)
    engine.recorder.record(spawning.started(state, call, description, shown), agent_id)
    return agent_id


async def _live(child: Engine, prompt: str) -> None:
    """From its first message, or from where a kill interrupted it, to its end."""
    recorder, began = child.recorder, child.clock.monotonic()
    agent_id = recorder.state.agent_id
    name = recorder.state.agents[agent_id].started.agent_name
    await recover_own(child)
    await _say_first(child, name, prompt)
    while True:
        ending = await perform(child)
        if ending.subtype != "success":
            break
        said = spawning.last_text(recorder.state)
        reason = await subagent_stop(child, name, said)
        if reason is None:
            break
        recorder.record(UserMessage(content=reason, source=STOP_HOOK))
    took_ms = round((child.clock.monotonic() - began) * 1000)
    recorder.record(spawning.ended(recorder.state, ending, took_ms))


async def _say_first(child: Engine, name: str, prompt: str) -> None:
    """What it is, what it is asked, and the skills it is told in full; each once."""
    recorder, crew = child.recorder, crew_of(child)
    if not recorder.state.system:
        recorder.record(SystemMessage(content=crew.prompt(name)))
    if not recorder.state.main.messages:
        await subagent_start(child, name)
        recorder.record(UserMessage(content=prompt, source=PROMPT))
    if recorder.state.main.turns_started == 0:
        told = {skill.name for skill in recorder.state.main.skills}
        for skill in crew.skills(name):
            if skill.name not in told:
                recorder.record(skill)
