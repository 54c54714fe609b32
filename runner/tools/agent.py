"""Agent: starts a sub-agent. This is what the model reads; the engine carries its calls out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.core.messages import AGENT_TOOL
from runner.core.spec import AgentSpec
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import tool_spec


class Agent:
    """Lists the agents there are, by name and with what they are for."""

    def __init__(self, *, agents: Mapping[str, AgentSpec], descriptions: Mapping[str, str]) -> None:
        listed = "\n".join(_line(name, agent) for name, agent in agents.items())
        texts = {
            **descriptions,
            AGENT_TOOL: descriptions[AGENT_TOOL].replace("{agents}", listed),
        }
        self.spec = tool_spec(
            AGENT_TOOL,
            texts,
            {
                "description": {"type": "string"},
                "prompt": {"type": "string", "minLength": 1},
                "subagent_type": {"type": "string"},
            },
            required=("description", "prompt"),
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port. Nothing is done by the call itself: each of the agent's calls is judged."""
        return {
            "kind": "custom-tool",
            "toolName": AGENT_TOOL,
            "toolDescription": self.spec.description,
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        raise ToolFailure("no sub-agent can be started here")


def _line(name: str, agent: AgentSpec) -> str:
    tools = "" if agent.tools is None else f" (tools: {', '.join(agent.tools) or 'none'})"
    return f"- {name}: {' '.join(agent.description.split())}{tools}"
