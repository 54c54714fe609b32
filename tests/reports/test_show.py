"""A run for people, from its log: told turn by turn, and looked into at any line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.core.endings import Ending
from runner.core.events import (
    Abort,
    Check,
    Event,
    Record,
    SessionError,
    SessionInfo,
    SessionWarning,
)
from runner.reports.moment import moment_lines
from runner.reports.show import header, story
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
        "  open turn  0",
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
