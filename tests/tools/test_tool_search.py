"""ToolSearch: definitions as the result of a call, the fact that they are loaded, and failures."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from runner.core.events import ToolSearchActivated
from runner.core.messages import ToolSpec
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.tool_search import ToolSearch
from tests.tools.bench import descriptions

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
FIND = ToolSpec(name="mcp__docs__find", description="Finds Örter.", input_schema=SCHEMA)
SEND = ToolSpec(name="mcp__mail__send", description="Sends a text.", input_schema=SCHEMA)


def built(*tools: ToolSpec, **about: str) -> ToolSearch:
    return ToolSearch(tools, descriptions(), about)


def call(tool: ToolSearch, spill: Path, **arguments: Any) -> ToolOutput:
    Draft202012Validator(dict(tool.spec.input_schema)).validate(arguments)
    context = ToolContext(
        call_id="1",
        timeout_s=1,
        max_output_bytes=30_000,
        spill_dir=spill,
        on_progress=lambda text: None,
    )
    return asyncio.run(tool.run(arguments, context))


@pytest.mark.parametrize(
    ("query", "strategy", "tools"),
    [
        (f"select:{SEND.name},{FIND.name}", "select", (SEND, FIND)),
        ("send", "keywords", (SEND,)),
    ],
)
def test_the_result_is_one_definition_a_line(
    tmp_path: Path, query: str, strategy: str, tools: tuple[ToolSpec, ...]
) -> None:
    """As a request holds them, letters as they are; the fact names the same tools."""
    output = call(built(FIND, SEND), tmp_path, query=query)
    lines = output.content.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"name": tool.name, "description": tool.description, "input_schema": SCHEMA}
        for tool in tools
    ]
    assert (FIND not in tools) or "Örter" in output.content
    names = tuple(tool.name for tool in tools)
    assert output.facts == (ToolSearchActivated(strategy=strategy, tool_names=names),)


def test_no_more_is_loaded_than_asked_for(tmp_path: Path) -> None:
    """One to five at a time; another number is no valid argument."""
    tool = built(FIND, SEND)
    output = call(tool, tmp_path, query="mcp", max_results=1)
    fact = ToolSearchActivated(strategy="keywords", tool_names=(FIND.name,))
    assert output.facts == (fact,)
    for number in (0, 6):
        with pytest.raises(ValidationError):
            call(tool, tmp_path, query="mcp", max_results=number)


@pytest.mark.parametrize(
    ("tools", "query", "why"),
    [
        ((), "find", "no tool is kept back in this run: all of them are shown already"),
        ((FIND,), "tea", "no tool fits 'tea'; the names are in this tool's description"),
        (
            (FIND,),
            "select:find",
            "no tool fits 'select:find'; the names are in this tool's description",
        ),
    ],
)
def test_a_search_without_a_find_is_an_error(
    tmp_path: Path, tools: tuple[ToolSpec, ...], query: str, why: str
) -> None:
    """It says what to do instead, and nothing is loaded."""
    with pytest.raises(ToolFailure) as failure:
        call(built(*tools), tmp_path, query=query)
    assert str(failure.value) == why


def test_the_description_lists_names_and_what_servers_say() -> None:
    """In that order, without a server that says nothing; none at all is said too."""
    listed = built(FIND, SEND, docs="Ask first.", mail="").spec.description
    assert f"  {FIND.name}\n  {SEND.name}\n  docs: Ask first." in listed
    assert "mail:" not in listed
    assert "{tools}" not in listed
    assert "There are none in this run." in built().spec.description


def test_the_request_for_permission_shows_the_search() -> None:
    """Its kind needs no rule."""
    tool = built(FIND)
    assert tool.permission({"query": "find"}) == {
        "kind": "custom-tool",
        "toolName": "ToolSearch",
        "toolDescription": tool.spec.description,
        "args": {"query": "find"},
    }


def test_names_that_are_not_loaded_are_told(tmp_path: Path) -> None:
    """Those beyond what one search loads, and those that nothing has."""
    tools = [replace(FIND, name=f"mcp__docs__t{n}") for n in range(7)]
    query = "select:" + ",".join([tools[0].name, "mcp__docs__nothing", *(t.name for t in tools)])
    lines = call(built(*tools), tmp_path, query=query).content.splitlines()
    assert [json.loads(line)["name"] for line in lines[:5]] == [t.name for t in tools[:5]]
    assert lines[5:] == [
        "Not loaded, because there were more names than one search loads: mcp__docs__t5, "
        "mcp__docs__t6. Search for them again.",
        "No tool that is kept back is called: mcp__docs__nothing.",
    ]
    one = call(
        built(*tools), tmp_path, query=f"select:{tools[0].name},{tools[1].name}", max_results=1
    )
    assert one.content.splitlines()[1].startswith("Not loaded, because there were more names")
