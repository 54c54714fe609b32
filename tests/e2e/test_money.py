"""Money through the command: who is priced how, what a false report does, what is said of it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from tests.e2e.desk import Desk, Wire
from tests.servers import D, F, Step, T, Usage, X

pytestmark = pytest.mark.warm

READ = ("Read", {"file_path": "README.md"})
DOLLAR = {"input_per_mtok": 1_000, "output_per_mtok": 1_000}
"""A thousand tokens are a dollar."""

COUNTS = {
    "openai": ("prompt_tokens", "completion_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount"),
}
FALSE = [-5, float("nan"), 1e30, 10**30, "many", [1]]


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini"])
def test_a_false_report_never_lowers_what_is_spent(desk: Desk, wire: Wire) -> None:
    """Negative, no number, beyond all measure, text, a list: each such call is charged what was
    reserved for it, nothing crashes, and one warning says so however often it happens."""
    desk.wire = wire
    fields = [{name: false} for name in COUNTS[wire] for false in FALSE]
    steps = [Step(tools=X(READ).tools, usage_fields=each) for each in fields]
    retry = {"max_attempts": len(steps), "max_wait": "10ms"}  # litellm cannot read some of them
    played = desk.play([*steps, D("done")], max_budget_usd=50, retry=retry)
    assert played.exit_code == 0, played.stderr
    assert "Traceback" not in played.stderr
    charges = played.of("session.usage_checkpoint")
    assert [charge["basis"] for charge in charges] == ["reserved"] * len(steps) + ["table"]
    held = [
        event["reservedCostUsd"]
        for event in (line["data"] for line in played.log)
        if "reservedCostUsd" in event
    ]
    assert [charge["costUsd"] for charge in charges[:-1]] == held[:-1]
    assert all(charge["costUsd"] > 0 for charge in charges)
    said = [w for w in played.of("session.warning") if w["warningType"] != "model_retry"]
    assert ["charged what was reserved" in warning["message"] for warning in said] == [True]
    assert said[0]["message"] in played.stderr
    assert played.result["cost_basis"] == "mixed"
    assert played.result["total_cost_usd"] == pytest.approx(sum(c["costUsd"] for c in charges))


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (T("hi", usage=Usage(output_tokens=100)), "none, even if the provider billed more"),
        (T("hi", usage=Usage(output_tokens=9_000)), "at most $7.10 over the cap"),
    ],
    ids=["within", "over"],
)
def test_the_last_word_says_how_far_the_bill_can_be_over_the_cap(
    desk: Desk, step: Step, told: str
) -> None:
    """What was charged, and what the reports stayed below the reservations, against the cap."""
    keys = {"pricing": DOLLAR, "max_budget_usd": 2, "max_output_tokens": 300, "autopilot": False}
    played = desk.play([step], **keys, system_prompt="Hi.", tools=[])
    assert f"overshoot  {told}" in played.stderr
    over = Decimal(str(played.result["max_overshoot_usd"]))
    assert (over > 0) == (step.usage.output_tokens > 300)
    assert over >= Decimal(str(played.result["total_cost_usd"])) - 2


def test_a_provider_that_reports_too_little_is_told_of_too(desk: Desk) -> None:
    """Reports of next to nothing leave the charges low, but not the overshoot: each call may
    have been billed what was reserved for it."""
    keys = {"pricing": DOLLAR, "max_budget_usd": 2, "max_output_tokens": 300, "system_prompt": "H"}
    tiny = Usage(input_tokens=1, output_tokens=1)
    steps = [X(READ, usage=tiny)] * 6 + [D("done", usage=tiny)]
    played = desk.play(steps, **keys, tools=["Read"])
    assert played.exit_code == 0, played.stderr
    held = sum(Decimal(str(t["reservedCostUsd"])) for t in played.of("assistant.turn_start"))
    assert played.result["total_cost_usd"] < 0.02
    assert Decimal(str(played.result["max_overshoot_usd"])) == held - 2
    assert "over the cap, if the provider billed more" in played.stderr


def test_every_model_is_charged_at_its_own_price(desk: Desk) -> None:
    """The price of a fallback counts from its first call on, and the totals add up by model."""
    desk.wire = "openai"
    other, usage = "openai/my-spare", Usage(input_tokens=100, output_tokens=100)
    prices = {
        "openai/my-own": {"input_per_mtok": 10, "output_per_mtok": 20},
        other: {"input_per_mtok": 1000, "output_per_mtok": 2000},
    }
    played = desk.play(
        [X(READ, usage=usage), F(503), X(READ, usage=usage), D("done", usage=usage)],
        model="openai/my-own",
        fallback_models=[other],
        pricing=prices,
        max_budget_usd=100,
    )
    assert played.exit_code == 0, played.stderr
    spent = {model: used["costUSD"] for model, used in played.result["modelUsage"].items()}
    assert spent == {"openai/my-own": 0.003, other: 0.6}
    assert played.result["total_cost_usd"] == 0.603
    assert played.result["cost_basis"] == "spec"


def test_a_fallback_without_a_price_is_refused_where_there_is_a_budget(desk: Desk) -> None:
    """Row 87: exit 78 before any request, with the model that needs a price."""
    desk.wire = "openai"
    keys = {"model": "openai/my-own", "fallback_models": ["openai/my-spare"]}
    priced = {"openai/my-own": DOLLAR}
    played = desk.play([], **keys, pricing=priced, max_budget_usd=1)
    assert (played.exit_code, played.requests) == (78, [])
    assert "`openai/my-spare` is unknown" in played.result["errors"][0]
    assert "add `pricing: {openai/my-spare: {" in played.result["errors"][0]


def test_a_wrong_price_is_told_with_its_line(desk: Desk) -> None:
    """Exit 2 with file, line and the model it is about."""
    path = desk.spec(pricing={"openai/my-own": {"input_per_mtok": -1, "output_per_mtok": 1}})
    line = path.read_text().splitlines().index('   "input_per_mtok": -1,') + 1
    done = desk.call("run", str(path))
    assert done.returncode == 2
    assert f"task.yaml:{line}: pricing.openai/my-own.input_per_mtok: " in done.stderr


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"max_budget_usd": 2}, "$2.00: a call that might cost more than is left"),
        ({}, "no bound: `max_turns` is not set; set `max_budget_usd`"),
        # 3 dollars in and 15 out a million: a window of 200,000 and 10,000 out are 0.75; and 0.90
        # where writing to the cache at 3.75 is dearer. Six calls of two attempts.
        ({"max_turns": 3}, "no bound: sub-agents have turns of their own; set `max_budget_usd`"),
        (
            {
                "max_turns": 3,
                "max_autopilot_continues": 2,
                "compaction": {"enabled": False},
                "limits": {"max_subagents": 0},
            },
            "$10.80: no `max_budget_usd`: at most 6 model calls, each 2 attempts",
        ),
        (
            {
                "max_turns": 3,
                "web_search": {"provider": "brave"},
                "allowed_tools": ["WebSearch"],
            },
            "no bound: every search of the web is paid for; set `max_budget_usd`",
        ),
        (
            {"max_turns": 3, "model": "openai/my-own", "disallowed_tools": ["Agent"]},
            "no bound: no price of openai/my-own",
        ),
    ],
    ids=["budget", "nothing", "agents", "turns", "searches", "no price"],
)
def test_the_plan_says_the_worst_case(desk: Desk, keys: dict[str, Any], told: str) -> None:
    """Of the whole run: the budget, else what the other caps allow, else that there is no end."""
    usual = {"model": "anthropic/claude-sonnet-4-5", "max_output_tokens": 10_000}
    path = desk.spec(**{**usual, "retry": {"max_attempts": 2}, **keys})
    shown = desk.call("plan", str(path))
    (line,) = [line for line in shown.stdout.splitlines() if line.startswith("  worst case")]
    assert told in line
    as_json = json.loads(desk.call("run", str(path), "--dry-run", "--output-format", "json").stdout)
    assert ("usd" in as_json["worstCase"]) == told.startswith("$")
