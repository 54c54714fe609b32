"""Specs that put a secret where a stranger and the network are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.core.exposure import exposures
from runner.core.rule_advice import advice
from runner.core.spec import (
    CustomToolSpec,
    EnvSpec,
    InputSpec,
    McpSandboxSpec,
    McpServerSpec,
    SandboxSpec,
    TaskSpec,
)

STRANGE = {"title": InputSpec(untrusted=True)}
GIVEN = EnvSpec(pass_=("GH_TOKEN",))
ALL_THREE: dict[str, Any] = {
    "inputs": STRANGE,
    "env": GIVEN,
    "secrets": ("GH_TOKEN",),
    "allowed_tools": ("Bash(git *)",),
}


def told(**keys: Any) -> list[str]:
    return list(exposures(TaskSpec(name="n", prompt="p", model="m", **keys)))


def test_a_stranger_a_secret_and_the_network_are_too_much() -> None:
    """All three together are named, and what they are."""
    (line,) = told(**ALL_THREE)
    assert "`title` is untrusted" in line
    assert "commands may reach the network, and GH_TOKEN can be had" in line
    spec = TaskSpec(name="n", prompt="p", model="m", **ALL_THREE)
    assert line in advice(spec)


@pytest.mark.parametrize(
    "less",
    [
        {"inputs": {"title": InputSpec()}},
        {"env": EnvSpec(pass_=("CI",))},
        {"sandbox": SandboxSpec(network=("deny",))},
        {"permission_mode": "plan"},
        {"allowed_tools": ("Read",)},
        {"tools": ("Read", "Grep")},
        {"disallowed_tools": ("Bash",)},
        {"ask_tools": ("Bash",)},
    ],
)
def test_two_of_the_three_are_fine(less: dict[str, Any]) -> None:
    """No stranger, no secret, or no network."""
    assert told(**{**ALL_THREE, **less}) == []


@pytest.mark.parametrize(
    "more",
    [
        {"allowed_tools": (), "permission_mode": "bypassPermissions"},
        {"env": EnvSpec(set={"DB_PASSWORD": "x"})},
        {"sandbox": SandboxSpec(network=("example.test",))},
        {"disallowed_tools": ("Bash(curl *)",)},
        {"tools": ("Bash",)},
    ],
)
def test_other_ways_to_have_all_three(more: dict[str, Any]) -> None:
    """A mode, a value in the spec, a listed host, a rule that leaves most commands."""
    assert len(told(**{**ALL_THREE, **more})) == 1


REMOTE = McpServerSpec(
    type="http",
    url="https://tracker.test/mcp",
    headers={"Authorization": "Bearer ${TRACKER_TOKEN}"},
)
LOCAL = McpServerSpec(command="server", env={"HUB_TOKEN": "${HUB_TOKEN}", "LEVEL": "1"})
ASKED: dict[str, Any] = {"inputs": STRANGE, "allowed_tools": ("mcp__hub__search",)}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"mcp_servers": {"hub": REMOTE}},
            "the MCP server `hub` may reach the network, and TRACKER",
        ),
        ({"mcp_servers": {"hub": REMOTE}}, "TRACKER_TOKEN, `Authorization` can be had"),
        ({"mcp_servers": {"hub": LOCAL}}, "`hub` may reach the network, and HUB_TOKEN can be had"),
        (
            {
                "mcp_servers": {"hub": replace(LOCAL, sandbox=McpSandboxSpec(mode="off"))},
                "sandbox": SandboxSpec(network=("deny",)),
            },
            "the MCP server `hub` may reach the network",
        ),
        (
            {"mcp_servers": {"hub": REMOTE}, "allowed_tools": (), "permission_mode": "auto"},
            "commands, WebFetch and the MCP server `hub` may reach the network",
        ),
        ({"mcp_servers": {"hub": LOCAL}, "allowed_tools": ("mcp__hub",)}, "HUB_TOKEN"),
        ({"mcp_servers": {"hub": LOCAL}, "allowed_tools": ("mcp__hub__*",)}, "HUB_TOKEN"),
        (
            {
                "sandbox": SandboxSpec(),
                "allowed_tools": ("Bash(git *)", "WebFetch(domain:docs.test)"),
                "env": GIVEN,
            },
            "commands and WebFetch may reach the network, and GH_TOKEN",
        ),
    ],
)
def test_servers_and_the_web_are_ways_out_and_servers_hold_secrets(
    keys: dict[str, Any], words: str
) -> None:
    """A server with its own key needs no command to give it to a stranger."""
    assert words in "".join(line for line in told(**{**ASKED, **keys}) if "untrusted" in line)


OWN = CustomToolSpec(
    description="d", input_schema={}, command=("x",), env={"LEVEL": "1", "T": "${TICKET_TOKEN}"}
)


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({}, 1),
        ({"allowed_tools": ()}, 0),
        ({"sandbox": SandboxSpec(network=("deny",))}, 0),
        ({"custom_tools": {"ticket": replace(OWN, env={"LEVEL": "1"})}}, 0),
    ],
)
def test_a_tool_of_the_task_is_a_way_out_and_holds_its_secrets(
    keys: dict[str, Any], count: int
) -> None:
    """As commands are: behind the same walls, with variables of its own."""
    given = {"inputs": STRANGE, "allowed_tools": ("ticket",), "custom_tools": {"ticket": OWN}}
    found = told(**{**given, **keys})
    assert len(found) == count
    assert all("the tool `ticket` may reach the network, and TICKET_TOKEN" in f for f in found)


@pytest.mark.parametrize(
    "keys",
    [
        {"inputs": {}},
        {"allowed_tools": ()},
        {"allowed_tools": ("mcp__other__search",)},
        {"disallowed_tools": ("mcp__hub",)},
        {"permission_mode": "plan"},
        {"sandbox": SandboxSpec(network=("deny",))},
        {"mcp_servers": {"hub": replace(LOCAL, env={"LEVEL": "1"})}},
    ],
)
def test_a_server_that_cannot_be_asked_or_has_nothing_exposes_nothing(keys: dict[str, Any]) -> None:
    """Nor does one that stays behind the walls of commands without a network."""
    assert told(**{**ASKED, "mcp_servers": {"hub": LOCAL}, **keys}) == []


def test_what_looks_like_a_secret_should_be_named_as_one() -> None:
    """A variable that tools get is shown when they print it."""
    (line,) = told(env=GIVEN)
    assert line == "`env.pass: GH_TOKEN` looks like a secret: name it in `secrets`, too"
    assert told(env=GIVEN, secrets=("GH_TOKEN",)) == []
