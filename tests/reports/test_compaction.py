"""A compaction in the words of people: while it happens, and at any line of the log later."""

from __future__ import annotations

from pathlib import Path

from runner.adapters.log import Line
from runner.adapters.progress import Progress
from runner.reports.moment import moment_lines
from tests.grown import begins, fails, full, helps, read
from tests.logs import Log


def said(log: Log) -> list[str]:
    """What the progress says about these records, without padding."""
    lines: list[Line] = []
    progress = Progress(lines.append, home=Path("/nowhere"))
    for record in log.journal.records:
        progress.show(record)
    return [" ".join(line.text.split()) for line in lines if line.text]


def test_progress_says_what_a_compaction_came_to() -> None:
    """Its tokens before and after, the cost so far, and what is left of the window in each turn."""
    log = full().add(begins(), fails(), begins(), helps(5))
    told = said(read(log, 10, tokens=4_000))
    assert "compact nothing came of it: busy" in told
    assert (
        "compact a summary stands for 5 messages: about 17,000 tokens before, 3,000 now $0.00"
        in told
    )
    assert told[-2].endswith("80% of context, 5 nudges left")


def test_a_moment_knows_how_full_the_window_was() -> None:
    """Before the compaction and after it."""
    log = full()
    line = len(log.journal.records)
    log.add(begins(), helps(5))
    before = moment_lines(log.journal.records, line)
    after = moment_lines(log.journal.records, line + 2)
    assert before is not None
    assert after is not None
    assert any(" of 20,000 tokens" in text and "summary" not in text for text in before)
    assert any("of 20,000 tokens; a summary stands for 5 messages" in text for text in after)
