"""The key `agents`: sub-agents by name, each in the shape of Claude's `AgentDefinition`.

The names of the keys, camel case with them, are those of the Agent SDKs; what is not carried out is
refused by name. https://code.claude.com/docs/en/agent-sdk/subagents
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from runner.adapters.specfile.problem import At, Invalid, shown
from runner.adapters.specfile.records import key
from runner.adapters.specfile.shapes import Key, ListOf, MapOf, Record
from runner.adapters.specfile.types import Choice, Refusal, Schema, Text, Whole
from runner.adapters.specfile.words import EFFORTS, MODES, OWN_TOOL, ModelName, ToolName, ToolRule
from runner.adapters.specfile.yaml_document import Node, Scalar
from runner.core import rules
from runner.core.messages import MCP_PREFIX
from runner.core.skills import NAME
from runner.core.spec import AgentSpec

AGENT_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"

INHERIT: Final = "inherit"

_OWN_MODES: Final = tuple(mode for mode in MODES if mode != "auto")
"""Without `auto`: its model is there only in a run of that mode, whose agents have it anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """The name of a built-in or custom tool, of a tool of an MCP server, or `mcp__SERVER` for all
    of one."""

    expects: str = "the name of a tool"

    def read(self, node: Node, at: At) -> Any:
        """See the protocol. A rule is refused: a list of tools narrows no single call."""
        text = Text(expects=self.expects).read(node, at)
        if isinstance(text, Invalid) or text in at.own_tools:
            return text
        if not text.startswith(MCP_PREFIX):
            return ToolName().read(node, at)
        try:
            is_name = rules.parse(text).specifier is None
        except rules.RuleError:
            is_name = False
        hint = "for example mcp__docs for all of a server, or mcp__docs__search"
        return text if is_name else at.refuse(node.mark, f"{shown(text)} is no name", hint)

    def write(self, value: Any) -> Any:
        """See the protocol."""
        return value

    def schema(self) -> Schema:
        """See the protocol."""
        of_servers = {"type": "string", "pattern": rf"^{MCP_PREFIX}[^()]+$"}
        return {"anyOf": [ToolName().schema(), of_servers, {"pattern": f"^{OWN_TOOL}$"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnModel:
    """A model, or `inherit`, which is what leaving the key out means; None inside."""

    expects: str = "a model such as anthropic/claude-haiku-4-5, scripted:FILE, or inherit"

    def read(self, node: Node, at: At) -> Any:
        """See the protocol."""
        if isinstance(node, Scalar) and node.value == INHERIT:
            return None
        return ModelName(expects=self.expects).read(node, at)

    def write(self, value: Any) -> Any:
        """See the protocol."""
        return value

    def schema(self) -> Schema:
        """See the protocol."""
        return {"anyOf": [ModelName().schema(), {"type": "null"}]}


def _skill(text: str) -> Refusal | None:
    if re.fullmatch(NAME, text):
        return None
    hint = "a skill that lies elsewhere is listed by its path in the task's `skills`"
    return f"{shown(text)} is not the name of a skill", hint


AGENT = Record(
    cls=AgentSpec,
    keys=(
        key(
            "description",
            Text(expects="text that says when to use it", body=True),
            "When to use it: the model that may start it reads this.",
            "Reviews a change for mistakes.",
        ),
        key(
            "prompt",
            Text(expects="its system prompt", body=True),
            "Its system prompt. What it is to do comes from the agent that starts it.",
            "You review code. Change nothing.",
        ),
        key(
            "tools",
            ListOf(item=OfferedTool(), what="names of tools"),
            "The tools it has, of those of the agent that starts it. Unset: all of them.",
            ["Read", "Grep", "mcp__docs"],
        ),
        Key(
            name="disallowedTools",
            reader=ListOf(item=ToolRule(allows=False), what="rules"),
            means="Rules for what it may not, besides those of the task.",
            example=["Bash(git push *)"],
            field="disallowed_tools",
        ),
        key(
            "model",
            OwnModel(),
            "The model it asks; `inherit` or unset: that of the agent that starts it. `sonnet`, "
            "`opus` and `haiku` stand for the model of the task that is called so.",
            "anthropic/claude-haiku-4-5",
        ),
        key(
            "effort",
            Choice(options=EFFORTS),
            "How hard the model thinks; unset: as in the agent that starts it.",
            "low",
        ),
        Key(
            name="maxTurns",
            reader=Whole(minimum=1),
            means="Cap on its turns that use tools, which it counts for itself. The `max_turns` of "
            "who starts it holds too.",
            example=10,
            field="max_turns",
        ),
        Key(
            name="permissionMode",
            reader=Choice(options=_OWN_MODES, planned=("auto",)),
            means="Its mode, when that allows less than the mode of the agent that starts it.",
            example="plan",
            field="permission_mode",
        ),
        key(
            "skills",
            ListOf(item=Text(check=_skill), what="names of skills"),
            "Skills that it is told in full at its start.",
            ["release"],
        ),
    ),
    required=("description", "prompt"),
    planned={
        "background": "remove it: the agent that starts it waits for its answer",
        "hooks": "write them under the task's `hooks`; they run for sub-agents too",
        "initialPrompt": "remove it: the agent that starts it says what to do",
        "mcpServers": "name the servers in `mcp_servers`, and their tools in `tools`",
        "memory": "remove it: a sub-agent begins anew each time",
    },
    expects="a map such as {description: Reviews a change., prompt: You review code.}",
)

AGENTS = MapOf(
    value=AGENT,
    what="sub-agents",
    key_pattern=AGENT_NAME,
    key_words="a name of letters, digits, `-` and `_`, at most 64",
)
