"""Functions of the host program as tools: called in its process, under the rules of the task."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Any

import pytest

from runner import Session, SpecError, Tool, load_spec, run
from tests.e2e.desk import Desk
from tests.servers import D, X

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}


def tool(name: str, function: Any, **keys: Any) -> Tool:
    """A tool that takes an id, and needs no other rule."""
    keys = {"allowed": True, "input_schema": SCHEMA, **keys}
    return Tool(name=name, description=f"The tool {name}.", function=function, **keys)


def played(desk: Desk, calls: list[tuple[str, dict[str, Any]]], *tools: Tool, **keys: Any) -> Any:
    """The answers to these calls, in order: whether they went well, and what was said."""
    desk.script([X(*calls), D("done")])
    spec = load_spec(desk.spec(**keys), tools=tools)
    session = Session(spec, home=desk.home, environ=desk.environment(), tools=tools)
    ended: dict[str, tuple[bool, str]] = {}
    session.on(
        "tool.execution_complete",
        lambda event: ended.update(
            {event.tool_call_id: (event.success, (event.result or event.error).__str__())}
        ),
    )
    result = session.send_and_wait()
    assert result.exit_code == 0, result
    return [ended[f"call_0_{number}"] for number in range(len(calls))]


def test_functions_of_the_program_are_called_in_its_process(desk: Desk) -> None:
    """Both kinds, with arguments that fit; what they raise is an error result, leaving too."""
    here: list[Any] = []

    def ticket(id: str) -> dict[str, str]:
        here.append((id, threading.current_thread() is threading.main_thread()))
        return {"id": id}

    async def later(id: str) -> str:
        await asyncio.sleep(0)
        return f"later {id}"

    async def leaves(id: str) -> None:
        sys.exit(3)

    def fails(id: str) -> None:
        raise KeyError(id)

    tools = [tool(f.__name__, f) for f in (ticket, later, leaves, fails)]
    said = played(desk, [(t.name, {"id": "7"}) for t in tools] + [("ticket", {})], *tools)
    assert here == [("7", False)]
    assert [ok for ok, _ in said] == [True, True, False, False, False]
    assert json.dumps({"id": "7"}) in said[0][1]
    assert "later 7" in said[1][1]
    assert "RuntimeError: it left with sys.exit(3)" in said[2][1]
    assert "KeyError: '7'" in said[3][1]
    assert "'id' is a required property" in said[4][1]


def test_a_function_needs_a_rule_too(desk: Desk) -> None:
    """`allowed` brings one; rules of the spec name it, and those that deny come first."""
    called: list[str] = []
    tools = [tool("free", called.append, allowed=False), tool("kept", called.append)]
    calls = [(t.name, {"id": "7"}) for t in tools]
    said = played(desk, calls, *tools, disallowed_tools=["kept(id:7)"])
    assert [ok for ok, _ in said] == [False, False]
    assert "`allowed_tools: [free]` in the spec would" in said[0][1]
    assert "rule `kept(id:7)` denies it" in said[1][1]
    assert called == []


def test_a_function_that_takes_too_long_is_given_up(desk: Desk) -> None:
    """A coroutine is cancelled; a thread goes on alone, and nobody waits for it."""
    ended: list[str] = []
    over = threading.Event()

    async def waits(id: str) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")

    tools = [
        tool("waits", waits, timeout_s=0.2),
        tool("blocks", lambda id: over.wait(60), timeout_s=0.2),
    ]
    began = time.monotonic()
    said = played(desk, [(t.name, {"id": "7"}) for t in tools], *tools)
    over.set()
    assert time.monotonic() - began < 30
    assert ended == ["cancelled"]
    for (ok, text), one in zip(said, tools, strict=True):
        assert not ok
        assert f"{one.name} did not end within 0.2 s and was given up" in text


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"name": "Bash"}, SpecError, "Bash is a tool of the runner"),
    ({"name": "my tool"}, SpecError, "not a name of letters"),
    ({"description": " "}, SpecError, "the text is empty"),
    ({"input_schema": {"type": "array"}}, SpecError, "the arguments must be an object"),
    ({"input_schema": {"type": 5}}, SpecError, "this is no JSON Schema"),
    ({"function": "ticket"}, TypeError, "not a function"),
    ({"timeout_s": 0}, ValueError, "a number of seconds above 0"),
]


@pytest.mark.parametrize(("keys", "kind", "told"), WRONG)
def test_a_tool_that_cannot_be_is_refused_at_once(
    keys: dict[str, Any], kind: type[Exception], told: str
) -> None:
    """As in a spec, before anything runs."""
    good: dict[str, Any] = {
        "name": "ticket",
        "description": "d",
        "input_schema": SCHEMA,
        "function": print,
    }
    with pytest.raises(kind) as refused:
        Tool(**{**good, **keys})
    assert told in str(refused.value)


def test_two_tools_of_one_name_are_a_mistake(desk: Desk) -> None:
    """Also when one of them is the task's; and so is a function without its description."""
    one = tool("ticket", print)
    own = {"ticket": {"description": "d", "input_schema": SCHEMA, "command": ["true"]}}
    desk.script([D("done")])
    for keys, tools in (({}, [one, one]), ({"custom_tools": own}, [one])):
        with pytest.raises(ValueError, match="two tools of the name ticket"):
            run(load_spec(desk.spec(**keys)), home=desk.home, tools=tools)
    with pytest.raises(TypeError, match=r"runner\.Tool"):
        run(load_spec(desk.spec()), home=desk.home, tools=[print])  # type: ignore[list-item]
