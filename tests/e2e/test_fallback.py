"""Another model takes over from an overloaded one, with the installed command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.desk import Desk
from tests.servers import D, F

pytestmark = pytest.mark.warm


def test_a_second_model_answers_for_an_overloaded_one(desk: Desk) -> None:
    """529 for the first model: the second is asked at the same endpoint, and a person sees it."""
    desk.wire = "openai"
    played = desk.play([F(529, "Overloaded"), D("done")], fallback_models=["openai/gpt-4.1"])
    assert played.exit_code == 0
    assert played.requests[1]["model"] == "gpt-4.1"
    (change,) = played.of("session.model_change")
    assert change["newModel"] == "openai/gpt-4.1"
    assert "openai/gpt-4.1 takes over: provider_unavailable" in played.stderr.replace("\n", " ")
    assert list(played.result["modelUsage"]) == ["openai/gpt-4.1"]


def test_a_fallback_can_be_tried_without_a_provider(desk: Desk) -> None:
    """Each scripted model has a file of its own."""
    spare = Path(desk.folder) / "spare.yaml"
    finish = {"name": "task_complete", "arguments": {"summary": "spare"}}
    spare.write_text(json.dumps({"replies": [{"tools": [finish]}]}))
    played = desk.play(
        [F(503, "down")], "--output-format", "json", fallback_models=["scripted:spare.yaml"]
    )
    assert (played.exit_code, played.result.get("result")) == (0, "spare"), played.stderr


def test_a_fallback_without_a_key_is_refused_before_anything_runs(desk: Desk) -> None:
    """The variable is named, as for the first model."""
    played = desk.play([D("done")], fallback_models=["groq/llama-3.3-70b-versatile"])
    assert played.exit_code != 0
    assert "GROQ_API_KEY is not set" in played.stderr
