"""ToolSearch in whole runs: a definition is in a request only once it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import Desk, Played
from tests.e2e.test_mcp import ODD_SERVER, odd
from tests.e2e.test_resume import go
from tests.servers import D, T, X

pytestmark = pytest.mark.warm

HARMLESS = "mcp__odd__harmless"
LOAD = ("ToolSearch", {"query": f"select:{HARMLESS}"})


@pytest.fixture
def asked(tmp_path: Path) -> Desk:
    """A desk whose model is a server that keeps the requests."""
    usual = {"mcp_servers": {"odd": ODD_SERVER}, "allowed_tools": ["mcp__odd"]}
    return Desk(folder=tmp_path, wire="openai", defaults={**usual, "tool_search": "on"})


def tools_in(request: dict[str, Any]) -> list[str]:
    """The names of the tools a request defines, in their order."""
    return [tool["function"]["name"] for tool in request["tools"]]


def of_servers(request: dict[str, Any]) -> list[str]:
    """Those of them that are of servers."""
    return [name for name in tools_in(request) if name.startswith("mcp__")]


def answers(played: Played) -> list[tuple[str, bool, str]]:
    """Every call as it ended, one after the other: its tool, whether it went well, what it said."""
    return [
        (
            d["toolName"].rpartition("__")[2],
            d["success"],
            d["result"]["content"] if d["success"] else d["error"]["message"],
        )
        for d in played.of("tool.execution_complete")
    ]


def test_a_definition_is_in_the_request_after_the_search(asked: Desk) -> None:
    """A call before it is an error that names ToolSearch, and the same call works after it; what
    is loaded stands behind what was there before."""
    played = asked.play([X(odd("harmless")), X(LOAD), X(odd("harmless")), D("done")])
    assert played.exit_code == 0
    first, second, third, last = map(tools_in, played.requests)
    assert not of_servers(played.requests[0])
    assert first == second
    assert third == last == [*first, HARMLESS]
    by_name = {t["function"]["name"]: t["function"] for t in played.requests[0]["tools"]}
    assert f"  {HARMLESS}\n" in by_name["ToolSearch"]["description"]
    early, search, late = answers(played)[:3]
    assert early == (
        "harmless",
        False,
        f"{HARMLESS} is not loaded yet: call ToolSearch with `select:{HARMLESS}` first",
    )
    assert search[:2] == ("ToolSearch", True)
    assert late == ("harmless", True, "hello")
    assert played.of("tool_search.activated") == [{"strategy": "select", "toolNames": [HARMLESS]}]


def test_what_was_loaded_is_there_after_a_resume(asked: Desk) -> None:
    """In the first request of the part that goes on, and it can be called."""
    first = go(asked, [X(LOAD), T("half")], "--session-id", "s", max_autopilot_continues=0)
    assert of_servers(first.requests[0]) == []
    again = go(asked, [X(odd("harmless")), D("done")], "--resume", "s")
    assert again.exit_code == 0
    assert [of_servers(request) for request in again.requests] == [[HARMLESS]] * 2
    assert ("harmless", True, "hello") in answers(again)


def test_a_server_that_is_always_loaded_is_exempt(asked: Desk) -> None:
    """Its tools are in each request from the start, and those of another server are not."""
    servers = {"odd": {**ODD_SERVER, "alwaysLoad": True}, "other": ODD_SERVER}
    played = asked.play([X(odd("harmless")), D("done")], mcp_servers=servers)
    assert answers(played)[0] == ("harmless", True, "hello")
    first, last = map(of_servers, played.requests)
    assert first == last
    assert HARMLESS in first
    assert {name.split("__")[1] for name in first} == {"odd"}


@pytest.mark.parametrize("setting", ["off", "auto"])
def test_few_definitions_are_shown_from_the_start(asked: Desk, setting: str) -> None:
    """Switched off, and by default where they take little of the window; a search has nothing to
    find then and says so."""
    played = asked.play([X(LOAD), X(odd("harmless")), D("done")], tool_search=setting)
    assert HARMLESS in of_servers(played.requests[0])
    search, call = answers(played)[:2]
    assert search == (
        "ToolSearch",
        False,
        "no tool is kept back in this run: all of them are shown already",
    )
    assert call == ("harmless", True, "hello")
