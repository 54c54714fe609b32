"""Replies that no sane model gives: each is paid for, answered, and ends nothing by itself."""

from __future__ import annotations

import pytest

from tests.e2e.desk import Desk
from tests.servers import D, Tool, Usage, X

USAGE = Usage(input_tokens=700, output_tokens=300)
CENT = {"input_per_mtok": 10, "output_per_mtok": 10}
DEEP = '{"file_path": ' + "[" * 900 + "]" * 900 + "}"


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("Read", '{"file_path": "README.md", "offset": 1e400}', "1e400 is out of range"),
        ("Read", '{"file_path": "README.md", "offset": NaN}', "NaN is not JSON"),
        ("Read", DEEP, "nested deeper than"),
        ("Read", '{"file_path": "\\ud800"}', "is not a valid path"),
        ("Grep", '{"pattern": "\\ud800"}', "surrogate"),
        ("::error::\n" + "x" * 5_000, "{}", "there is no tool"),
    ],
    ids=["infinite", "no number", "deep", "half a character", "half a pattern", "no tool"],
)
def test_nonsense_in_a_call_is_charged_and_answered_and_the_run_goes_on(
    desk: Desk, name: str, arguments: str, answer: str
) -> None:
    """The call fails with a reason, its reply costs what it cost, and the task is completed."""
    played = desk.play(
        [X(Tool(name=name, arguments=arguments), usage=USAGE), D("done", usage=USAGE)],
        max_budget_usd=1,
        pricing=CENT,
    )
    assert played.exit_code == 0, played.stderr
    assert played.result["total_cost_usd"] == 0.02
    failed = played.of("tool.execution_complete")[0]
    assert not failed["success"]
    assert answer in failed["error"]["message"]
    assert "inside the runner" not in failed["error"]["message"]
    assert "Traceback" not in played.stderr
    assert "\n::" not in played.stderr
