"""Where MCP servers run: behind the walls of the task's commands, or outside with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import Desk
from tests.e2e.test_mcp import ODD_SERVER, answers
from tests.mcp_servers import HERE
from tests.servers import D, X

pytestmark = pytest.mark.warm

REASON = "it keeps its index beside the workspace"


def listed(events: list[dict[str, Any]]) -> dict[str, tuple[str, str | None]]:
    """The tier of each server in the preflight, and the reason for having none."""
    servers = events[0]["mcpServers"]
    return {one["name"]: (one["sandbox"], one.get("sandboxReason")) for one in servers}


def test_a_server_is_behind_the_walls_of_the_task_unless_a_reason_is_given(desk: Desk) -> None:
    """One writes outside of the workspace as little as a command does; one with `sandbox: off`
    does, and the preflight says which is which and why."""
    place = desk.folder / "outside"
    servers = {
        "inside": ODD_SERVER,
        "outside": {**ODD_SERVER, "sandbox": {"mode": "off", "reason": REASON}},
    }
    steps = [
        X(
            ("mcp__inside__write", {"path": str(desk.folder / "escaped")}),
            ("mcp__inside__write", {"path": str(desk.workspace / "inside")}),
            ("mcp__outside__write", {"path": str(place)}),
        ),
        D("done"),
    ]
    played = desk.play(
        steps,
        mcp_servers=servers,
        allowed_tools=["mcp__inside", "mcp__outside"],
        add_dirs=[str(HERE)],  # commands see no other folder in /tmp, should the checkout be there
        sandbox=None,
    )
    _, written, out, _ = answers(played)
    tier = played.of("runner.preflight")[0]["sandbox"]
    if tier == "process":
        pytest.skip("no tier proves itself here")
    assert not (desk.folder / "escaped").exists()  # in /tmp it may write to a folder of its own
    assert written[2] == out[2] == "written"
    assert place.read_text() == "written"
    assert listed(played.of("runner.preflight")) == {
        "inside": (tier, None),
        "outside": ("process", REASON),
    }
    details = [check["detail"] for check in played.of("runner.preflight")[0]["checks"]]
    assert any(detail.endswith(f"without a sandbox: {REASON}") for detail in details)


def test_a_task_without_a_sandbox_has_servers_without_one(desk: Desk) -> None:
    """Nothing better is said of them than is true."""
    played = desk.play([D("done")], mcp_servers={"odd": ODD_SERVER})
    assert listed(played.of("runner.preflight")) == {"odd": ("process", None)}


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ({"command": "x", "sandbox": "off"}, "a server without a sandbox needs a reason"),
        ({"command": "x", "sandbox": {"reason": "why"}}, "a reason, and nothing that needs one"),
        ({"command": "x", "sandbox": "none"}, "sandbox"),
        (
            {"type": "http", "url": "http://a", "sandbox": {"mode": "off", "reason": "why"}},
            "a server with an address runs elsewhere",
        ),
    ],
)
def test_what_is_no_sandbox_of_a_server_is_refused(
    desk: Desk, server: dict[str, Any], told: str
) -> None:
    """With the line it stands in."""
    done = desk.call("validate", str(desk.spec(mcp_servers={"odd": server})))
    assert done.returncode == 2
    assert told in done.stderr


def test_plan_and_doctor_tell_of_the_servers_and_start_none(desk: Desk, tmp_path: Path) -> None:
    """Transport, command line or address without what may be secret, whether it is required, and
    where it runs; a program that is not there is found before the run."""
    desk.script([D("done")])
    desk.environ["TOKEN"] = secret = "t0p-s3cret-value-zz"
    trace = tmp_path / "started"
    servers = {
        "here": {"command": "sh", "args": ["-c", f"touch {trace}; echo $TOKEN"], "required": True},
        "lost": {"command": "no-such-program"},
        "loose": {
            "command": "npx",
            "args": ["some-server"],
            "env": {"PATH": str(_programs(tmp_path, "npx"))},
            "sandbox": {"mode": "off", "reason": REASON},
        },
        "net": {"type": "http", "url": "https://mcp.example.com/mcp?key=${TOKEN}"},
    }
    spec = str(desk.spec(mcp_servers=servers, secrets=["TOKEN"]))
    text = desk.call("plan", spec).stdout
    assert f"here   stdio sh -c 'touch {trace}; echo $TOKEN', required, without a sandbox" in text
    assert f"loose  stdio npx some-server, optional, without a sandbox: {REASON}" in text
    assert "net    http https://mcp.example.com/mcp?..., optional" in text
    assert "the MCP server loose is fetched at each start" in text
    planned = json.loads(desk.call("run", spec, "--dry-run", "--output-format", "json").stdout)
    assert [one["name"] for one in planned["mcpServers"]] == ["here", "loose", "lost", "net"]
    doctor = desk.call("doctor", spec)
    lost = "MCP server lost: there is no program 'no-such-program'; install it, or mend `command`"
    assert f"{lost} (the run goes on without it)" in doctor.stdout
    assert "MCP server loose: its program is there" in doctor.stdout
    assert doctor.returncode == 0
    assert secret not in text + doctor.stdout + json.dumps(planned)
    assert not trace.exists()


@pytest.mark.parametrize("command", [["run", "--dry-run"], ["doctor"]])
def test_a_required_server_whose_program_is_missing_is_no_ready_machine(
    desk: Desk, command: list[str]
) -> None:
    """Exit 78, as the run would."""
    desk.script([D("done")])
    servers = {"odd": {"command": "no-such-program", "required": True}}
    done = desk.call(*command, str(desk.spec(mcp_servers=servers)))
    assert done.returncode == 78
    assert "there is no program 'no-such-program'" in done.stdout


def _programs(folder: Path, name: str) -> Path:
    """A folder with one program in it."""
    place = folder / "bin"
    place.mkdir()
    (place / name).write_text("#!/bin/sh\nexit 1\n")
    (place / name).chmod(0o755)
    return place
