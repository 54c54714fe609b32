"""Which secrets a run has, and which of them can be masked."""

from __future__ import annotations

import pytest

from runner.adapters import secret_values as sv
from runner.core.events import Check
from runner.core.spec import EnvSpec, InputSpec, TaskSpec

TOKEN = "tok-7Hq9Zr4Wm2xY8vB3"
SPEC = TaskSpec(name="n", prompt="p", model="openai/gpt-4o-mini", secrets=("DEPLOY",))


def test_secrets_are_those_of_the_spec_and_the_keys_of_providers() -> None:
    """The model's key, a fallback's, one named by hand, and whatever is called a key."""
    environ = dict.fromkeys(
        ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MINE", "DEPLOY", "HOME"), TOKEN
    )
    spec = TaskSpec(
        name="n",
        prompt="p",
        model="openai/x",
        fallback_models=("anthropic/y",),
        api_key_env="MINE",
        secrets=("DEPLOY", "UNSET"),
    )
    names = ("DEPLOY", "MINE", "ANTHROPIC_API_KEY", "OPENAI_API_KEY")
    assert sv.secret_names(spec, environ) == names
    assert sv.names_to_forget(spec, environ) == names


def test_a_key_that_litellm_reads_itself_is_left_to_it() -> None:
    """Of an unknown provider: it is masked, and not taken away."""
    spec = TaskSpec(name="n", prompt="p", model="bedrock/x", secrets=("DEPLOY",))
    environ = {"AWS_SECRET_ACCESS_KEY": TOKEN, "DEPLOY": TOKEN}
    assert sv.secret_names(spec, environ) == ("DEPLOY", "AWS_SECRET_ACCESS_KEY")
    assert sv.names_to_forget(spec, environ) == ("DEPLOY",)


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (TOKEN, True),
        ("hunter2!", True),
        ("correcthorse", True),
        ("abcdef", True),
        ("abcde", False),
        ("true", False),
        ("", False),
        ("xxxxxxxxxx", False),
        ("Production", False),
        ("session_id", False),
        ("acceptEdits", False),
    ],
)
def test_sec11_a_value_that_innocent_text_holds_is_not_masked(value: str, masked: bool) -> None:
    """It is short, a common word, or a word of our own records."""
    environ = {"DEPLOY": value}
    mask = sv.mask_of(SPEC, environ)
    assert bool(mask) == masked
    assert len(sv.unmasked(SPEC, environ)) == int(not masked and value != "")
    assert all(check.ok for check in sv.checks(SPEC, environ))


def test_the_check_says_what_is_masked() -> None:
    """Names, and never values."""
    environ = {"DEPLOY": "abc", "OPENAI_API_KEY": TOKEN}
    detail = "masked: OPENAI_API_KEY; too ordinary to be masked: DEPLOY"
    assert sv.checks(SPEC, environ) == [Check(name="secrets", ok=True, detail=detail)]
    assert sv.checks(TaskSpec(name="n", prompt="p", model="m"), {}) == []


def test_only_prose_of_a_spec_may_hold_a_secret() -> None:
    """There it is masked; anywhere else it would change what is run, so it is refused."""
    spec = TaskSpec(
        name="n",
        prompt=f"a {TOKEN}",
        model="m",
        inputs={"x": InputSpec(default=TOKEN)},
        env=EnvSpec(set={"T": TOKEN}),
        secrets=("DEPLOY",),
    )
    masked = sv.masked_spec(spec, sv.mask_of(spec, {"DEPLOY": TOKEN}))
    assert (masked.prompt, masked.inputs["x"].default) == ("a ***", "***")
    assert masked.env == spec.env
    (check,) = sv.checks(spec, {"DEPLOY": TOKEN})
    assert not check.ok
    assert "DEPLOY stands in `env`" in check.detail
    assert TOKEN not in check.detail
