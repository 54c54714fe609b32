"""What stderr says while a run happens: one line for each thing, and a last word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.adapters.log import Line
from runner.adapters.progress import Progress
from runner.core.endings import Ending
from runner.core.events import (
    Abort,
    Check,
    Event,
    RunnerHeartbeat,
    RunnerVerifyStart,
    SessionError,
    SessionInfo,
    SessionWarning,
    ToolError,
    ToolExecutionComplete,
)
from tests.sample_run import (
    SESSION_ID,
    end,
    reply,
    result_of,
    stamped,
    start,
    tidy_run,
    write_session,
)

NOWHERE = Path("/nowhere")
DIFF = {"files": [{}, {}], "lines_added": 6, "lines_removed": 4, "patch": "/s/patch.diff"}


def watched(
    events: list[Event],
    ending: Ending | None = None,
    *,
    quiet: bool = False,
    home: Path = NOWHERE,
    **extra: Any,
) -> list[Line]:
    """Everything that is said about a run."""
    said: list[Line] = []
    progress = Progress(said.append, home=home, quiet=quiet)
    records = stamped(events)
    for record in records:
        progress.show(record)
    progress.close(result_of(records, ending, **extra))
    return said


def texts(lines: list[Line]) -> list[str]:
    """The words, without padding."""
    return [" ".join(line.text.split()) for line in lines if line.text]


def test_a_run_is_a_header_a_line_for_each_turn_and_call_and_a_last_word() -> None:
    """Turns, calls, denials and nudges each have one line with cost and what is left."""
    why = "no rule allows it in mode default; `allowed_tools: [Bash]` in the spec would"
    assert texts(watched(tidy_run()))[:-1] == [
        "tidy model scripted:replies.yaml workspace a copy of /src "
        f"caps 5 tool-use turns, $0.50, 2m, 5 nudges session {SESSION_ID}",
        "turn 1 I look first. $0.0053 5 turns, $0.4947, 1m56s, 5 nudges left",
        "ok Read a.py 0.2s",
        "turn 2 $0.0106 4 turns, $0.4894, 1m52s, 5 nudges left",
        f"denied Bash rm -rf build {why}",
        "turn 3 It seems fine. $0.0159 3 turns, $0.4841, 1m48s, 5 nudges left",
        "nudge 1 of 5: the reply called no tool, and the task is not marked complete",
        "turn 4 $0.0212 3 turns, $0.4788, 1m45s, 4 nudges left",
        "ok task_complete All tidy. 0.2s",
    ]


def test_the_last_word_names_the_ending_and_where_everything_is(tmp_path: Path) -> None:
    """Ending, exit code, turns, cost and its basis, changes, session, folder, workspace, patch."""
    folder = write_session(tmp_path, tidy_run())
    last = watched(tidy_run(), home=tmp_path, workspace_diff=DIFF)[-1]
    assert last.text == (
        "\nsuccess, exit code 0"
        "\n  turns      2 tool-use turns of 5, 4 model calls, 1 nudge"
        "\n  cost       $0.0212 of $0.50 (prices from the spec)"
        "\n  overshoot  none, even if the provider billed more tokens than it reported"
        "\n  time       17s"
        "\n  denied     1 call (Bash)"
        "\n  changed    2 files, +6 -4"
        f"\n  session    {SESSION_ID}"
        f"\n  folder     {folder}"
        "\n  workspace  /home/session/workspace (a copy)"
        "\n  patch      /s/patch.diff"
    )


def test_the_last_word_on_a_failure_says_why_and_what_to_do() -> None:
    """Cause and advice follow the ending when the run did not succeed."""
    ending = Ending(subtype="error_max_turns", message="Reached maximum number of turns (5)")
    last = watched(tidy_run(), ending)[-1]
    assert last.text.splitlines()[1:4] == [
        "error_max_turns, exit code 3",
        "  cause      Reached maximum number of turns (5)",
        "  to do      raise `max_turns` or split the task",
    ]
    assert last.level == "error"


def test_a_run_without_a_session_still_has_a_last_word() -> None:
    """Ending, cause and advice are all there is when nothing could be recorded."""
    ending = Ending(
        subtype="error_during_execution", error_type="preflight", message="cannot write /nowhere"
    )
    (last,) = watched([], ending)
    assert last.text == (
        "\nerror_during_execution: preflight, exit code 78"
        "\n  cause      cannot write /nowhere"
        "\n  to do      `autopilot doctor SPEC` checks it again without a run"
    )


def test_quiet_leaves_the_last_word() -> None:
    """Nothing but the final block is said when quiet."""
    (last,) = watched(tidy_run(), quiet=True)
    assert last.text.splitlines()[0] == "success, exit code 0"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            SessionWarning(warning_type="model_retry", message="attempt 1 failed; again in 2.0 s"),
            "retry attempt 1 failed; again in 2.0 s",
        ),
        (SessionWarning(warning_type="no_diff", message="no git"), "warning no git"),
        (SessionInfo(info_type="x", message="a note"), "info a note"),
        (SessionError(error_type="quota", message="no\ncredit"), "error no credit"),
        (
            RunnerVerifyStart(attempt=1, commands=("make test", "make lint")),
            "checks make test; make lint",
        ),
        (Abort(reason="remote_command", cause="SIGTERM"), "stop SIGTERM: closing what is open"),
        (
            RunnerHeartbeat(phase="tools: Bash", elapsed_s=61.2),
            "waiting tools: Bash, 1m01s into the run",
        ),
    ],
)
def test_whatever_is_out_of_the_ordinary_is_named_in_its_first_word(
    event: Event, said: str
) -> None:
    """Retries, warnings, errors, checks, stops and heartbeats have a line of their own."""
    assert texts(watched([*start(), event]))[1:-1] == [said]


def test_a_failed_check_is_told_with_its_remedy() -> None:
    """Each preflight check that failed has a line; one that passed has none."""
    checks = (
        Check(name="git", ok=True, detail="/usr/bin/git"),
        Check(name="key", ok=False, detail="OPENAI_API_KEY is not set; set it"),
    )
    assert texts(watched(start(checks=checks)))[1:-1] == [
        "error key: OPENAI_API_KEY is not set; set it"
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("failed", "failed"),
        ("timeout", "failed"),
        ("cancelled", "stopped"),
        ("not_run", "not run"),
    ],
)
def test_a_call_that_did_not_go_well_says_how(code: Any, said: str) -> None:
    """The outcome is the first word of the line, the last line of the error its last."""
    failed = ToolExecutionComplete(
        tool_call_id="c1",
        tool_name="Bash",
        success=False,
        turn_id="0",
        error=ToolError(message="more\nexit code 1", code=code),
    )
    lines = watched([*start(), *reply(0, "", ("c1", "Bash", {"command": "make"})), failed, end(0)])
    assert texts(lines)[2] == f"{said} Bash exit code 1"


def test_an_invented_tool_has_one_line_however_it_is_called() -> None:
    """A name of many lines and characters is told in one short line."""
    error = ToolError(message="there is no such tool", code="unknown_tool")
    name = "a\n::error::b" + "c" * 500
    call = ToolExecutionComplete(
        tool_call_id="c", tool_name=name, success=False, turn_id="0", error=error
    )
    said = next(line for line in watched([*start(), call]) if line.event == "tool")
    assert "\n" not in said.text
    assert len(said.text) < 200


def test_turns_are_groups_that_are_closed_before_the_last_word() -> None:
    """Each turn opens a group and closes it, also when the run stops in the middle of one."""
    whole = [line.group for line in watched(tidy_run()) if line.group]
    cut = [line.group for line in watched([*start(), *reply(0, "x")]) if line.group]
    assert whole == ["open", "close"] * 4
    assert cut == ["open", "close"]


def test_a_line_carries_its_numbers_for_machines() -> None:
    """What is left of each cap is a number beside the words."""
    turn = next(line for line in watched(tidy_run()) if line.event == "turn")
    assert turn.fields == {
        "id": 1,
        "text": "I look first.",
        "spent_usd": 0.0053,
        "turns_left": 5,
        "usd_left": 0.4947,
        "seconds_left": 116.0,
        "nudges_left": 5,
    }
