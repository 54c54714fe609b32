"""Which agent a turn belongs to: in the story, the digest, and on stderr while it happens."""

from __future__ import annotations

from pathlib import Path

from runner.adapters.journal import read_log
from runner.adapters.log import Line
from runner.adapters.progress import Progress
from runner.core.events import Record
from runner.reports import show
from runner.reports.digest import Turn
from runner.reports.digesting import digest

GOLDEN = tuple(read_log(Path(__file__).parents[1] / "golden" / "subagents"))


def test_the_story_sets_in_what_sub_agents_did_under_their_names() -> None:
    """Prompt, turns and calls of each stand between the turn that started it and the answer."""
    told = [text for _, text in show.story(GOLDEN)]
    begin, end = told.index("turn 1  $0.0045, 0.0s"), told.index("turn 4  $0.0040, 0.0s")
    assert told[begin:end] == [
        "turn 1  $0.0045, 0.0s",
        "    Somebody else may look.",
        "",
        "  prompt of general-purpose",
        "      What does README.md say?",
        "",
        "  turn 2 of general-purpose  $0.0022, 0.0s",
        "    Read  README.md  (ok, 0.0s)",
        "      |      1\t# A small project",
        "    Write  notes.md  (ok, 0.0s)",
        "      | @@ -0,0 +1 @@",
        "      | +seen",
        "",
        "  turn 3 of general-purpose  $0.0021, 0.0s",
        "      It is a small project.",
        "  Agent  read the README  (ok, 0.0s)",
        "    | It is a small project.",
        "",
    ]
    assert "  end of general-purpose 2  no credit" in told


def test_the_digest_names_the_agent_of_each_turn_and_note() -> None:
    """The second of a name has a number; the id of the log is there too."""
    items = digest(GOLDEN).items
    told = [(i.agent, i.number if isinstance(i, Turn) else i.kind) for i in items]
    assert told == [
        ("", "prompt"),
        ("", 1),
        ("general-purpose", "prompt"),
        ("general-purpose", 2),
        ("general-purpose", 3),
        ("", 4),
        ("general-purpose 2", "prompt"),
        ("general-purpose 2", 5),
        ("general-purpose 2", "error"),
        ("general-purpose 2", "error"),
        ("", 6),
        ("", "completion"),
    ]
    turns = [item for item in items if isinstance(item, Turn)]
    ids = {record.agent_id for record in GOLDEN if record.agent_id}
    assert {turn.agent_id for turn in turns} == {"", *ids}


def watched(records: list[Record]) -> list[Line]:
    """What stderr says."""
    said: list[Line] = []
    progress = Progress(said.append, home=Path("/nowhere"))
    for record in records:
        progress.show(record)
    return said


def test_stderr_counts_the_turns_of_each_agent_and_keeps_the_group_open() -> None:
    """A turn of a sub-agent is within the group of the turn that started it."""
    lines = watched(list(GOLDEN))
    told = [(line.group, " ".join(line.text.split())) for line in lines[1:]]
    assert told == [
        ("open", "turn 1 Somebody else may look. $0.0045 5 nudges left"),
        (None, "turn 1 $0.0068 general-purpose"),
        (None, "ok Read README.md 0.0s general-purpose"),
        (None, "ok Write notes.md 0.0s general-purpose"),
        (None, "turn 2 It is a small project. $0.0088 general-purpose"),
        (None, "ok Agent read the README 0.0s"),
        ("close", ""),
        ("open", "turn 2 $0.0129 5 nudges left"),
        (None, "agent general-purpose 2 no credit"),
        (None, told[9][1]),
        ("close", ""),
        ("open", "turn 3 $0.0171 5 nudges left"),
        (None, "ok task_complete It is a small project."),
        ("close", ""),
    ]
    inner = [line for line in lines if line.fields.get("agent")]
    assert all(line.text.startswith("  ") for line in inner)
    assert len({line.fields["agent_id"] for line in inner}) == 2
