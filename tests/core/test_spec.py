"""The task spec as a value: what it is without being told, and how it travels."""

from __future__ import annotations

from decimal import Decimal

from runner.core import wire
from runner.core.spec import (
    EnvSpec,
    InputSpec,
    LimitsSpec,
    PricingSpec,
    RetrySpec,
    SandboxSpec,
    TaskSpec,
    WorkspaceSpec,
)


def test_three_keys_make_a_spec_and_the_caps_are_off() -> None:
    """Autopilot is on, five continues, no cap, when nothing else is said."""
    spec = TaskSpec(name="n", prompt="p", model="m")
    caps = (spec.max_turns, spec.max_budget_usd, spec.timeout)
    assert (spec.autopilot, spec.max_autopilot_continues, caps, spec.permission_mode) == (
        True,
        5,
        (None, None, None),
        "default",
    )


def test_a_spec_comes_back_whole_from_the_log() -> None:
    """Every key survives when a spec is recorded and read again."""
    spec = TaskSpec(
        name="n",
        prompt="p",
        model="m",
        inputs={"pr_title": InputSpec(required=True), "Other Key": InputSpec(default="d")},
        api_base="http://127.0.0.1:1",
        api_key_env="KEY",
        max_output_tokens=100,
        system_prompt="s",
        append_system_prompt="a",
        autopilot=False,
        workspace=WorkspaceSpec(path="w", isolation="copy"),
        add_dirs=("x",),
        max_turns=1,
        max_budget_usd=Decimal("0.1"),
        max_autopilot_continues=0,
        timeout=1.5,
        limits=LimitsSpec(tool=1.0, durability="off"),
        tools=(),
        allowed_tools=("Bash",),
        disallowed_tools=("Edit",),
        permission_mode="acceptEdits",
        env=EnvSpec(pass_=("CI",), set={"some_key": "v"}),
        pricing={
            "openai/x": PricingSpec(input_per_mtok=Decimal(3), output_per_mtok=Decimal("0.15"))
        },
        retry=RetrySpec(max_attempts=1, max_wait=2.0),
    )
    assert wire.decode(TaskSpec, wire.encode(spec)) == spec


def test_names_on_the_wire_are_the_yaml_keys() -> None:
    """`pass` is `pass` and no key is in camelCase when a spec is recorded."""
    env = EnvSpec(pass_=("CI",))
    encoded = wire.encode(TaskSpec(name="n", prompt="p", model="m", env=env))
    assert encoded["env"] == {"pass": ["CI"], "set": {}}
    assert [key for key in encoded if key != key.lower()] == []


def test_hosts_are_what_a_network_list_names() -> None:
    """A list is hosts; unset, `deny` and `allow` are none."""
    listed = SandboxSpec(network=("mirror.test", "10.0.0.0/8"))
    assert listed.hosts == ("mirror.test", "10.0.0.0/8")
    for network in (None, ("deny",), ("allow",)):
        assert SandboxSpec(network=network).hosts == ()
