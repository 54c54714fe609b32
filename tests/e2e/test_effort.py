"""`effort` through the command: what reaches the provider, and what is said when it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.desk import Desk, Wire
from tests.servers import D, X

pytestmark = pytest.mark.warm

READ = ("Read", {"file_path": "README.md"})
SENT: dict[str, Any] = {
    "anthropic": ("thinking", {"type": "enabled", "budget_tokens": 4096}),
    "gemini": ("thinkingConfig", {"thinkingBudget": 4096, "includeThoughts": True}),
}


@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
def test_effort_is_in_every_request(desk: Desk, wire: Wire) -> None:
    """Row 119: `effort: high` reaches the provider in its own words, call after call."""
    desk.wire = wire
    played = desk.play([X(READ), D("done")], effort="high")
    assert played.exit_code == 0, played.stderr
    key, value = SENT[wire]
    bodies = [body.get("generationConfig", body) for body in played.requests]
    assert bodies[0][key] == value
    if wire == "gemini":  # Anthropic's reply had no thinking to go on from
        assert bodies[1][key] == value


def test_unset_effort_is_not_in_the_request(desk: Desk) -> None:
    """Row 119: and the model is the one that was named."""
    desk.wire = "anthropic"
    (body,) = desk.play([D("done")]).requests
    assert body["model"] == "claude-sonnet-4-5"
    assert not {"thinking", "output_config", "reasoning_effort"} & body.keys()


def test_effort_the_model_does_not_take_is_said_once(desk: Desk) -> None:
    """Rows 61, 119: dropped with one warning in the log, on stderr and on the stream, however
    many calls are made."""
    desk.wire = "openai"
    steps = [X(READ), X(READ), D("done")]
    played = desk.play(steps, "--output-format", "stream-json", effort="high")
    assert played.exit_code == 0, played.stderr
    assert not any("reasoning_effort" in body for body in played.requests)
    (warning,) = played.of("session.warning")
    assert {key: warning[key] for key in ("warningType", "message")} == {
        "warningType": "parameter_left_out",
        "message": "openai/gpt-4o-mini takes no `effort`: it was not sent",
    }
    assert played.stderr.count(warning["message"]) == 1
    told = [line for line in played.stream if line.get("subtype") == "informational"]
    assert [(line["content"], line["level"]) for line in told] == [(warning["message"], "warning")]


def test_an_effort_that_there_is_not_is_refused(desk: Desk) -> None:
    """Exit 2, and the levels that there are."""
    played = desk.play([], effort="hard")
    assert (played.exit_code, played.has_session) == (2, False)
    assert "effort: " in played.stderr
    assert "xhigh" in played.stderr
