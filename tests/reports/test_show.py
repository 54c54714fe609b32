"""A run for people, from its log: told turn by turn, and looked into at any line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from runner.core.endings import Ending
from runner.core.events import (
    Abort,
    Check,
    Event,
    Record,
    SessionError,
    SessionInfo,
    SessionResume,
    SessionWarning,
    ToolContent,
    ToolExecutionComplete,
    ToolExecutionStart,
)
from runner.reports import show
from runner.reports.moment import moment_lines
from tests.reports.runs import checked
from tests.sample_run import (
    SESSION_ID,
    end,
    ok,
    reply,
    result_of,
    stamped,
    start,
    tidy_run,
)


def header(*arguments: Any) -> list[str]:
    """The words of the header."""
    return [text for _, text in show.header(*arguments)]


def story(records: Iterable[Record], **options: Any) -> Iterator[str]:
    """The words of the story."""
    return (text for _, text in show.story(records, **options))


def persisted(events: list[Event]) -> list[Record]:
    """The records that are in the log."""
    return [record for record in stamped(events) if record.seq is not None]


def test_the_header_says_what_the_run_came_to() -> None:
    """Ending, turns, cost, time and denials stand first."""
    assert header(result_of(stamped(tidy_run())), "tidy", SESSION_ID) == [
        "tidy: success, exit code 0",
        "  turns      2 tool-use turns, 4 model calls, 1 nudge",
        "  cost       $0.0212 (spec)",
        "  time       17s",
        "  denied     1 call: Bash rm -rf build",
        f"  session    {SESSION_ID}",
    ]


def test_the_header_of_a_failure_has_its_cause() -> None:
    """The error type and the message are told when the run did not succeed."""
    ending = Ending(
        subtype="error_during_execution", error_type="quota", message="no credit is left"
    )
    assert header(result_of(persisted(start()), ending), "tidy", SESSION_ID)[:2] == [
        "tidy: error_during_execution: quota, exit code 69",
        "  cause      no credit is left",
    ]


def test_the_header_of_a_run_without_a_result_says_so() -> None:
    """A killed or running session has no ending to tell."""
    assert header(None, "tidy", SESSION_ID) == [
        "tidy: not finished",
        f"  session    {SESSION_ID}",
    ]


def test_the_story_is_one_block_a_turn() -> None:
    """Text, calls with their arguments and results, denials with their reason, nudges."""
    assert list(story(persisted(tidy_run()))) == [
        "",
        "model      scripted:replies.yaml",
        "started    2026-01-02T03:04:05.000Z",
        "workspace  /home/session/workspace",
        "sandbox    process",
        "",
        "prompt",
        "    Tidy up.",
        "",
        "turn 1  $0.0053, 1.5s",
        "    I look first.",
        "  Read  a.py  (ok, 0.2s)",
        "    | 1\timport os",
        "",
        "turn 2  $0.0053, 1.5s",
        "  Bash  rm -rf build  (denied)",
        "    | no rule allows it in mode default; `allowed_tools: [Bash]` in the spec would",
        "",
        "turn 3  $0.0053, 1.5s",
        "    It seems fine.",
        "",
        "nudge",
        "    Go on.",
        "",
        "turn 4  $0.0053, 1.5s",
        "  task_complete  All tidy.  (ok, 0.2s)",
        "    | The task is marked complete.",
    ]


def test_long_results_are_cut_and_say_so() -> None:
    """An output shows its first and last lines, and how many are between them."""
    output = "\n".join(f"line {n}" for n in range(20))
    call = {"command": "make"}
    log = persisted(
        [*start(), *reply(0, "", ("c1", "Bash", call)), *ok("c1", "Bash", call, output, 0)]
    )
    assert list(story(log))[-5:] == [
        "    | line 1",
        "    | (15 lines more)",
        "    | line 17",
        "    | line 18",
        "    | line 19",
    ]


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (SessionWarning(warning_type="x", message="odd"), ["warning    odd"]),
        (SessionInfo(info_type="x", message="note"), ["info       note"]),
        (
            SessionError(error_type="quota", message="no\ncredit"),
            ["", "error      quota: no credit"],
        ),
        (Abort(reason="user_initiated", cause="SIGINT"), ["", "stopped    SIGINT"]),
        (
            SessionResume(
                session_id="s",
                resume_time="now",
                event_count=1,
                selected_model="m",
                carries=True,
                note="",
            ),
            ["", "resumed    now"],
        ),
    ],
)
def test_what_went_wrong_has_its_own_line(event: Event, lines: list[str]) -> None:
    """Warnings, notes, errors and stops are named."""
    log = persisted([*start(), event])
    assert list(story(log))[-len(lines) :] == lines


def test_a_failed_check_is_told() -> None:
    """A check that failed is told with its remedy, one that passed is not."""
    checks = (Check(name="git", ok=True, detail="ok"), Check(name="key", ok=False, detail="unset"))
    assert "error      key: unset" in list(story(persisted(start(checks=checks))))


def test_the_story_reads_no_further_than_it_has_told() -> None:
    """A long log is streamed: the first lines come before the last record was read."""
    read: list[Record] = []

    def reading() -> Iterator[Record]:
        for record in persisted(tidy_run()):
            read.append(record)
            yield record

    lines = story(reading())
    next(lines)
    assert len(read) == 1


def test_a_moment_is_the_state_after_that_many_lines() -> None:
    """Counters, what is open, and the rule that decides next, at a line with an open call."""
    assert moment_lines(persisted(tidy_run()), 8) == [
        "after line 8: assistant.message, 2026-01-02T03:04:09.000Z",
        "  turns      0 tool-use turns, 1 model call, 0 nudges",
        "  cost       $0.0053",
        "  left       5 tool-use turns, $0.4947, 5 nudges",
        "  history    1 message",
        "  open turn  1",
        "  pending    Read a.py (not started)",
        "  next       run the next batch (rule `tools_pending`: the reply asks for tools)",
    ]


def test_a_moment_inside_a_model_call_shows_its_reservation() -> None:
    """Money that an open call may cost is told apart from money that is spent."""
    lines = moment_lines(persisted(tidy_run()), 6)
    assert lines is not None
    assert lines[2] == "  cost       $0.00, $0.10 reserved"


def test_a_moment_knows_the_facts_that_end_a_run() -> None:
    """A completion, an abort and a failure are shown once they are recorded."""
    done = moment_lines(persisted(tidy_run()), 31)
    aborted = moment_lines(persisted([*start(), Abort(reason="user_initiated", cause="SIGINT")]), 6)
    failed = moment_lines(persisted([*start(), SessionError(error_type="quota", message="no")]), 6)
    assert done is not None
    assert aborted is not None
    assert failed is not None
    assert "  completion completed: All tidy." in done
    assert "  abort      SIGINT" in aborted
    assert "  failure    quota: no" in failed


@pytest.mark.parametrize("line", [1, 3])
def test_a_moment_before_the_prompt_has_no_next_step(line: int) -> None:
    """While a run is being prepared no rule decides."""
    lines = moment_lines(persisted(start()), line)
    assert lines is not None
    assert lines[-1] == "  next       the run is still being prepared"


def test_a_moment_past_the_end_is_none() -> None:
    """A log of so many lines has no line after its last."""
    log = persisted([*start(), *reply(0, "x"), end(0)])
    assert moment_lines(log, len(log)) is not None
    assert moment_lines(log, len(log) + 1) is None


def test_one_turn_is_shown_whole() -> None:
    """`turns` leaves out the others, and what is picked is not cut."""
    output = "\n".join(f"line {n} {'x' * 120}" for n in range(20))
    call = {"command": "make"}
    log = persisted(
        [
            *start(),
            *reply(0, "first"),
            end(0),
            *reply(1, "second", ("c1", "Bash", call)),
            *ok("c1", "Bash", call, output, 1),
            end(1),
            *reply(2, "third"),
        ]
    )
    shown = list(story(log, turns=range(2, 3), whole=True))
    assert shown[:4] == ["", "turn 2  $0.0053, 1.5s", "    second", "  Bash  make  (ok, 0.2s)"]
    assert shown[4:] == [f"    | line {n} {'x' * 120}" for n in range(20)]
    assert list(story(log, turns=range(4, 9))) == []


def test_a_diff_is_told_with_its_looks() -> None:
    """What a call changed in a file: added, removed, and where, without the file's name."""
    call = {"file_path": "a.py"}
    done = ToolExecutionComplete(
        tool_call_id="c1",
        tool_name="Edit",
        success=True,
        turn_id="0",
        result=ToolContent(
            content="Edited.", detailed_content="--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n c"
        ),
    )
    log = persisted([*start(), *reply(0, "", ("c1", "Edit", call)), _started("c1", call), done])
    assert list(show.story(log))[-5:] == [
        ("good", "  Edit  a.py  (ok)"),
        ("dim", "    | @@ -1 +1 @@"),
        ("bad", "    | -a"),
        ("good", "    | +b"),
        ("plain", "    |  c"),
    ]


def _started(call_id: str, arguments: dict[str, Any]) -> Event:
    return ToolExecutionStart(
        tool_call_id=call_id, tool_name="Edit", arguments=arguments, turn_id="0"
    )


def test_checks_are_told_with_what_failed() -> None:
    """A verification has its place in the story; only a failed check says what it said."""
    log = persisted([*start(), *checked(("tests", 1, "1 failed"), ("types", 0, "fine"))])
    assert list(show.story(log))[-5:] == [
        ("plain", ""),
        ("head", "checks, attempt 1"),
        ("bad", "  tests  (exit code 1 after 1.2s)"),
        ("plain", "    | 1 failed"),
        ("good", "  types  (passed in 1.2s)"),
    ]
