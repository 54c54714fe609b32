"""Runs with sub-agents over fakes: a model that knows who asks, and a stage with a crew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.adapters.pairing import check_pairing
from runner.core.events import (
    AssistantTurnEnd,
    AssistantTurnStart,
    SkillInvoked,
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
    ToolExecutionComplete,
    ToolExecutionStart,
)
from runner.core.fold import apply
from runner.core.messages import AGENT_TOOL, Assistant, ModelReply, ModelRequest, ToolCall, ToolSpec
from runner.core.spec import AgentSpec, TaskSpec
from runner.core.state import CLASSIFIER, MAIN, State
from runner.engine.engine import Crew
from runner.engine.spawn import spawn
from runner.ports import Delta, ModelError, Tool, ToolContext, ToolOutput
from tests.fakes import Answer, FakeTool
from tests.logs import task
from tests.stage import Stage, set_of_tools, set_stage

TOLD = {
    "taught": tuple(
        SkillInvoked(name=name, path=f"/{name}", content=f"How to {name}.", trigger="context-load")
        for name in ("walk", "run")
    )
}
"""The skills of the agent of this name."""


def works_as(name: str) -> str:
    """The system prompt of an agent of the tests."""
    return f"You are {name}."


@dataclass(slots=True, kw_only=True)
class AgentTool:
    """The tool as the model sees it; the engine carries its calls out."""

    name: str = AGENT_TOOL

    @property
    def spec(self) -> ToolSpec:
        """What a call has to say."""
        texts = {name: {"type": "string"} for name in ("description", "prompt", "subagent_type")}
        schema = {"type": "object", "properties": texts, "required": ["prompt"]}
        return ToolSpec(name=self.name, description="starts one", input_schema=schema)

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """It needs no rule."""
        return {"kind": "custom-tool", "toolName": self.name, "toolDescription": "starts one"}

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Never called."""
        raise AssertionError("the engine carries it out")


@dataclass(slots=True, kw_only=True)
class Cast:
    """A model with answers for each agent, by name; `main` is the main loop. It keeps who asked
    what, in order."""

    answers: Mapping[str, Iterable[Answer]]
    counted_tokens: int = 100
    asked: list[tuple[str, ModelRequest]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answers = {name: iter(given) for name, given in self.answers.items()}

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """The next answer for who asks."""
        who = request.system.removeprefix("You are ").removesuffix(".")
        name = who if who in self.answers else "main"
        self.asked.append((name, request))
        answer = next(iter(self.answers[name]), None)
        assert answer is not None, f"{name} asks once more than was scripted"
        if isinstance(answer, ModelError):
            raise answer
        reply = answer if isinstance(answer, ModelReply) else await answer(request)
        if reply.text:
            on_delta(Delta(kind="text", text=reply.text))
        return reply

    async def ready(self) -> None:
        """There is nothing to load."""

    async def count_tokens(self, request: ModelRequest) -> int:
        """The number the model was made with."""
        return self.counted_tokens

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    def requests(self, name: str) -> list[ModelRequest]:
        """What this agent asked."""
        return [request for who, request in self.asked if who == name]


@dataclass(slots=True, kw_only=True)
class Steady:
    """A model that answers by how much was said before, so that asking again changes nothing."""

    answers: Mapping[str, Sequence[ModelReply]]
    asked: list[tuple[str, ModelRequest]] = field(default_factory=list)

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """The reply that comes after those in the conversation; it takes a second."""
        who = request.system.removeprefix("You are ").removesuffix(".")
        name = who if who in self.answers else "main"
        self.asked.append((name, request))
        await asyncio.sleep(1)
        said = sum(isinstance(message, Assistant) for message in request.messages)
        return self.answers[name][said]

    async def ready(self) -> None:
        """There is nothing to load."""

    async def count_tokens(self, request: ModelRequest) -> int:
        """As many as replies say they were."""
        return 100

    async def aclose(self) -> None:
        """There is nothing to let go of."""


def agent(**changes: Any) -> AgentSpec:
    """An agent that may do what its parent may."""
    return AgentSpec(**{"description": "helps", "prompt": "Help.", **changes})


def start(name: str, call_id: str | None = None, /, prompt: str = "Look.") -> ToolCall:
    """The call that starts a sub-agent; its id is the agent's name unless it is given."""
    arguments = {"description": "a part", "prompt": prompt, "subagent_type": name}
    return ToolCall(id=call_id or name, name=AGENT_TOOL, arguments=arguments)


def manned(
    answers: Mapping[str, Iterable[Answer]],
    *,
    spec: TaskSpec | None = None,
    tools: Callable[[], tuple[FakeTool, ...]] = set_of_tools,
    counted_tokens: int = 100,
    **parts: Any,
) -> Stage:
    """A stage whose spec has an agent for every name in `answers`, if it has none of its own."""
    spec = spec or task(agents={name: agent() for name in answers if name != "main"})
    given: tuple[Tool, ...] = (*tools(), AgentTool())
    stage = set_stage([], spec=spec, tools=given, **parts)
    return with_crew(stage, Cast(answers=answers, counted_tokens=counted_tokens), given)


def with_crew(stage: Stage, model: Any, tools: tuple[Tool, ...]) -> Stage:
    """The stage with this model, and with sub-agents."""
    stage.engine.model = model
    stage.engine.effects, stage.engine.judging = asyncio.Lock(), asyncio.Lock()  # of its own loop
    stage.engine.crew = Crew(
        spawn=spawn,
        description=lambda name: f"{name} helps",
        prompt=works_as,
        skills=lambda name: TOLD.get(name, ()),
        tools=lambda: {tool.spec.name: tool for tool in tools},
    )
    return stage


# -- what holds in every log ---------------------------------------------------------------------


def check_books(stage: Stage) -> None:
    """Whatever happened: every agent, turn and call that began has ended once, inside of what it
    belongs to; no history has a call without its result; no dollar was held or spent beyond the
    cap; and folding the log gives the state."""
    records = stage.journal.records
    open_agents: dict[str, str] = {}
    ended: set[str] = set()
    open_turns: dict[str, str] = {}
    open_calls: set[tuple[str, str, str]] = set()
    state = State()
    for record in records:
        agent_id = record.agent_id or MAIN
        assert agent_id not in ended, record
        match record.event:
            case SubagentStarted() as begun:
                parent = begun.parent_agent_id or MAIN
                assert agent_id not in open_agents
                assert (parent, begun.turn_id, begun.tool_call_id) in open_calls
                open_agents[agent_id] = parent
            case SubagentCompleted() | SubagentFailed():
                assert agent_id not in open_turns
                assert agent_id not in open_agents.values()
                del open_agents[agent_id]
                ended.add(agent_id)
            case AssistantTurnStart(turn_id=turn_id):
                assert agent_id not in open_turns
                assert agent_id in (MAIN, CLASSIFIER, *open_agents)
                open_turns[agent_id] = turn_id
            case AssistantTurnEnd(turn_id=turn_id):
                assert open_turns.pop(agent_id) == turn_id
                assert not [one for one in open_calls if one[0] == agent_id]
            case ToolExecutionStart(turn_id=turn_id, tool_call_id=call_id):
                assert open_turns[agent_id] == turn_id
                open_calls.add((agent_id, turn_id, call_id))
            case ToolExecutionComplete(turn_id=turn_id, tool_call_id=call_id):
                open_calls.remove((agent_id, turn_id, call_id))
            case _:
                pass
        state = apply(state, record)
        cap = state.spec.max_budget_usd if state.spec else None
        assert cap is None or state.ledger.committed_usd <= cap, record
    assert (open_agents, open_turns, open_calls) == ({}, {}, set())
    assert state == stage.state
    assert not state.ledger.reserved
    for thread in state.threads.values():
        check_pairing(thread.messages)
