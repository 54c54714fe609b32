"""The key `hooks`: events, matchers and commands, in the shape of Claude Code's settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, get_args

from runner.adapters.specfile.problem import INVALID, At, Invalid, printable
from runner.adapters.specfile.shapes import Key, ListOf, Record
from runner.adapters.specfile.types import Choice, Duration, Flag, Refusal, Schema, Text, mismatch
from runner.adapters.specfile.words import TOOLS, ToolRule
from runner.adapters.specfile.yaml_document import Fields, Items, Node, Scalar
from runner.core.hook_events import CANNOT_BLOCK, TOOL_EVENTS, named
from runner.core.spec import HookEvent, HookGroup, HookSpec

EVENTS: Final = tuple(get_args(HookEvent))

WITHOUT_MATCHER: Final = frozenset({"UserPromptSubmit", "Stop"})
"""Events that there is only one kind of."""

MAX_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A duration; a bare number is seconds here, as in Claude Code's settings."""

    expects: str = "a duration such as 30s, or a number of seconds"

    def read(self, node: Node, at: At) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            return Duration(expects=self.expects).read(node, at)
        if not 0 < value <= MAX_SECONDS:
            return at.refuse(node.mark, f"{value} is not between 0 and {MAX_SECONDS} seconds")
        return float(value)

    def write(self, value: Any) -> Any:
        return Duration().write(value)

    def schema(self) -> Schema:
        number = {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS}
        return {"anyOf": [number, Duration().schema()]}


def _matcher(text: str) -> Refusal | None:
    try:
        re.compile(text)
    except re.error as error:
        if text != "*":
            hint = "write names such as Edit|Write, a regular expression, or *"
            return f"not a regular expression: {error}", hint
    return None


HOOK = Record(
    cls=HookSpec,
    keys=(
        Key(
            name="type",
            reader=Choice(options=("command",), planned=("http", "mcp_tool", "prompt", "agent")),
            means="What it is: a command.",
            example="command",
        ),
        Key(
            name="command",
            reader=Text(expects="a command", body=True),
            means="The bash command; with `args`, the program itself.",
            example="./check.sh",
        ),
        Key(
            name="args",
            reader=ListOf(item=Text(body=True, empty=True), what="arguments"),
            means="The program's arguments: it is then run without a shell.",
            example=["--strict"],
        ),
        Key(
            name="if",
            reader=ToolRule(allows=False),
            means="A rule: the hook is about the calls it means.",
            example="Bash(git *)",
            field="if_",
        ),
        Key(name="timeout", reader=Limit(), means="Unset: `limits.hook`.", example="30s"),
        Key(
            name="fail_closed",
            reader=Flag(),
            means="Whether a failure of the hook, or its time limit, blocks.",
            example=True,
        ),
    ),
    planned={
        "async": "remove it; a run waits for its hooks",
        "asyncRewake": "remove it; a run waits for its hooks",
        "once": "remove it",
        "shell": "remove it; commands are run by bash",
        "statusMessage": "remove it; the command itself is shown",
    },
    expects="a map such as {type: command, command: ./check.sh}",
    required=("command",),
)

GROUP = Record(
    cls=HookGroup,
    keys=(
        Key(
            name="matcher",
            reader=Text(empty=True, check=_matcher),
            means="Names between |, or a regular expression; empty or * is all.",
            example="Edit|Write",
        ),
        Key(
            name="hooks",
            reader=ListOf(item=HOOK, what="hooks"),
            means="What is run, together.",
            example=[{"type": "command", "command": "./check.sh"}],
        ),
    ),
    expects="a map such as {matcher: Bash, hooks: [...]}",
    required=("hooks",),
)

_GROUPS = ListOf(item=GROUP, what="{matcher, hooks}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookMap:
    """Hooks by event."""

    expects: str = "a map of events to lists of {matcher, hooks}"

    def read(self, node: Node, at: At) -> Any:
        if not isinstance(node, Fields):
            return mismatch(self, node, at)
        values: dict[str, Any] = {}
        for event, entry in node.fields.items():
            here = at.key(event[:60])
            if event not in EVENTS:
                near = at.nearest(event, EVENTS)
                hint = f"did you mean {near}?" if near else f"the events are {', '.join(EVENTS)}"
                message = f"no event is called {printable(event[:60])}"
                values[event] = here.refuse(entry.mark, message, hint)
                continue
            values[event] = _read_groups(event, entry.node, here)
        return INVALID if any(isinstance(v, Invalid) for v in values.values()) else values

    def write(self, value: Any) -> Any:
        return {event: _GROUPS.write(groups) for event, groups in value.items()}

    def schema(self) -> Schema:
        return {
            "type": "object",
            "properties": {event: _GROUPS.schema() for event in EVENTS},
            "additionalProperties": False,
        }


def _read_groups(event: str, node: Node, at: At) -> Any:
    groups = _GROUPS.read(node, at)
    if isinstance(groups, Invalid) or not isinstance(node, Items):
        return groups
    read = groups
    for number, (group, where) in enumerate(zip(groups, node.entries, strict=True)):
        for refusal in _out_of_place(event, group):
            read = at.item(number).refuse(where.mark, *refusal)
    return read


def _out_of_place(event: str, group: HookGroup) -> Iterator[Refusal]:
    """What a group says that means nothing for its event."""
    if event in WITHOUT_MATCHER and group.matcher not in ("", "*"):
        yield f"{event} takes no matcher", "leave it out: there is only one kind of it"
    known = {tool.lower(): tool for tool in TOOLS}
    for name in (named(group.matcher) or ()) if event in TOOL_EVENTS else ():
        tool = known.get(name.lower(), name)
        if tool != name:
            yield f"no tool is called {printable(name)}, so the hooks never run", f"write {tool}"
    if event not in TOOL_EVENTS and any(hook.if_ for hook in group.hooks):
        hint = f"it belongs to {', '.join(e for e in EVENTS if e in TOOL_EVENTS)}"
        yield f"`if` is about tool calls, and {event} is not", hint
    if event in CANNOT_BLOCK and any(hook.fail_closed for hook in group.hooks):
        yield f"nothing can be blocked at {event}", "leave `fail_closed` out"
