"""Time and MCP servers: progress of a long call, deadlines, starts that never end, kills."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import Desk
from tests.e2e.test_mcp import ODD_SERVER, answers, odd, running, warnings
from tests.mcp_servers import EVERYTHING, HERE, ODD
from tests.servers import D, T, X

pytestmark = pytest.mark.warm

NEVER: dict[str, Any] = {"command": sys.executable, "args": [str(ODD), "never"]}
LONG = "mcp__every__trigger-long-running-operation"


@pytest.fixture
def every() -> dict[str, Any]:
    """The server from npm; `.ci/run` installs it."""
    if not EVERYTHING.exists():
        pytest.skip("no MCP servers here: npm ci --prefix tests/mcp_servers")
    return {"command": "node", "args": [str(EVERYTHING), "stdio"], "required": True}


def test_the_progress_of_a_long_call_is_shown_while_it_goes_on(
    desk: Desk, every: dict[str, Any]
) -> None:
    """One `tool.execution_progress` for each step the server tells of, on the stream alone."""
    played = desk.play(
        [X((LONG, {"duration": 0.6, "steps": 3})), D("done")],
        "--output-format",
        "events",
        mcp_servers={"every": every},
        allowed_tools=["mcp__every"],
        add_dirs=[str(HERE)],
    )
    shown = [line["data"] for line in played.stream if line["type"] == "tool.execution_progress"]
    told = [one["progressMessage"].strip() for one in shown]
    assert told[:2] == ["1 of 3", "2 of 3"]
    assert "tool.execution_progress" not in (played.folder / "events.jsonl").read_text()
    assert answers(played)[0][1]


def test_a_long_call_is_cut_by_the_limit_of_tools(desk: Desk, every: dict[str, Any]) -> None:
    """The server is still there, and its next call goes well."""
    played = desk.play(
        [
            X((LONG, {"duration": 40, "steps": 2})),
            X(("mcp__every__echo", {"message": "still here"})),
            D("done"),
        ],
        mcp_servers={"every": every},
        allowed_tools=["mcp__every"],
        limits={"tool": "2s"},
    )
    (_, ok, text), echo, _ = answers(played)
    assert not ok
    assert "did not answer within 2 s" in text
    assert echo == ("echo", True, "Echo: still here")
    assert "mcp_server_lost" not in warnings(played)


def test_the_time_of_the_run_cuts_a_call(desk: Desk) -> None:
    """The run ends as one whose time is up, within the grace, and nothing is left of the server."""
    began = time.monotonic()
    played = desk.play(
        [X(odd("slow", seconds=50)), D("done")],
        mcp_servers={"odd": ODD_SERVER},
        allowed_tools=["mcp__odd"],
        timeout="6s",
    )
    assert time.monotonic() - began < 30
    assert played.exit_code == 9
    assert len(played.of("tool.execution_start")) == 1
    assert not running(played.folder.name)


def test_the_time_of_the_run_cuts_a_start(desk: Desk) -> None:
    """Also when `limits.mcp_start` would wait longer."""
    played = desk.play([T("never")], mcp_servers={"odd": NEVER}, timeout="3s")
    assert played.exit_code == 9
    assert not played.of("assistant.turn_start")
    assert not running(played.folder.name)


def test_a_required_server_that_never_gets_ready_refuses_the_run(desk: Desk) -> None:
    """Exit 78 once `limits.mcp_start` is over, and the model was not asked."""
    played = desk.play(
        [T("never")], mcp_servers={"odd": {**NEVER, "required": True}}, limits={"mcp_start": "1s"}
    )
    assert played.exit_code == 78
    assert "was not ready within 1 s (`limits.mcp_start`)" in " ".join(played.stderr.split())
    assert not played.of("assistant.turn_start")
    assert not running(played.folder.name)


def test_a_server_that_is_killed_is_connected_to_again(desk: Desk, tmp_path: Path) -> None:
    """By somebody else, in the middle of a call: that call is of unknown outcome, the next one
    goes well, and both are told."""
    steps = [X(odd("slow", seconds=50)), X(odd("harmless")), D("done")]
    with desk.started(steps, mcp_servers={"odd": ODD_SERVER}, allowed_tools=["mcp__odd"]) as going:
        going.wait_for("tool.execution_start")
        for number in running(str(ODD)):
            if going.folder.name in _environment(number):
                os.kill(int(number), signal.SIGKILL)
        played = going.finish_checked()
    killed, second, _ = answers(played)
    assert not killed[1]
    assert "it went while the call was under way" in killed[2]
    assert second == ("harmless", True, "hello")
    assert {"mcp_server_lost", "mcp_server_back"} <= set(warnings(played))
    assert json.dumps(played.result["mcp_servers"]) == '[{"name": "odd", "status": "connected"}]'


def _environment(number: str) -> str:
    try:
        return Path(f"/proc/{number}/environ").read_text(errors="replace")
    except OSError:
        return ""
