"""The first message of a stream, and that every tool it names answers a call."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.e2e.desk import Desk
from tests.e2e.test_mcp import ODD_SERVER
from tests.mcp_servers import ODD
from tests.servers import D, X

pytestmark = pytest.mark.warm

CALLS: dict[str, dict[str, Any]] = {
    "WebFetch": {"url": "http://127.0.0.1:9/", "prompt": "What is there?"},
    "WebSearch": {"query": "anything"},
    "TaskCreate": {"subject": "Look", "description": "Look around."},
    "TaskUpdate": {"taskId": "1", "status": "completed"},
    "ToolSearch": {"query": "select:mcp__odd__harmless"},
    "Skill": {"skill": "no-such-skill"},
    "AskUserQuestion": {"questions": []},
}


def test_init_comes_first_and_says_what_the_run_has(desk: Desk) -> None:
    """Row 55: session, model, tools, folder, mode, servers with their states, and skills."""
    desk.write(".claude/skills/look/SKILL.md", "---\ndescription: Looks.\n---\nLook.\n")
    servers = {"odd": ODD_SERVER, "never": {"command": sys.executable, "args": [str(ODD), "no"]}}
    played = desk.play([D("done")], "--output-format", "stream-json", mcp_servers=servers)
    init = played.stream[0]
    assert (init["type"], init["subtype"]) == ("system", "init")
    assert init["session_id"] == played.folder.name
    assert init["model"].startswith("scripted:")
    assert init["cwd"] == str(desk.workspace)
    assert init["permissionMode"] == "acceptEdits"
    assert init["mcp_servers"] == [
        {"name": "never", "status": "failed"},
        {"name": "odd", "status": "connected"},
    ]
    assert "mcp__odd__harmless" in init["tools"]
    assert init["skills"] == ["look"]


def test_every_tool_that_is_named_answers(desk: Desk) -> None:
    """Row 91: with a result, or with an error that says what is wrong; one that is denied as a
    whole is not named."""
    played = desk.play(
        [*(X(call) for call in CALLS.items()), D("done")],
        "--output-format",
        "stream-json",
        disallowed_tools=["Agent"],
        allowed_tools=["WebSearch"],
    )
    named = set(played.stream[0]["tools"])
    assert set(CALLS) - {"WebSearch"} <= named
    assert "Agent" not in named
    found = {d["toolName"]: d for d in played.of("tool.execution_complete")}
    assert set(CALLS) <= set(found)
    for name in CALLS:
        said = found[name]
        assert said["success"] or len(said["error"]["message"]) > 20
    assert found["TaskCreate"]["success"]
    assert "web_search" in found["WebSearch"]["error"]["message"]
    assert played.exit_code == 0
