"""Specs that put a secret where a stranger and the network are."""

from __future__ import annotations

from typing import Any

import pytest

from runner.core.exposure import exposures
from runner.core.rule_advice import advice
from runner.core.spec import EnvSpec, InputSpec, SandboxSpec, TaskSpec

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
    assert "the network and GH_TOKEN" in line
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


def test_what_looks_like_a_secret_should_be_named_as_one() -> None:
    """A variable that tools get is shown when they print it."""
    (line,) = told(env=GIVEN)
    assert line == "`env.pass: GH_TOKEN` looks like a secret: name it in `secrets`, too"
    assert told(env=GIVEN, secrets=("GH_TOKEN",)) == []
