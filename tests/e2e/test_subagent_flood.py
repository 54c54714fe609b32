"""A sub-agent that says far too much."""

from __future__ import annotations

import pytest

from tests.e2e.desk import Desk
from tests.e2e.test_subagents import answers, asks
from tests.servers import D, T, X

pytestmark = pytest.mark.warm


def test_an_answer_that_floods_is_cut_as_every_output_is(desk: Desk) -> None:
    """The agent that started it is told head and tail; a line of the log stays within its bound."""
    desk.wire = "openai"
    played = desk.play([X(asks("flood")), T("x" * 600_000), D("ok")])
    assert played.exit_code == 0, played.stderr
    (answer,) = answers(played)
    assert len(answer) < 100_000
    lines = (played.folder / "events.jsonl").read_bytes().splitlines()
    assert max(map(len, lines)) <= 256 * 1024
