"""The engine of a sub-agent: that of the agent above it, with a view of the run of its own."""

from __future__ import annotations

from dataclasses import replace

from runner.core.messages import AGENT_TOOL
from runner.core.spawning import NOBODY_ASKS, offered_to
from runner.core.subagents import depth
from runner.engine.engine import Crew, Engine
from runner.engine.recorder import ChildRecorder, Recorder


def child_engine(engine: Engine, agent_id: str) -> Engine:
    """Make it for a sub-agent that has begun. Its tools remember nothing yet."""
    recorder, state = engine.recorder, engine.recorder.state
    root = recorder if isinstance(recorder, Recorder) else recorder.root
    name = state.agents[agent_id].started.agent_name
    tools = crew_of(engine).tools()
    return replace(
        engine,
        recorder=ChildRecorder(root=root, agent_id=agent_id),
        tools={name: tool for name, tool in tools.items() if name not in NOBODY_ASKS},
        offered=offered_to(state, name, engine.offered, depth(state, agent_id)),
        phase="start",
    )


def crew_of(engine: Engine) -> Crew:
    """What sub-agents need."""
    assert engine.crew is not None, f"only a run with a crew offers {AGENT_TOOL}"
    return engine.crew
