"""A conversation that gets too long, with the installed command."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import CENT, Desk, Played
from tests.e2e.papers import check_claude_stream
from tests.servers import D, Step, T, Usage, X

pytestmark = pytest.mark.warm

READ = ("Read", {"file_path": "long.txt"})
TOO_LONG = "This model's maximum context length is 128000 tokens. Your messages are too long."


@pytest.fixture
def written(desk: Desk) -> Desk:
    """A workspace with a file of some length, and instructions that speak of summaries."""
    desk.write("long.txt", "a line of some length, again and again\n" * 200)
    desk.write("CLAUDE.md", "# When compacting\nKeep the MARKER.\n")
    return desk


def reads(tokens: int) -> Step:
    """A reply that reads the file; the request it answers had this many tokens."""
    return X(READ, usage=Usage(input_tokens=tokens))


def texts(body: dict[str, Any]) -> str:
    """The messages of a request as text."""
    return json.dumps(body["messages"], ensure_ascii=False)


def prefix(body: dict[str, Any]) -> str:
    """What comes before the conversation, up to the end of the instruction files."""
    begin, found, _ = texts(body).partition("MARKER")
    assert found
    return json.dumps([body["tools"], body.get("system")]) + begin


def compactions(played: Played) -> list[tuple[str, bool]]:
    return [(e["trigger"], e["success"]) for e in played.of("session.compaction_complete")]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_a_long_run_goes_on_with_a_summary(written: Desk, wire: Any) -> None:
    """Rows 112, 114, 120: at four fifths of the window the model table knows: a boundary, a shorter
    request that has the summary and the latest exchange; tools, system prompt and the instruction
    files are the same bytes in every request, that for the summary included."""
    written.wire = wire
    window = {"openai": 128_000, "anthropic": 200_000}[wire]
    played = written.play(
        [reads(9_000), reads(20_000), reads(window * 8 // 10), T("SUMMARY-1"), D("done")],
        "--output-format",
        "stream-json",
    )
    assert played.exit_code == 0, played.stderr
    assert compactions(played) == [("threshold", True)]
    check_claude_stream(played.stream)
    (boundary,) = [m for m in played.stream if m.get("subtype") == "compact_boundary"]
    assert boundary["compact_metadata"] == {
        "trigger": "auto",
        "pre_tokens": played.of("session.compaction_start")[0]["currentTokens"],
    }
    *_, third, _, last = played.requests
    assert len(texts(last)) < len(texts(third))
    assert "SUMMARY-1" in texts(last)
    assert "Do it." in texts(last)
    assert [m["role"] for m in last["messages"]][-2:] == [m["role"] for m in third["messages"]][-2:]
    assert len({prefix(body) for body in played.requests}) == 1
    assert played.types.count("assistant.turn_start") == 4
    assert played.result["num_llm_calls"] == 5
    assert "a summary stands for" in played.stderr


def test_the_summary_call_is_paid_under_the_cap(written: Desk) -> None:
    """Its price brings the run to the cap: no further request is made."""
    written.wire = "openai"
    dear = T("SUMMARY-1", usage=Usage(input_tokens=135_000))
    played = written.play(
        [reads(1_000), reads(1_000), reads(103_000), dear],
        pricing=CENT,
        max_budget_usd=2.4,
        max_output_tokens=2_000,
    )
    assert (played.exit_code, played.result["subtype"]) == (4, "error_max_budget_usd")
    assert compactions(played) == [("threshold", True)]
    assert len(played.requests) == 4


def test_a_context_error_is_met_once_with_a_summary(written: Desk) -> None:
    """The provider refuses: one summary, one more attempt."""
    written.wire = "openai"
    refused = Step(status=400, error=TOO_LONG)
    played = written.play([reads(100), reads(200), refused, T("SUMMARY-1"), D("done")])
    assert (played.exit_code, compactions(played)) == (0, [("context_limit_retry", True)])
    assert "SUMMARY-1" in texts(played.requests[-1])


def test_a_second_context_error_ends_the_run(written: Desk) -> None:
    """Exit 1, in the provider's words."""
    written.wire = "openai"
    refused = Step(status=400, error=TOO_LONG)
    played = written.play([reads(100), reads(200), refused, T("SUMMARY-1"), refused])
    assert (played.exit_code, played.result["error_type"]) == (1, "context_limit")
    assert "maximum context length" in played.result["errors"][0]


def test_a_file_larger_than_the_window_does_not_end_the_run(written: Desk) -> None:
    """Its head and tail are sent; the log says so."""
    written.write("long.txt", "a line of some length, again and again\n" * 5_000)
    played = written.play(
        [reads(4_000), D("done")],
        compaction={"window": 10_000},
        limits={"max_tool_output_bytes": 150_000},
    )
    assert played.exit_code == 0, played.stderr
    assert "message_cut" in [warning["warningType"] for warning in played.of("session.warning")]


def test_compaction_by_hand_of_a_session_that_goes_on(written: Desk) -> None:
    """Row 113: `/compact` as the prompt of a resumed session: the task goes on from the summary."""
    written.wire = "openai"
    written.play([reads(100), reads(200), D("done")])
    session = next((written.home / "session-state").iterdir()).name
    stream = ("--resume", session, "--output-format", "stream-json")
    with written.started([T("SUMMARY-1")], *stream, prompt="/compact the file names") as running:
        played = running.finish()
    assert (played.exit_code, compactions(played)) == (0, [("manual", True)])
    assert "the file names" in texts(played.requests[0])
    (boundary,) = [m for m in played.stream if m.get("subtype") == "compact_boundary"]
    assert boundary["compact_metadata"]["trigger"] == "manual"
    check_claude_stream(played.stream)
    with written.started([D("done")], "--resume", session, prompt="And now?") as running:
        later = running.finish()
    assert later.exit_code == 0, later.stderr
    assert "SUMMARY-1" in texts(later.requests[0])
    assert "And now?" in texts(later.requests[0])


def test_a_kill_during_the_summary_loses_nothing(written: Desk) -> None:
    """The session goes on: the summary is asked for again, and the killed call is on the bill."""
    script = [reads(4_000), reads(6_000), Step(text="SUMMARY-1", delay_s=60)]
    with written.started(script, compaction={"window": 10_000}, pricing=CENT) as running:
        running.wait_for("session.compaction_start")
        running.send(signal.SIGKILL)
        running.process.wait()
        session = running.folder.name
    written.script([*script[:2], T("SUMMARY-1"), D("done")])
    spec = written.spec(compaction={"window": 10_000}, pricing=CENT)
    done = written.call("run", str(spec), "--resume", session, "--output-format", "json")
    assert done.returncode == 0, done.stderr
    log = [json.loads(line) for line in (running.folder / "events.jsonl").read_text().splitlines()]
    ends = [e["data"] for e in log if e["type"] == "session.compaction_complete"]
    assert [end["success"] for end in ends] == [False, True]
    bases = [e["data"]["basis"] for e in log if e["type"] == "session.usage_checkpoint"]
    assert bases.count("reserved") == 1


def test_usage_of_the_window_is_an_event_of_the_stream_only(written: Desk) -> None:
    """Around each request, with its parts; nothing of it is in the log."""
    played = written.play(
        [reads(4_000), D("done")], "--output-format", "events", compaction={"window": 10_000}
    )
    shown = [e for e in played.stream if e["type"] == "session.usage_info"]
    assert len(shown) == 4
    assert {e["data"]["tokenLimit"] for e in shown} == {10_000}
    assert all(e["ephemeral"] for e in shown)
    assert "session.usage_info" not in played.types
    assert "% of context" in played.stderr


def test_a_bad_compaction_key_is_refused_with_a_hint(tmp_path: Path) -> None:
    """Every mistake with its line, before anything runs."""
    desk = Desk(folder=tmp_path)
    desk.script([D("done")])
    spec = desk.spec(compaction={"threshold": 80, "enabled": "no", "windw": 1})
    refused = desk.call("validate", str(spec))
    assert refused.returncode == 2
    said = refused.stdout + refused.stderr
    assert "compaction.threshold: must be a number above 0, at most 1" in said
    assert "80 per cent is 0.8" in said
    assert "did you mean `window`?" in said
