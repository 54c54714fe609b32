"""Done, not done, blocked: completion is said aloud, or the run goes on."""

from __future__ import annotations

import pytest

from tests.e2e.desk import Desk, Wire
from tests.e2e.wires import tool_names
from tests.servers import D, Step, T, X

pytestmark = pytest.mark.warm

READ = ("Read", {"file_path": "README.md"})


def test_completion_ends_the_run(desk: Desk) -> None:
    """Rows 21, 22: `X,D,T`: the third reply is never asked for."""
    played = desk.play([X(READ), D("fixed"), T("never")])
    assert (played.exit_code, played.types.count("assistant.turn_start")) == (0, 2)
    assert played.of("session.task_complete") == [
        {"summary": "fixed", "success": True, "outcome": "completed"}
    ]


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_a_summary_alone_is_the_answer(desk: Desk, output_format: str) -> None:
    """Row 24: without any text the summary is the result, in every format."""
    played = desk.play([D("fixed")], "--output-format", output_format)
    assert played.result["result"] == "fixed"
    assert played.stdout == "fixed\n" if output_format == "text" else played.stream[0]


def test_the_nudge_says_what_it_must(desk: Desk) -> None:
    """Rows 25 to 27: not complete yet, stop planning, not done before all is; three no excuses."""
    played = desk.play([T("half"), D("done")])
    nudge = played.of("user.message")[1]["content"]
    for words in (
        "`task_complete` has not been called",
        "not marked complete yet",
        "stop planning and start implementing",
        "not done until everything",
        "open questions, decide",
        "an error, try to resolve it",
        "steps are left, do them first",
        "call `task_complete` now",
        "`task_blocked`",
    ):
        assert words in nudge


def test_a_nudged_model_may_work_on(desk: Desk) -> None:
    """Rows 29, 30: `T,X(Edit),D`: the edit is done; every call is a turn."""
    edit = ("Edit", {"file_path": "README.md", "old_string": "small", "new_string": "big"})
    played = desk.play([X(READ), T("hm"), X(edit), D("done")])
    assert desk.read("README.md") == "# A big project\n"
    assert (played.exit_code, played.types.count("assistant.turn_end")) == (0, 4)


def test_the_nudges_run_out(desk: Desk) -> None:
    """Rows 31, 39: cap 2, four texts: three requests, two nudges, exit 6, never complete."""
    texts = [T(f"thinking {n}") for n in range(4)]
    played = desk.play(texts, "--output-format", "events", max_autopilot_continues=2)
    assert (played.exit_code, played.result["error_type"]) == (6, "continues_exhausted")
    assert played.types.count("assistant.turn_start") == 3
    assert played.result["num_nudges"] == 2
    assert "session.task_complete" not in played.types
    assert played.stream[-1]["type"] == "session.idle"
    assert played.result["task_completed"] is False


@pytest.mark.parametrize(("cap", "requests"), [(None, 6), (0, 1)])
def test_five_nudges_unless_told_otherwise(desk: Desk, cap: int | None, requests: int) -> None:
    """Row 32: no cap set: six requests; cap 0: one."""
    texts = [T(f"thinking {n}") for n in range(10)]
    played = desk.play(texts, max_autopilot_continues=cap)
    assert (played.exit_code, played.types.count("assistant.turn_start")) == (6, requests)


def test_the_same_words_three_times_are_no_progress(desk: Desk) -> None:
    """After two nudges without effect the run stops, before the cap."""
    played = desk.play([T("I am ready.")] * 5)
    assert (played.exit_code, played.result["error_type"]) == (6, "no_progress")
    assert played.types.count("assistant.turn_start") == 3


def test_without_autopilot_nobody_is_nudged(desk: Desk) -> None:
    """Rows 33, 39: one request, no continuation, exit 0, and no `session.task_complete`."""
    played = desk.play([T("yes")], "--output-format", "events", autopilot=False)
    assert (played.exit_code, played.types.count("assistant.turn_start")) == (0, 1)
    assert len(played.of("user.message")) == 1
    assert "session.task_complete" not in played.types
    assert played.stream[-1]["type"] == "session.idle"


CONTROL = {"task_complete", "task_blocked"}


@pytest.mark.parametrize(
    ("keys", "offered"),
    [
        ({"autopilot": False}, set()),
        ({}, CONTROL),
        ({"tools": ["Read"], "disallowed_tools": ["Bash"]}, CONTROL),
    ],
)
def test_completion_is_offered_in_autopilot_and_there_always(
    desk: Desk, keys: dict[str, object], offered: set[str]
) -> None:
    """Row 34: no list takes it away; without autopilot it is not there."""
    played = desk.play([D("done") if offered else T("done")], **keys)
    names = {tool["name"] for tool in played.of("runner.preflight")[0]["tools"]}
    assert played.exit_code == 0
    assert names & CONTROL == offered
    assert "Read" in names
    assert ("Bash" in names) is ("tools" not in keys)


@pytest.mark.parametrize("key", ["tools", "disallowed_tools", "allowed_tools"])
def test_a_rule_on_a_control_tool_is_refused(desk: Desk, key: str) -> None:
    """Row 34: a rule that names it is a mistake in the spec, exit 2."""
    played = desk.play([], **{key: ["task_complete"]})
    assert (played.exit_code, played.has_session) == (2, False)
    assert "task_complete" in played.stderr


@pytest.mark.parametrize("arguments", [{}, {"summary": ""}, {"summary": 7}, "{not json"])
def test_a_bad_completion_does_not_end_the_run(desk: Desk, arguments: object) -> None:
    """Row 35: an error result, then `D`: two requests, exit 0."""
    bad = X(("task_complete", arguments))  # type: ignore[arg-type]  # nonsense on purpose
    played = desk.play([bad, D("done")])
    assert (played.exit_code, played.types.count("assistant.turn_start")) == (0, 2)
    assert len(played.tool_errors()) == 1
    assert len(played.of("session.task_complete")) == 1


def test_a_bad_completion_uses_up_a_nudge(desk: Desk) -> None:
    """Rejected completions alone are bounded: with no nudge left they end the run."""
    bad = X(("task_complete", {"summary": " "}))
    played = desk.play([bad, bad, bad], max_autopilot_continues=1)
    assert (played.exit_code, played.result["error_type"]) == (6, "continues_exhausted")
    assert played.types.count("assistant.turn_start") == 2


def test_other_calls_of_the_completing_reply_run_first(desk: Desk) -> None:
    """Row 36: `X(task_complete, Write)`: the file is there, and the run a success."""
    write = ("Write", {"file_path": "new.txt", "content": "hello\n"})
    played = desk.play([X(("task_complete", {"summary": "done"}), write)])
    assert (played.exit_code, desk.read("new.txt")) == (0, "hello\n")


def test_blocked_is_an_ending_of_its_own(desk: Desk) -> None:
    """`task_blocked` gives exit 7 with the reason, and no nudge."""
    played = desk.play([X(READ), X(("task_blocked", {"reason": "no database here"}))])
    assert (played.exit_code, played.result["subtype"]) == (7, "error_task_blocked")
    assert played.result["errors"] == ["Blocked: no database here"]
    (said,) = played.of("session.task_complete")
    assert (said["success"], said["outcome"], said["reason"]) == (
        False,
        "blocked",
        "no database here",
    )
    assert "no database here" in played.stderr


def test_questions_are_answered_by_the_runner(desk: Desk) -> None:
    """Row 40: nobody is here, decide; without waiting for anybody."""
    ask = {"questions": [{"question": "Which one?", "header": "Which", "options": []}]}
    played = desk.play([X(("AskUserQuestion", ask)), D("done")])
    (answer, _) = played.of("tool.execution_complete")
    assert answer["success"] is True
    assert "Nobody is here to answer. Decide for yourself" in answer["result"]["content"]


@pytest.mark.parametrize(
    ("wire", "autopilot"),
    [(None, True), (None, False), ("openai", False), ("anthropic", True)],
)
def test_a_refusal_is_not_a_success(desk: Desk, wire: Wire | None, autopilot: bool) -> None:
    """Row 69: no nudge, `stop_reason` "refusal", exit 6, on every wire and in both modes."""
    desk.wire = wire
    refusal = Step(text="I will not.", finish_reason="content_filter")
    played = desk.play([refusal], autopilot=autopilot)
    assert (played.exit_code, played.result["error_type"]) == (6, "refusal")
    assert played.result["stop_reason"] == "refusal"
    assert len(played.of("user.message")) == 1
    if wire:  # row 34, as the provider sees it
        assert CONTROL.issubset(tool_names(played.requests[0])) is autopilot
