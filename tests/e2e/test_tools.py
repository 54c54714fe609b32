"""The built-in tools in a whole run: what they do, together and in order, and how they fail."""

from __future__ import annotations

import pytest

from runner.adapters.journal import read_log
from runner.core.fold import fold
from runner.core.messages import Assistant
from tests.e2e.desk import Desk, Wire
from tests.e2e.wires import results
from tests.servers import D, Tool, X

pytestmark = pytest.mark.warm

READ = ("Read", {"file_path": "README.md"})


def test_every_file_tool_does_its_work(desk: Desk) -> None:
    """Row 90: Write, Read, Edit, Glob, Grep and Bash, one after the other, on one file."""
    edit = {"file_path": "a/b.txt", "old_string": "one", "new_string": "two"}
    steps = [
        X(("Write", {"file_path": "a/b.txt", "content": "one\n"})),
        X(("Edit", edit)),
        X(("Glob", {"pattern": "**/*.txt"}), ("Grep", {"pattern": "two"})),
        X(("Read", {"file_path": "a/b.txt"})),
        X(("Bash", {"command": "cat a/b.txt; pwd"})),
        D("done"),
    ]
    played = desk.play(steps)
    assert desk.read("a/b.txt") == "two\n"
    outputs = {d["toolName"]: d["result"]["content"] for d in played.of("tool.execution_complete")}
    assert outputs["Glob"] == outputs["Grep"] == "a/b.txt"
    assert outputs["Read"] == "     1\ttwo"
    assert outputs["Bash"] == f"two\n{desk.workspace}"
    assert played.exit_code == 0


def test_the_task_list_is_kept(desk: Desk) -> None:
    """TaskCreate and TaskUpdate give the model its list."""
    create = {"subject": "Fix it", "description": "All tests pass."}
    update = {"taskId": "1", "status": "completed"}
    played = desk.play([X(("TaskCreate", create)), X(("TaskUpdate", update)), D("done")])
    lists = [d["result"]["content"] for d in played.of("tool.execution_complete")]
    assert all("Fix it" in text for text in lists[:2])
    assert "completed" in lists[1]


def test_reading_calls_of_one_reply_run_together(desk: Desk) -> None:
    """Row 92: all of them have started before the first is over."""
    played = desk.play([X(*[READ] * 5), D("done")])
    tool_events = [kind for kind in played.types if kind.startswith("tool.")][:10]
    assert tool_events == ["tool.execution_start"] * 5 + ["tool.execution_complete"] * 5


def test_changing_calls_run_one_after_the_other(desk: Desk) -> None:
    """Row 93: two commands that each leave marks do not interleave, and keep their order."""
    mark = "echo begin {0} >> marks; sleep 0.2; echo end {0} >> marks"
    played = desk.play([X(*[("Bash", {"command": mark.format(n)}) for n in (1, 2)]), D("done")])
    assert desk.read("marks") == "begin 1\nend 1\nbegin 2\nend 2\n"
    assert played.exit_code == 0


def test_a_write_between_two_reads_parts_them(desk: Desk) -> None:
    """Calls are walked in order: what is read after a write is what was written."""
    write = ("Bash", {"command": "echo new > README.md"})
    played = desk.play([X(READ, write, READ), D("done")])
    contents = [d["result"]["content"] for d in played.of("tool.execution_complete")]
    assert contents[:3] == ["     1\t# A small project", "(no output)", "     1\tnew"]


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (("Bash", {"command": "echo oops; exit 3"}), "failed", "oops\n[exit code 3]"),
        (("Nope", {}), "unknown_tool", "there is no tool `Nope`; the tools are"),
        (("Read", {"path": "README.md"}), "invalid_arguments", "'file_path' is a required"),
        (("Read", "{not json"), "invalid_arguments", "not valid JSON"),
        (("Read", {"file_path": "missing"}), "failed", "missing"),
        (("Read", {"file_path": "/etc/passwd"}), "denied", "/etc/passwd"),
        (("Bash", {"command": "sleep 30", "timeout": 300}), "failed", "timed out after 0.3 s"),
    ],
)
def test_a_failing_call_does_not_end_the_run(
    desk: Desk, call: tuple[str, dict[str, object]], code: str, words: str
) -> None:
    """Row 96: an error result that says why, and the next request is made."""
    played = desk.play([X(call), D("done")])
    first = played.of("tool.execution_complete")[0]
    assert (played.exit_code, first["success"], first["error"]["code"]) == (0, False, code)
    assert words in first["error"]["message"]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_nonsense_is_answered_and_charged(desk: Desk, wire: Wire) -> None:
    """Rows 96, 97, on a wire: broken JSON, an unknown tool, an id used twice, 1 MB of output."""
    desk.wire = wire
    big = ("Bash", {"command": "yes 0123456789 | head -c 1000000"})
    twice = (Tool(name="Read", arguments={"file_path": "README.md"}, id="same"),) * 2
    steps = [X(("Read", '{"file_path": "READ')), X(("Nope", {})), X(big), X(*twice), D("done")]
    played = desk.play(steps)
    assert (played.exit_code, played.result["num_llm_calls"]) == (0, 5)
    answers = results(played.requests[4])
    assert "not valid JSON" in answers[0]
    assert "there is no tool `Nope`" in answers[1]
    output = answers[2]
    assert len(output.encode()) <= 30_000
    (kept,) = (d["outputFile"] for d in played.of("tool.execution_complete") if "outputFile" in d)
    assert f"all of it is in {played.folder / kept}" in output
    assert (played.folder / kept).stat().st_size == 1_000_000
    assert (answers[3], "used twice" in answers[4]) == ("     1\t# A small project", True)
    assert played.result["total_cost_usd"] > 0
    assert len({c["costUsd"] for c in played.of("session.usage_checkpoint")}) == 1


def test_three_malformed_replies_in_a_row_end_the_run(desk: Desk) -> None:
    """Nonsense without end is an ending with a name, exit 1."""
    played = desk.play([X(("Nope", {})), X(("Read", {})), X(("Read", "["))])
    assert (played.exit_code, played.result["error_type"]) == (1, "malformed_replies")
    assert played.result["num_llm_calls"] == 3


def test_a_denied_call_is_told_to_everybody(desk: Desk) -> None:
    """A rule is missing: no effect, a reason for the model, an entry in the result, a line."""
    write = ("Write", {"file_path": "new.txt", "content": "x"})
    played = desk.play([X(write), D("done")], permission_mode="default")
    assert (played.exit_code, desk.read("new.txt")) == (0, None)
    (denied,) = played.result["permission_denials"]
    assert (denied["tool_name"], denied["tool_input"]) == write
    assert "`allowed_tools: [Edit(/new.txt)]` in the spec would" in played.tool_errors()[0]
    (decision,) = played.of("permission.completed")
    assert decision["result"]["kind"].startswith("denied-no-approval-rule")
    assert "denied" in played.stderr


def test_tools_see_neither_keys_nor_the_pipelines_files(desk: Desk) -> None:
    """The environment of a command is the allow-list and what the spec adds."""
    hidden = {"OPENAI_API_KEY": "k", "GITHUB_ENV": "/x", "ACTIONS_RUNTIME_TOKEN": "t", "EXTRA": "e"}
    desk.environ.update(hidden)
    env = {"pass": ["EXTRA"], "set": {"FIXED": "1"}}
    played = desk.play([X(("Bash", {"command": "env -0 | tr '\\0' '\\n'"})), D("done")], env=env)
    text = played.of("tool.execution_complete")[0]["result"]["content"]
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert {"PATH", "HOME", "LANG", "EXTRA", "FIXED"} <= names
    assert not names & {"OPENAI_API_KEY", "GITHUB_ENV", "ACTIONS_RUNTIME_TOKEN", "AUTOPILOT_HOME"}


def test_a_text_too_long_for_a_line_moves_to_a_file_and_back(desk: Desk) -> None:
    """A long Write: no line is over its cap, and the reader and the disk get all of it."""
    text = ("\u2713" * 50 + "\n") * 1500  # 450 KB as it stands in the log
    played = desk.play([X(("Write", {"file_path": "long.txt", "content": text})), D("done")])
    assert (played.exit_code, desk.read("long.txt")) == (0, text)
    (message, *_) = played.of("assistant.message")
    moved = message["spilled"]["/toolRequests/0/arguments/content"]
    assert (played.folder / moved).read_text() == text
    replies = [m for m in fold(read_log(played.folder)).main.messages if isinstance(m, Assistant)]
    assert replies[0].calls[0].arguments == {"file_path": "long.txt", "content": text}
