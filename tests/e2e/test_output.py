"""What stdout and stderr carry: the chosen format, whole, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.desk import CENT, Desk, Played
from tests.e2e.papers import check_claude_stream
from tests.servers import D, F, Step, T, Usage, X

READ = ("Read", {"file_path": "README.md"})

ENDINGS: dict[str, tuple[list[Step], dict[str, Any], int]] = {
    "success": ([D("done")], {}, 0),
    "error_max_turns": ([X(READ), X(READ)], {"max_turns": 1}, 3),
    "error_max_budget_usd": (
        [X(READ, usage=Usage(output_tokens=9000))],
        {"pricing": CENT, "max_budget_usd": 0.08, "max_output_tokens": 300},
        4,
    ),
    "error_during_execution": ([X(READ), F(400, "bad")], {}, 1),
    "error_task_incomplete": ([T("a"), T("b")], {"max_autopilot_continues": 1}, 6),
    "error_task_blocked": ([X(("task_blocked", {"reason": "no"}))], {}, 7),
    "error_timeout": ([Step(text="late", delay_s=60)], {"timeout": "1s"}, 9),
}


@pytest.mark.parametrize("subtype", ENDINGS)
def test_every_ending_closes_with_one_whole_result(desk: Desk, subtype: str) -> None:
    """Rows 38, 52, 59, 62 to 64, 66, 67: one session id, one result, last, then the exit code."""
    steps, keys, code = ENDINGS[subtype]
    played = desk.play(steps, "--output-format", "stream-json", **keys)
    check_claude_stream(played.stream)
    result = played.stream[-1]
    assert (played.exit_code, result["exit_code"], result["subtype"]) == (code, code, subtype)
    assert result == played.result
    for key in ("total_cost_usd", "usage", "num_turns", "session_id", "duration_ms", "modelUsage"):
        assert key in result
    assert result.get("result") == ("done" if subtype == "success" else None)
    assert all(text.strip() for text in result.get("errors", ["-"]))
    assert "errors" in result or subtype == "success"
    nudges = [m for m in played.of("user.message") if m.get("isAutopilotContinuation")]
    assert len(nudges) == (1 if subtype == "error_task_incomplete" else 0)


def test_the_codes_of_the_endings_differ(desk: Desk) -> None:
    """Row 66: one code per subtype, each of them in `--help` and in `exit-codes`."""
    codes = [code for _, _, code in ENDINGS.values()]
    assert len(set(codes)) == len(codes)
    help_text = desk.call("--help").stdout
    table = desk.call("exit-codes").stdout
    assert all(f"{code} " in help_text for code in codes)
    assert all(subtype in table for subtype in ENDINGS)


def play_format(desk: Desk, output_format: str, *, good: bool) -> Played:
    """The same short run in one format."""
    ending = D("the answer") if good else F(401, "bad key")
    return desk.play([X(READ, text="first"), ending], "--output-format", output_format)


def test_text_is_the_answer_alone(desk: Desk) -> None:
    """Row 70: and on an error it is nothing."""
    assert play_format(desk, "text", good=True).stdout == "the answer\n"
    failed = Desk(folder=desk.folder / "failed")
    assert play_format(failed, "text", good=False).stdout == ""


@pytest.mark.parametrize("good", [True, False])
def test_json_is_the_result_alone(desk: Desk, good: bool) -> None:
    """Row 70: one object, equal to `result.json`."""
    played = play_format(desk, "json", good=good)
    assert [json.loads(played.stdout)] == played.stream == [played.result]


def test_stream_json_has_no_pieces_unless_asked(desk: Desk) -> None:
    """Rows 60, 70: one message a line; `stream_event` only on request, and then it adds up."""
    steps = [X(READ, text="I look. " * 9), T("half"), D("done")]
    plain = desk.play(steps, "--output-format", "stream-json")
    assert "stream_event" not in [message["type"] for message in plain.stream]
    options = ("--output-format", "stream-json", "--include-partial-messages")
    partial = Desk(folder=desk.folder / "partial").play(steps, *options)
    deltas = [m["event"]["delta"] for m in partial.stream if "delta" in m.get("event", {})]
    text = "".join(delta.get("text", "") for delta in deltas)
    assert text == "I look. " * 9 + "half"


def test_events_are_the_log_and_what_is_only_shown(desk: Desk) -> None:
    """Row 13: the persisted lines are those of the log, in order; deltas only on request."""
    options = ("--output-format", "events", "--include-partial-messages")
    played = desk.play([T("half"), D("done")], *options)
    persisted = [event for event in played.stream if not event.get("ephemeral")]
    assert persisted == played.log
    shown = {event["type"] for event in played.stream if event.get("ephemeral")}
    assert shown == {"assistant.message_delta", "assistant.usage", "session.idle"}


def test_a_warning_is_a_message_too(desk: Desk) -> None:
    """A cap that trips stands in the stream as informational text."""
    steps, keys, _ = ENDINGS["error_max_turns"]
    played = desk.play(steps, "--output-format", "stream-json", **keys)
    (told,) = [m for m in played.stream if m.get("subtype") == "informational"]
    assert told["content"] == "Reached maximum number of turns (1)"
    assert told["level"] == "warning"


def test_a_reader_that_leaves_changes_no_exit_code(desk: Desk) -> None:
    """stdout is a pipe nobody reads any more: the run is the same, 0 stays 0 and 3 stays 3."""
    for name in ("success", "error_max_turns"):
        steps, keys, code = ENDINGS[name]
        one = Desk(folder=desk.folder / name)
        read, write = os.pipe()
        os.close(read)
        try:
            options = ("--output-format", "stream-json")
            with one.started(steps, *options, streams={"stdout": write}, **keys) as running:
                played = running.finish_checked()
        finally:
            os.close(write)
        assert played.exit_code == code
        assert "Traceback" not in played.stderr
        assert "Broken pipe" not in played.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_change_nothing(desk: Desk, closed: str) -> None:
    """stdin, stdout, stderr, or all of them are not even open: exit 0 and a whole log."""
    desk.script([X(READ), D("done")])
    command = desk.command("run", str(desk.spec()))
    shell = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command],
        cwd=desk.folder,
        env=desk.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert shell.returncode == 0
    papers = Played(
        home=desk.home, workspace=desk.workspace, exit_code=0, stdout="", stderr=shell.stderr
    )
    assert papers.result["subtype"] == "success"
    assert "Traceback" not in shell.stderr


def test_a_full_stdout_does_not_change_the_ending(desk: Desk) -> None:
    """The answer is lost and stderr says so; the work is done, and the code says that."""
    with (
        Path("/dev/full").open("w") as full,
        desk.started([D("x")], streams={"stdout": full}) as running,
    ):
        played = running.finish_checked()
    assert played.exit_code == 0
    assert "stdout could not be written: No space left on device" in played.stderr


def test_stderr_tells_how_it_goes_and_what_is_left(desk: Desk) -> None:
    """A line a turn and tool with cost and limits, and a last block with the next step."""
    steps, keys, _ = ENDINGS["error_max_turns"]
    played = desk.play(steps, **keys, pricing=CENT)
    for words in ("turn 1", "Read", "error_max_turns, exit code 3", "max_turns", "session"):
        assert words in played.stderr
    quiet = Desk(folder=desk.folder / "quiet").play(steps, "--quiet", **keys)
    assert "turn 1" not in quiet.stderr
    assert "error_max_turns, exit code 3" in quiet.stderr


def test_an_answer_cannot_command_a_ci_system(desk: Desk) -> None:
    """With a CI marker set, no line of stdout or stderr begins with a workflow command."""
    desk.environ["GITHUB_ACTIONS"] = "true"
    evil = "ok\n::set-output name=x::y\n##[error]no\n\x1b[31mred"
    played = desk.play([X(READ, text=evil), D(evil)])
    lines = (played.stdout + played.stderr).splitlines()
    ours = ("::group::", "::endgroup::", "::error", "::warning", "::notice")
    assert not [line for line in lines if line.startswith("::") and not line.startswith(ours)]
    assert not [line for line in lines if line.startswith("##[")]
    assert "\x1b" not in played.stdout + played.stderr
