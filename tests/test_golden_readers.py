"""Other people's parsers read every golden log: those of the Copilot and the Claude SDK."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from claude_agent_sdk import ResultMessage
from claude_agent_sdk._internal.message_parser import parse_message
from copilot.generated.session_events import SessionEvent, SessionEventType

from runner.adapters.journal import read_log
from runner.core.views import ClaudeView

GOLDEN = Path(__file__).parent / "golden"
SCENARIOS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_copilot_sdk_reads_every_line_of_a_golden_log(name: str) -> None:
    """Each parses into one of its classes; only `runner.*` is unknown to it."""
    for text in (GOLDEN / name / "events.jsonl").read_text().splitlines():
        line = json.loads(text)
        known = SessionEvent.from_dict(line).type is not SessionEventType.UNKNOWN
        assert known != line["type"].startswith("runner."), line["type"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_claude_sdk_reads_every_message_of_a_golden_log(name: str) -> None:
    """Each parses into one of its classes, init first, the result last."""
    view = ClaudeView(hooks=True)
    shown = [message for record in read_log(GOLDEN / name) for message in view.feed(record)]
    result = json.loads((GOLDEN / name / "result.json").read_text())
    messages = [parse_message(message) for message in json.loads(json.dumps([*shown, result]))]
    assert None not in messages
    assert shown[0]["subtype"] == "init"
    assert isinstance(messages[-1], ResultMessage)
    assert messages[-1].subtype == result["subtype"]
