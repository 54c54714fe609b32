"""Structured output: what may be the object, what each verdict means, and when it is given up."""

from __future__ import annotations

from typing import Any

import pytest

from runner.core import structured
from runner.core.endings import Ending
from runner.core.events import (
    RunnerOutputCheck,
    SessionTaskComplete,
    ToolExecutionComplete,
)
from runner.core.messages import ToolCall
from runner.core.outcome import build_result
from runner.core.policy import next_step
from runner.core.steps import CheckOutput, Say
from tests.fakes import call, done, reply
from tests.logs import Log, task

SCHEMA = {"type": "object"}
OUTPUT = call("StructuredOutput", ok=True)
BROKEN = ToolCall(id="broken", name="StructuredOutput", arguments={}, problem="no JSON")


def new(**spec: Any) -> Log:
    return Log(task(output_schema=SCHEMA, **spec))


def valid(call_id: str | None = None) -> RunnerOutputCheck:
    return RunnerOutputCheck(valid=True, output={"ok": True}, tool_call_id=call_id)


def invalid(call_id: str | None = None) -> RunnerOutputCheck:
    return RunnerOutputCheck(valid=False, errors=("/ok: no",), tool_call_id=call_id)


def answers(log: Log) -> list[Any]:
    """What the table says next, call starts left out."""
    step = next_step(log.state)
    assert isinstance(step, Say)
    return [e for e in step.events if e.type != "tool.execution_start"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (' {"a": 1} ', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1}\n```\n', {"a": 1}),
        ('Here: {"a": 1}', None),
        ("[1]", None),
        ('{"a": NaN}', None),
        ('{"a": 1e999}', None),
        ('{"a":' * 101 + "1" + "}" * 101, None),
        ("[" * 100_000, None),
        ("", None),
    ],
)
def test_a_text_is_an_object_alone_or_in_one_block(text: str, value: object) -> None:
    """Anything around it makes it a text."""
    assert structured.parsed(text) == value


def test_an_object_that_fits_is_kept_and_the_call_succeeds() -> None:
    """Then the completion may stand."""
    log = new().reply(reply("", OUTPUT)).add(valid(OUTPUT.id))
    (answer,) = answers(log)
    assert isinstance(answer, ToolExecutionComplete)
    assert (answer.success, log.state.output, log.state.output_attempts) == (True, {"ok": True}, 0)
    assert log.settle().reply(done()).settle().rule == "completed"


def test_an_object_that_does_not_fit_is_an_error_and_an_attempt() -> None:
    """It costs no continue and is no malformed reply."""
    log = new().reply(reply("", OUTPUT)).add(invalid(OUTPUT.id))
    (answer,) = answers(log)
    assert answer.error.code == "output_mismatch"
    assert answer.error.message == "- /ok: no"
    log.settle()
    main = log.state.main
    assert (log.rule, main.continues, main.malformed_in_a_row) == ("ask", 0, 0)
    assert (log.state.output_attempts, main.tool_turns) == (1, 0)


def test_arguments_that_cannot_be_read_are_an_attempt() -> None:
    """Nothing is compared."""
    log = new().reply(reply("", BROKEN))
    found, answer = answers(log)
    assert found == RunnerOutputCheck(valid=False, errors=("no JSON",), tool_call_id="broken")
    assert answer.error.code == "output_mismatch"
    assert log.settle().state.main.malformed_in_a_row == 0


def test_an_object_that_fits_stays_when_a_later_one_does_not() -> None:
    """The later one is an error; the completion stands on the earlier, until too many are wrong."""
    log = new().reply(reply("", OUTPUT)).add(valid(OUTPUT.id)).settle()
    log = log.reply(reply("", OUTPUT)).add(invalid(OUTPUT.id))
    assert answers(log)[0].error.code == "output_mismatch"
    log.settle()
    assert (log.state.output, log.state.output_attempts, log.rule) == ({"ok": True}, 1, "ask")
    for _ in range(4):
        log.reply(reply("", OUTPUT)).add(invalid(OUTPUT.id)).settle()
    assert log.rule == "output_given_up"


def test_a_completion_without_an_object_is_rejected() -> None:
    """An attempt, an error, and the fact that it did not stand."""
    log = new().reply(done())
    found, answer, fact = answers(log)
    assert found.errors == ("no object was given",)
    assert (answer.error.code, answer.error.message) == ("output_mismatch", "no object was given")
    assert fact == SessionTaskComplete(
        success=False,
        outcome="continue",
        reason="No object that matches the output schema was given",
    )
    assert log.settle().state.main.continues == 0


def test_a_summary_may_be_the_object() -> None:
    """It is compared; one that does not fit is one attempt, not two."""
    call_id = done().calls[0].id
    log = new().reply(done('{"ok": 1}'))
    assert next_step(log.state) == CheckOutput(value={"ok": 1}, tool_call_id=call_id)
    answer, _ = answers(log.add(invalid(call_id)))
    assert answer.error.code == "output_mismatch"
    assert log.settle().state.output_attempts == 1
    assert new().reply(done('{"ok": 1}')).add(valid(call_id)).settle().rule == "completed"


def test_a_summary_without_a_text_or_with_an_object_at_hand_is_not_compared() -> None:
    """The completion is judged as ever."""
    assert new().reply(reply("", call("task_complete", summary=3))).rule == "control_pending"
    log = new().reply(reply("", OUTPUT)).add(valid(OUTPUT.id)).settle().reply(done('{"a": 1}'))
    assert log.rule == "control_pending"


def test_a_later_answer_repeats_what_did_not_fit() -> None:
    """A completion right after a mismatch is told the same errors."""
    log = new().reply(reply("", OUTPUT, *done().calls)).add(invalid(OUTPUT.id))
    log.add(*answers(log))
    found, *_ = answers(log)
    assert found.errors == ("/ok: no",)


def test_a_text_that_is_an_object_is_compared_once() -> None:
    """In autopilot it is no completion; what does not fit is said, and no nudge is used."""
    log = new().reply(reply('{"ok": true}'))
    assert log.rule == "output_unchecked"
    assert log.add(valid()).settle().state.main.nudges == 1
    log = new().reply(reply('{"ok": 1}')).add(invalid()).settle()
    assert (log.rule, log.state.main.nudges) == ("ask", 0)


def test_without_autopilot_an_object_is_the_answer() -> None:
    """As a call alone; beside other calls the model is asked again."""
    log = new(autopilot=False).reply(reply("", OUTPUT)).add(valid(OUTPUT.id)).settle()
    assert log.rule == "plain_answer"
    read = call("Read")
    both = new(autopilot=False).reply(reply("", read, OUTPUT)).runs(read).add(valid(OUTPUT.id))
    assert both.settle().rule == "ask"
    assert both.reply(reply("that is all")).settle().rule == "plain_answer"


def test_without_a_schema_the_tool_is_unknown() -> None:
    """And an answer that is an object is a text."""
    log = Log().reply(reply("", OUTPUT))
    (answer,) = answers(log)
    assert answer.error.code == "unknown_tool"
    assert Log(task(autopilot=False)).reply(reply('{"a": 1}')).rule == "turn_open"


def test_attempts_are_counted_over_a_kill_and_not_over_an_ending() -> None:
    """The next part of a session has all of them again, and no object."""
    log = new().reply(reply("", OUTPUT)).add(valid(OUTPUT.id), invalid(OUTPUT.id)).settle()
    killed = log.resumes()
    assert (killed.state.output, killed.state.output_attempts) == ({"ok": True}, 1)
    ended = killed.finishes().resumes()
    assert (ended.state.output, ended.state.output_attempts) == (None, 0)


def test_giving_up_without_a_last_verdict_says_how_often_it_was_tried() -> None:
    """The errors of the last attempt are named where they are known."""
    log = new().add(*[invalid()] * 5).reply(reply("hm")).ends()
    step = structured.give_up(log.state)
    assert step.ending.message.endswith("after 5 attempts")  # type: ignore[union-attr]


def test_an_object_is_part_of_a_success_only() -> None:
    """A run that ended otherwise has none in its result."""
    log = new().reply(reply("", OUTPUT)).add(valid(OUTPUT.id)).settle().reply(done()).settle()
    for subtype, output in (("success", {"ok": True}), ("error_max_turns", None)):
        ending = Ending(subtype=subtype)  # type: ignore[arg-type]
        result = build_result(log.state, ending, session_id="s", uuid="u")
        assert result.structured_output == output
