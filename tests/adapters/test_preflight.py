"""The checks before the first paid call: what they find, and what they say to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.adapters import preflight
from runner.core.events import Check
from runner.core.spec import AutoModeSpec, SandboxSpec, TaskSpec, VerifySpec, WorkspaceSpec

ENDPOINT = "http://127.0.0.1:1/v1"


def found(name: str, environ: Mapping[str, str], **keys: Any) -> Check:
    """The check of this name for a task with these keys."""
    task: dict[str, Any] = {"name": "t", "prompt": "x", "model": "anthropic/claude-sonnet-4-5"}
    checks = preflight.run_checks(TaskSpec(**{**task, **keys}), environ)
    return next(check for check in checks if check.name == name)


@pytest.mark.parametrize(
    ("keys", "ok", "detail"),
    [
        (
            {},
            False,
            "ANTHROPIC_API_KEY is not set; set it, or name another with `api_key_env`",
        ),
        (
            {"model": "gpt-4o"},
            False,
            "OPENAI_API_KEY is not set; set it, or name another with `api_key_env`",
        ),
        (
            {"api_key_env": "MINE"},
            False,
            "MINE is not set; set it, or name another with `api_key_env`",
        ),
        (
            {"model": "openai/local", "api_base": ENDPOINT},
            True,
            "OPENAI_API_KEY is not set; `api_base` is asked without a key",
        ),
        (
            {"model": "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"},
            True,
            "not checked: litellm looks for it where this provider's is kept",
        ),
        ({"model": "scripted:replies.yaml"}, True, "none needed"),
    ],
)
def test_a_key_that_is_missing_is_named(keys: Mapping[str, Any], ok: bool, detail: str) -> None:
    """The variable is named when the model's provider is known, with or without a `/`."""
    assert found("key", {}, **keys) == Check(name="key", ok=ok, detail=detail)


def test_a_key_that_is_set_is_found() -> None:
    """The variable it came from is told, its value is not."""
    check = found("key", {"ANTHROPIC_API_KEY": "tops3cret"})
    assert check == Check(name="key", ok=True, detail="from ANTHROPIC_API_KEY")


def test_the_model_of_mode_auto_is_checked_as_well() -> None:
    """Its key, and its price when there is a budget."""
    keys: dict[str, Any] = {
        "model": "scripted:x",
        "permission_mode": "auto",
        "auto_mode": AutoModeSpec(model="openai/unheard-of"),
        "max_budget_usd": 1,
    }
    checks = preflight.run_checks(TaskSpec(name="t", prompt="x", **keys), {})
    bad = [check.detail for check in checks if not check.ok]
    assert any(detail.startswith("OPENAI_API_KEY is not set") for detail in bad)
    assert any("the price of `openai/unheard-of` is unknown" in detail for detail in bad)


@pytest.mark.parametrize("spelt", ["anthropic/claude-sonet-4-5", "claude-sonet-4-5"])
def test_a_misspelt_model_is_refused_with_its_neighbours(spelt: str) -> None:
    """A model that no table knows fails the check when nothing else vouches for it."""
    check = found("model", {}, model=spelt)
    assert not check.ok
    assert "anthropic/claude-sonnet-4-5" in check.detail


def test_a_budget_needs_a_price() -> None:
    """A cap on a model without a price is refused, and a price in the spec makes up for it."""
    check = found("price", {}, model="openai/local", api_base=ENDPOINT, max_budget_usd=1)
    assert check == Check(
        name="price",
        ok=False,
        detail="the price of `openai/local` is unknown, so `max_budget_usd` cannot be kept; "
        "add `pricing: {input_per_mtok, output_per_mtok}`",
    )


def test_a_workspace_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    """The folder is named when it went away after the spec was read."""
    gone = tmp_path / "gone"
    check = found("workspace", {}, workspace=WorkspaceSpec(path=str(gone)))
    detail = f"{gone} is not a folder; set `workspace` to one that exists"
    assert check == Check(name="workspace", ok=False, detail=detail)


@pytest.mark.parametrize(
    ("user", "sandbox", "ok"),
    [
        (0, SandboxSpec(mode="off", reason="r"), False),
        (0, SandboxSpec(mode="off", reason="r", container=True), True),
        (0, SandboxSpec(), True),  # whether a tier can be had is found out later
        (1000, SandboxSpec(mode="off", reason="r"), True),
    ],
)
def test_root_is_allowed_everything_behind_a_wall_alone(
    monkeypatch: pytest.MonkeyPatch, user: int, sandbox: SandboxSpec, ok: bool
) -> None:
    """`bypassPermissions` without a sandbox is refused to root, unless the job has a container."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    check = found("permission_mode", {}, permission_mode="bypassPermissions", sandbox=sandbox)
    assert check.ok == ok
    assert found("permission_mode", {}, permission_mode="acceptEdits", sandbox=sandbox).ok


def test_programs_that_are_missing_are_no_failure(tmp_path: Path) -> None:
    """Without git and ripgrep a run goes on, and the checks say what it goes without."""
    environ = {"PATH": str(tmp_path)}
    assert [found(name, environ) for name in ("git", "ripgrep")] == [
        Check(name="git", ok=True, detail="not found: no diff of the workspace will be made"),
        Check(name="ripgrep", ok=True, detail="not found: Grep uses its slower fallback"),
    ]


def test_an_order_to_compact_is_refused_where_a_success_must_be_proved() -> None:
    """It runs no check and gives no object, so exit 0 would say what nobody looked at."""
    gated: dict[str, Any] = {
        "verify": (VerifySpec(run="true"),),
        "output_schema": {"type": "object"},
    }
    refused = found("prompt", {}, prompt="/compact the names", **gated)
    assert (refused.ok, refused.detail) == (
        False,
        "`/compact` does no work that could meet `verify`, `output_schema`; leave it out of this "
        "run, as by `--set verify=[]`",
    )
    assert found("prompt", {}, prompt="/compact").ok
    tasks = preflight.run_checks(TaskSpec(name="t", prompt="x", model="m", **gated), {})
    assert "prompt" not in [check.name for check in tasks]
