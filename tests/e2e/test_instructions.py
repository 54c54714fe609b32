"""The instruction files of a project reach the model, in every request and before the prompt."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.desk import Desk
from tests.servers import D, X

READ = ("Read", {"file_path": "CLAUDE.md"})


def test_instructions_come_first_in_every_request(tmp_path: Path) -> None:
    """The same bytes each time, before the prompt, with what they import; a broken import is a
    warning."""
    desk = Desk(folder=tmp_path, wire="openai")
    desk.write("CLAUDE.md", "Use tabs.\n@missing.md\n@docs/style.md\n")
    desk.write("docs/style.md", "Say please.\n")
    played = desk.play([X(READ), D("done")])
    assert played.exit_code == 0
    firsts = [next(m for m in body["messages"] if m["role"] == "user") for body in played.requests]
    assert len(firsts) == 2
    assert firsts[0] == firsts[1]
    assert "Use tabs." in json.dumps(firsts[0])
    assert "Say please." in json.dumps(firsts[0])
    log = (played.folder / "events.jsonl").read_text()
    assert '"warningType":"instructions"' in log
    assert "CLAUDE.md:2: " in log


def test_no_setting_source_means_no_instructions(tmp_path: Path) -> None:
    """`setting_sources: []` leaves the files alone."""
    desk = Desk(folder=tmp_path, wire="openai")
    desk.write("CLAUDE.md", "Use tabs.\n")
    played = desk.play([D("done")], setting_sources=[])
    assert "Use tabs." not in json.dumps(played.requests)


def test_the_plan_names_the_files_that_load(tmp_path: Path) -> None:
    """One sees it before anything is paid for."""
    desk = Desk(folder=tmp_path)
    desk.write("AGENTS.md", "Use tabs.\n")
    desk.script([D("done")])
    assert "AGENTS.md" in desk.call("plan", str(desk.spec())).stdout
