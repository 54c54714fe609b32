"""The key `custom_tools`: tools that the task brings itself, as Python functions or commands."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from runner.adapters.specfile.mcp_keys import SERVER
from runner.adapters.specfile.output_schema import inline
from runner.adapters.specfile.problem import At, Invalid, Source, SpecError, shown
from runner.adapters.specfile.records import key
from runner.adapters.specfile.shapes import ListOf, MapOf, Record
from runner.adapters.specfile.types import (
    Duration,
    ExistingPath,
    Flag,
    Refusal,
    Schema,
    Text,
    mismatch,
)
from runner.adapters.specfile.words import OWN_TOOL, TOOLS
from runner.adapters.specfile.yaml_document import Fields, Node, parse
from runner.core.messages import CONTROL_TOOLS
from runner.core.spec import CustomToolSpec

HOST: Final = "the host program"
"""Where a tool is defined that stands in no spec."""

_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"

_TAKEN = {name.lower(): name for name in (*TOOLS, *CONTROL_TOOLS)}


def tool_name(text: str) -> Refusal | None:
    """What is wrong with a name that is well formed."""
    if text.lower() in _TAKEN:
        return f"{_TAKEN[text.lower()]} is a tool of the runner", "give it another name"
    if "__" in text:
        return "a `__` stands in names of tools of MCP servers alone", "write one `_`"
    return None


def names_in(task: Fields) -> tuple[str, ...]:
    """The names that a task gives to tools of its own, whatever else is wrong with them."""
    entry = task.fields.get("custom_tools")
    return tuple(entry.node.fields) if entry and isinstance(entry.node, Fields) else ()


def unplaced(tools: Mapping[str, CustomToolSpec]) -> Mapping[str, CustomToolSpec]:
    """The tools without the places where they are defined."""
    return {name: replace(tool, source="") for name, tool in tools.items()}


def read_host_tool(name: str, description: str, input_schema: Mapping[str, Any]) -> CustomToolSpec:
    """A tool of a host program, judged as one in a spec is. Raises `SpecError`, and `TypeError` for
    what JSON cannot hold."""
    keys = {"description": description, "input_schema": dict(input_schema), "command": [HOST]}
    source = Source(name="tools", folder=Path(), numbered=False)
    tree, problems = parse(json.dumps({name: keys}).encode(), source)
    at = At("tools", problems)
    read = None if tree is None else CUSTOM_TOOLS.read(tree, at)
    if at.problems or read is None:
        raise SpecError(at.problems)
    tool: CustomToolSpec = read[name]
    return replace(tool, command=(), source=HOST)


def _function(text: str) -> Refusal | None:
    if re.fullmatch(f"{_DOTTED}:{_DOTTED}", text):
        return None
    return f"{shown(text)} is not module:function", "for example ci_tools:ticket"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSchema:
    """A JSON Schema as plain JSON, written where the tool is."""

    expects: str = "the JSON Schema of the arguments, such as {type: object, properties: {}}"

    def read(self, node: Node, at: At) -> Any:
        """See the protocol."""
        if not isinstance(node, Fields):
            return mismatch(self, node, at)
        return inline(node, at, "the arguments")

    def write(self, value: Any) -> Any:
        """See the protocol."""
        return value

    def schema(self) -> Schema:
        """See the protocol."""
        return {"type": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomTool(Record):
    """One tool. It remembers where it is defined, and in which folder its module is looked for."""

    def read(self, node: Node, at: At) -> Any:
        """See the protocol."""
        tool = Record.read(self, node, at)
        if isinstance(tool, Invalid) or not isinstance(node, Fields):
            return tool
        mark = node.fields["python" if tool.python else "command"].mark
        here = mark.source
        return replace(
            tool,
            python_path=tool.python_path or (str(here.folder) if tool.python else None),
            source=f"{here.name}:{mark.line}" if here.numbered else here.name,
        )


def _whole(tool: CustomToolSpec) -> Refusal | None:
    if (tool.python is None) == (not tool.command):
        many = "both `python` and `command`" if tool.python else "neither `python` nor `command`"
        hint = "write python: module:function, or command: [PROGRAM, ARGUMENT]"
        return f"the tool has {many}", hint
    if tool.python_path and tool.python is None:
        return "`python_path` belongs to `python`", "a command runs in the workspace: remove it"
    if tool.command and not tool.command[0].strip():
        return "the command begins with an empty text", "write the program first"
    return None


TOOL = CustomTool(
    cls=CustomToolSpec,
    keys=(
        key(
            "description",
            Text(expects="text that says what it does", body=True),
            "What it does and when to use it: the model reads this.",
            "Reads a ticket by its number.",
        ),
        key(
            "input_schema",
            InputSchema(),
            "The JSON Schema (2020-12 or draft-07) of its arguments. Every call is compared with "
            "it first.",
            {
                "type": "object",
                "properties": {"id": {"type": "string"}},
                "required": ["id"],
                "additionalProperties": False,
            },
        ),
        key(
            "python",
            Text(expects="module:function", check=_function),
            "The function, `async` or not. It gets the arguments by name and returns text, or what "
            "JSON can hold.",
            "ci_tools:ticket",
        ),
        key(
            "python_path",
            ExistingPath(kind="folder"),
            "Where its module is looked for first; unset: the folder of the task's file.",
            "./tools",
        ),
        key(
            "command",
            ListOf(item=Text(body=True, empty=True), what="a program and its arguments"),
            "The program and its arguments, run without a shell in the workspace. It reads the "
            "arguments of the call from stdin as JSON; what it prints is the result.",
            ["./tools/ticket.sh", "--json"],
        ),
        key(
            "env",
            next(one.reader for one in SERVER.keys if one.name == "env"),
            "Variables that this tool alone sees; `${NAME}` takes a value from the runner's.",
            {"TICKET_TOKEN": "${TICKET_TOKEN}"},
        ),
        key(
            "read_only",
            Flag(),
            "Your word that it changes nothing: calls of one reply then run together, mode plan "
            "leaves it to the rules, and a call that a kill cut off is made again.",
            True,
        ),
        key("timeout", Duration(), "Longest call, at most `limits.tool`; unset: that.", "30s"),
    ),
    required=("description", "input_schema"),
    expects="a map such as {description: Reads a ticket., input_schema: {type: object}, python: "
    "ci_tools:ticket}",
    check=_whole,
)

CUSTOM_TOOLS = MapOf(
    value=TOOL,
    what="tools",
    key_pattern=OWN_TOOL,
    key_words="a name of letters, digits, `-` and `_`, a letter first, at most 64",
    key_check=tool_name,
)
