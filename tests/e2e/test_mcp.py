"""MCP servers in whole runs: real ones from npm, and one in Python that misbehaves on request."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import Desk, Played
from tests.mcp_servers import EVERYTHING, FILESYSTEM, HERE, ODD
from tests.servers import D, T, X

pytestmark = pytest.mark.warm

ODD_SERVER: dict[str, Any] = {"command": sys.executable, "args": [str(ODD)]}


def odd(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """A call of a tool of the Python server."""
    return f"mcp__odd__{name}", arguments


def answers(played: Played) -> list[tuple[str, bool, str]]:
    """Every call in the order asked: its tool without the server, whether it went well, what it
    said."""
    return [
        (
            d["toolName"].rpartition("__")[2],
            d["success"],
            d["result"]["content"] if d["success"] else d["error"]["message"],
        )
        for d in sorted(played.of("tool.execution_complete"), key=lambda d: str(d["toolCallId"]))
    ]


def warnings(played: Played) -> dict[str, str]:
    """The last warning of each type."""
    return {d["warningType"]: d["message"] for d in played.of("session.warning")}


@pytest.fixture
def npm() -> None:
    """The servers from npm; `.ci/run` installs them."""
    if not EVERYTHING.exists():
        pytest.skip("no MCP servers here: npm ci --prefix tests/mcp_servers")


@pytest.mark.usefixtures("npm")
def test_the_published_servers_work_behind_the_walls(desk: Desk) -> None:
    """Row 117: tools of two servers are named `mcp__SERVER__TOOL` and can be called; a write that
    no rule allows is denied, and init tells the state of each server."""
    servers = {
        "every": {"command": "node", "args": [str(EVERYTHING), "stdio"], "required": True},
        "files": {"command": "node", "args": [str(FILESYSTEM), str(desk.workspace)]},
        "gone": {"command": "no-such-program"},
    }
    steps = [
        X(
            ("mcp__every__echo", {"message": "hello"}),
            ("mcp__every__trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
            ("mcp__every__get-tiny-image", {}),
            ("mcp__every__get-sum", {"a": "no number"}),
            ("mcp__files__read_text_file", {"path": str(desk.workspace / "README.md")}),
            ("mcp__files__read_text_file", {"path": "/etc/hostname"}),
            ("mcp__files__write_file", {"path": str(desk.workspace / "x"), "content": "x"}),
        ),
        D("done"),
    ]
    played = desk.play(
        steps,
        "--output-format",
        "stream-json",
        mcp_servers=servers,
        allowed_tools=["mcp__every", "mcp__files__read_text_file"],
        add_dirs=[str(HERE)],  # commands see no other folder in /tmp, should the checkout be there
        sandbox=None,
    )
    found = answers(played)
    by_tool = {name: (ok, text) for name, ok, text in found if name != "read_text_file"}
    reads = [(ok, text) for name, ok, text in found if name == "read_text_file"]
    assert by_tool["echo"] == (True, "Echo: hello")
    assert by_tool["trigger-long-running-operation"][0]
    assert "[image image/png, about" in by_tool["get-tiny-image"][1]
    assert not by_tool["get-sum"][0]
    assert "Invalid" in by_tool["get-sum"][1] or "number" in by_tool["get-sum"][1]
    assert reads[0] == (True, "# A small project\n")
    assert not reads[1][0]
    assert not by_tool["write_file"][0]
    assert desk.read("x") is None
    assert played.stream[0]["mcp_servers"] == [
        {"name": "every", "status": "connected"},
        {"name": "files", "status": "connected"},
        {"name": "gone", "status": "failed"},
    ]
    assert "there is no program 'no-such-program'" in warnings(played)["mcp_server_failed"]
    assert played.exit_code == 0


def test_a_slow_call_a_dead_server_and_floods_are_error_results(desk: Desk) -> None:
    """A call is cut at `limits.tool`; a server that dies is connected to again, its open call is
    of unknown outcome and not repeated; noise and long answers harm nothing."""
    steps = [
        X(odd("slow", seconds=30), odd("flood", size=100_000), odd("odd_text")),
        X(odd("die"), odd("slow", seconds=0)),
        D("done"),
    ]
    played = desk.play(
        steps, mcp_servers={"odd": ODD_SERVER}, allowed_tools=["mcp__odd"], limits={"tool": "5s"}
    )
    slow, flood, text, died, again, _ = answers(played)
    assert slow[1:] == (
        False,
        "mcp__odd__slow did not answer within 5 s and was given up; whether it had its effect is "
        "not known",
    )
    assert flood[1]
    assert len(flood[2]) < 31_000
    assert "\x1b" in text[2]  # the model gets what was said; the terminal does not
    assert "\x1b]0" not in played.stderr
    assert not [line for line in played.stderr.splitlines() if line.startswith("::")]
    assert not died[1]
    assert "whether the call had its effect is not known" in died[2]
    assert again == ("slow", True, "waited")
    assert {"mcp_server_lost", "mcp_server_back"} <= set(warnings(played))
    assert played.result["mcp_servers"] == [{"name": "odd", "status": "connected"}]
    log = next(played.folder.glob("mcp/odd.log"))
    assert log.stat().st_size == 1024 * 1024
    assert played.exit_code == 0


def test_reading_tools_run_together_and_others_do_not(desk: Desk) -> None:
    """Row 94: with `readOnlyHint` two calls of one reply wait at the same time."""
    steps = [X(odd("alone"), odd("alone")), X(odd("together"), odd("together")), D("done")]
    played = desk.play(steps, mcp_servers={"odd": ODD_SERVER}, allowed_tools=["mcp__odd"])
    assert [text for _, _, text in answers(played)][:4] == ["1", "1", "2", "2"]


def test_a_hint_gives_no_permission(desk: Desk) -> None:
    """What a server says of its tool allows nothing: without a rule the call is denied."""
    played = desk.play([X(odd("together")), D("done")], mcp_servers={"odd": ODD_SERVER})
    (denied, _) = answers(played)
    assert denied[:2] == ("together", False)
    request = played.of("permission.requested")[0]["permissionRequest"]
    assert (request["kind"], request["serverName"], request["readOnly"]) == ("mcp", "odd", True)


def test_a_tool_that_changes_is_withdrawn(desk: Desk) -> None:
    """A description that changes while the run goes on: the tool is an error from then on, and
    what was changed is never shown to the model."""
    steps = [X(odd("harmless"), odd("change"), odd("harmless")), D("done")]
    played = desk.play(steps, mcp_servers={"odd": ODD_SERVER}, allowed_tools=["mcp__odd"])
    first, _, second, _ = answers(played)
    assert first == ("harmless", True, "hello")
    assert second[:2] == ("harmless", False)
    assert "cannot be called any more" in second[2]
    assert "mcp__odd__harmless changed" in warnings(played)["mcp_tool_withdrawn"]


def test_a_secret_is_given_to_one_server_alone(desk: Desk) -> None:
    """A variable that one server gets is in no other process, not in the log, and masked in what
    the server says; a server has three descriptors, and the workspace as its folder."""
    secret = "ghp-q8Zr2kXw91LmB7vT"  # of nobody
    desk.environ["SERVICE_TOKEN"] = secret
    servers = {
        "odd": {**ODD_SERVER, "env": {"TOKEN": "${SERVICE_TOKEN}", "MODE": "${MODE:-plain}"}},
        "other": ODD_SERVER,
    }
    steps = [
        X(
            odd("surroundings"),
            ("mcp__other__surroundings", {}),
            ("Bash", {"command": "env; tr '\\0' '\\n' </proc/$PPID/environ | grep -c SERVICE"}),
        ),
        D("done"),
    ]
    played = desk.play(
        steps,
        mcp_servers=servers,
        allowed_tools=["mcp__odd", "mcp__other", "Bash"],
        add_dirs=[str(HERE)],  # as above
        sandbox=None,
    )
    own, other, bash, _ = answers(played)
    seen = json.loads(own[2])
    assert seen["env"]["TOKEN"] == "***"
    assert seen["env"]["MODE"] == "plain"
    assert seen["cwd"] == str(desk.workspace)
    assert set(seen["fds"]) == {"0", "1", "2"}
    assert "TOKEN" not in json.loads(other[2])["env"]
    assert "TOKEN" not in bash[2].replace("0\n", "")
    assert secret not in (played.folder / "events.jsonl").read_text()


def test_a_server_that_never_gets_ready_is_given_up_in_time(desk: Desk) -> None:
    """`limits.mcp_start` bounds it; the run goes on without it, with a warning, and nothing of the
    server is left."""
    servers = {"odd": {**ODD_SERVER, "args": [str(ODD), "never"]}}
    began = time.monotonic()
    played = desk.play([D("done")], mcp_servers=servers, limits={"mcp_start": "1s"})
    assert time.monotonic() - began < 20
    assert "was not ready within 1 s" in warnings(played)["mcp_server_failed"]
    assert played.exit_code == 0
    assert not running(played.folder.name)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"command": "no-such-program"}, "there is no program 'no-such-program'"),
        ({"command": sys.executable, "args": ["-c", "raise SystemExit('out of tea')"]}, "tea"),
        ({"command": "true", "env": {"A": "${NO_SUCH_VARIABLE}"}}, "NO_SUCH_VARIABLE is not set"),
        ({"type": "http", "url": "http://127.0.0.1:9/mcp"}, "MCP server odd: "),
    ],
    ids=["missing", "ends", "variable", "address"],
)
def test_a_required_server_that_is_not_there_refuses_the_run(
    desk: Desk, server: dict[str, Any], why: str
) -> None:
    """Exit 78 before the model is asked; the message names the server and what is wrong."""
    played = desk.play([T("never")], mcp_servers={"odd": {**server, "required": True}})
    assert played.exit_code == 78
    assert "MCP server odd: " in played.stderr
    assert why in played.stderr.replace("\n             ", " ")
    assert not played.of("assistant.turn_start")


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_server_with_an_address(desk: Desk, kind: str, tmp_path: Path) -> None:
    """Streamable HTTP and SSE, on loopback."""
    with served(kind) as url:
        played = desk.play(
            [X(odd("harmless")), D("done")],
            mcp_servers={"odd": {"type": kind, "url": url, "required": True}},
            allowed_tools=["mcp__odd"],
        )
    assert answers(played)[0] == ("harmless", True, "hello")


def test_a_signal_leaves_no_server_behind(desk: Desk) -> None:
    """SIGTERM in the middle of a call: the call is cancelled, the exit code is 143."""
    steps = [X(odd("slow", seconds=50)), D("done")]
    with desk.started(steps, mcp_servers={"odd": ODD_SERVER}, allowed_tools=["mcp__odd"]) as going:
        going.wait_for("tool.execution_start")
        going.process.terminate()
        played = going.finish_checked()
    assert played.exit_code == 143
    assert not running(played.folder.name)


def test_a_resumed_session_says_what_a_server_describes_otherwise(desk: Desk) -> None:
    """The hash of each description is on the log; one that is another at the resume is told."""
    steps = [T("half"), D("done")]
    desk.play(steps, mcp_servers={"odd": ODD_SERVER}, max_autopilot_continues=0)
    changed = desk.folder / "odd.py"
    changed.write_text(ODD.read_text().replace('"""Say hello."""', '"""Say hello, or else."""'))
    server = {**ODD_SERVER, "args": [str(changed)]}
    with desk.started(steps, "--continue", mcp_servers={"odd": server}) as running:
        played = running.finish()
    assert "mcp__odd__harmless is described otherwise" in warnings(played)["mcp_tool_changed"]
    assert played.exit_code == 0


def running(mark: str) -> list[str]:
    """Processes whose command line or environment has this in it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            both = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in both:
            found.append(folder.name)
    return found


class served:  # reads as a function
    """The Python server behind an address, while the block runs."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._process = subprocess.Popen(
            [sys.executable, str(ODD), self._kind, str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        return f"http://127.0.0.1:{port}/{'sse' if self._kind == 'sse' else 'mcp'}"

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.wait()
