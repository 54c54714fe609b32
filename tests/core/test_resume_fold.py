"""The fold of `session.resume`: what a session keeps when it goes on, and what starts anew."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from runner.core.events import (
    Abort,
    FileEffect,
    FileState,
    PermissionCompleted,
    RunnerLogRecovered,
    SessionError,
    SessionTaskComplete,
    SessionWarning,
    ToolContent,
    ToolExecutionComplete,
    UserMessage,
)
from runner.core.fold import fold
from runner.core.ledger import Ledger
from runner.core.limits import turns_left
from runner.core.messages import Usage, User
from runner.core.policy import next_step
from runner.core.state import State
from runner.core.steps import AskModel, Finish
from runner.core.thread import Thread
from tests.fakes import call, done, reply
from tests.logs import Log, play, task

READ, EDIT, BASH = call("Read"), call("Edit"), call("Bash")
DENIED = PermissionCompleted(
    request_id="r", tool_call_id="Bash-1", result={"kind": "denied-by-rules"}, reason="rule"
)
SURVIVOR = SessionWarning(warning_type="survivors", message="1", survivors=("7 (sleep)",))
TURNS = SessionWarning(warning_type="error_max_turns", message="no turns")
FAILURE = SessionError(error_type="preflight", message="no key")
SIGTERM = Abort(reason="remote_command", cause="SIGTERM")


def busy(log: Log) -> Log:
    """Two replies, a nudge, a denial, a survivor and half a dollar."""
    log.reply(reply("half"), cost_usd="0.25").settle()
    log.reply(reply("", BASH), cost_usd="0.25").add(DENIED).runs(BASH, code="denied").ends()
    return log.add(SURVIVOR)


# -- what carries over -----------------------------------------------------------------------


def test_a_killed_run_goes_on_with_everything_it_had_counted() -> None:
    """Threads, money, usage and denials are as they were when the resume carries."""
    log = busy(Log())
    before = log.state
    log.resumes("Go on.")
    assert log.state == replace(
        before,
        note="Go on.",
        resumes=1,
        elapsed_ms=0,
        first_timestamp=log.journal.clock.now(),
        last_timestamp=log.journal.clock.now(),
    )


def test_an_ended_run_leaves_its_messages_and_nothing_it_had_counted() -> None:
    """Counters, money, usage, denials and survivors start anew when the resume does not carry."""
    log = busy(Log())
    before = log.state
    after = log.add(TURNS).finishes().resumes(carries=False).state
    assert after.main == replace(
        Thread(),
        messages=before.main.messages,
        turns_started=2,
        measured_tokens=before.main.measured_tokens,
        measured_messages=before.main.measured_messages,
        measured_weight=before.main.measured_weight,
        weight=before.main.weight,
        density=before.main.density,
    )
    fresh = (after.ledger, after.usage, after.denials, after.survivors, after.elapsed_ms)
    assert fresh == (Ledger(), Usage(), (), (), 0)
    assert (before.ledger.spent_usd, len(before.denials)) == (Decimal("0.50"), 1)


def test_an_ended_run_under_one_budget_keeps_its_counters_and_its_bill() -> None:
    """Money, turns and nudges stay counted when a resume after an ending carries."""
    log = busy(Log())
    before = log.state
    after = log.add(TURNS).finishes().resumes().state
    counted = (after.ledger, after.main.tool_turns, after.main.nudges, after.denials)
    assert counted == (before.ledger, 1, 1, before.denials)
    assert after.resumes == 0


def test_files_the_model_knows_and_calls_that_were_made_are_never_forgotten() -> None:
    """Hashes and the number of calls of known outcome outlive every ending."""
    log = Log().reply(reply("", READ)).starts(READ)
    known = FileState(path="/site/a", sha256="aa")
    log.add(
        ToolExecutionComplete(
            tool_call_id=READ.id,
            tool_name="Read",
            success=True,
            turn_id=log.turn_id,
            result=ToolContent(content="ok"),
            file=known,
        )
    ).ends()
    log.add(TURNS).finishes().resumes(carries=False)
    assert (log.state.known_files, log.state.attempts_over) == (
        {"/site/a": "aa"},
        {task().model: 1},
    )


def test_the_newest_content_of_a_file_is_the_known_one() -> None:
    """A later call's file replaces the earlier hash of the same path."""
    log = Log().reply(reply("", READ, EDIT))
    for asked, digest in ((READ, "aa"), (EDIT, "bb")):
        log.starts(asked).add(
            ToolExecutionComplete(
                tool_call_id=asked.id,
                tool_name=asked.name,
                success=True,
                turn_id=log.turn_id,
                file=FileState(path="/site/a", sha256=digest),
            )
        )
    assert log.state.known_files == {"/site/a": "bb"}


def test_a_started_call_keeps_the_effect_it_announced() -> None:
    """The effect is there for whoever resumes, also after the resume itself."""
    effect = FileEffect(path="/site/a", before="aa", after="bb")
    log = Log().reply(reply("", EDIT)).starts(EDIT, effect).resumes()
    assert log.state.main.started == {"Edit-1": effect}


# -- endings that no longer stand ------------------------------------------------------------


@pytest.mark.parametrize("fact", [TURNS, FAILURE, SIGTERM], ids=lambda fact: fact.type)
@pytest.mark.parametrize("over", [True, False])
def test_what_stopped_the_last_part_does_not_stop_the_next(
    fact: SessionWarning | SessionError | Abort, over: bool
) -> None:
    """A cap, a failure or a signal is forgotten, whether its result was recorded or not."""
    log = Log().add(fact)
    if over:
        log.finishes()
    log.resumes(carries=not over).settle()
    state = log.state
    assert (state.tripped, state.failure, state.abort, state.result) == (None,) * 4
    assert next_step(state) == AskModel()


def test_a_completion_that_was_not_recorded_as_the_end_still_is_one() -> None:
    """A killed run that had completed finishes without asking again."""
    log = Log().reply(done()).settle().resumes()
    assert log.state.completion == SessionTaskComplete(summary="done")
    assert play(log).ending.subtype == "success"


def test_a_completion_that_ended_its_part_is_done_with() -> None:
    """A session that succeeded takes another task."""
    log = Log().reply(done()).settle().finishes("success").resumes("And now this.", carries=False)
    assert log.state.completion is None
    played = play(log, done("this too"))
    assert (played.asked, played.state.completion) == (1, SessionTaskComplete(summary="this too"))
    assert User(text="And now this.") in played.state.main.messages


def test_a_block_ends_its_part_only() -> None:
    """A person has helped: the model is asked again when a blocked session goes on."""
    blocked = reply("", call("task_blocked", reason="no network"))
    log = Log().reply(blocked).settle().finishes("error_task_blocked").resumes(carries=False)
    assert play(log, done()).ending.subtype == "success"


@pytest.mark.parametrize(
    ("text", "error_type"), [("half", "no_progress"), ("", "malformed_replies")]
)
def test_a_streak_that_ended_its_part_does_not_end_the_next(text: str, error_type: str) -> None:
    """The model is asked again also when everything else carries."""
    log = Log(task(max_autopilot_continues=10))
    played = play(log, *[reply(text)] * 3)
    assert played.ending.error_type == error_type
    log.finishes("error_task_incomplete", error_type).resumes()
    assert play(log, done()).ending.subtype == "success"


@pytest.mark.parametrize(
    ("text", "error_type"), [("half", "no_progress"), ("", "malformed_replies")]
)
def test_a_streak_that_a_kill_cut_off_from_its_result_ends_the_run(
    text: str, error_type: str
) -> None:
    """The same ending, and no further call, when the run was killed just before it."""
    log = Log(task(max_autopilot_continues=10))
    play(log, *[reply(text)] * 3)
    played = play(log.resumes())
    assert (played.ending.error_type, played.asked) == (error_type, 0)


@pytest.mark.parametrize(
    ("log", "subtype", "error_type"),
    [
        (Log(task(autopilot=False)).reply(reply("42")), "success", None),
        (
            Log(task(max_autopilot_continues=0)).reply(reply("half")),
            "error_task_incomplete",
            "continues_exhausted",
        ),
        (
            Log().reply(reply("I will not", finish_reason="content_filter")),
            "error_task_incomplete",
            "refusal",
        ),
        (
            Log().reply(reply("", call("task_blocked", reason="no network"))),
            "error_task_blocked",
            None,
        ),
    ],
    ids=["plain answer", "no nudge left", "refusal", "blocked"],
)
def test_a_run_killed_at_its_ending_ends_the_same_without_another_call(
    log: Log, subtype: str, error_type: str | None
) -> None:
    """An answer that was there before the kill is not asked for twice."""
    ending = play(log).ending
    played = play(log.resumes())
    assert (played.ending, played.asked) == (ending, 0)
    assert (ending.subtype, ending.error_type) == (subtype, error_type)


# -- ended, killed, not begun ----------------------------------------------------------------


def test_a_part_has_ended_when_it_said_so_itself() -> None:
    """A result alone is no end, a shutdown is, and one that could not begin is none."""
    killed, recorded = Log(), Log().finishes()
    unready = Log().add(FAILURE).finishes("error_during_execution", "preflight")
    assert [log.state.ended for log in (killed, recorded, unready)] == [False, True, False]
    assert [log.state.closed for log in (killed, recorded, unready)] == [False, True, True]
    assert (recorded.resumes(carries=False).state.closed, recorded.state.ended) == (False, False)


def test_kills_in_a_row_are_counted() -> None:
    """An ending starts the count anew; a part that could not begin neither counts nor resets."""
    log = Log()
    counts = []
    for end in ("kill", "kill", "preflight", "kill", "ending", "kill"):
        if end == "preflight":
            log.add(FAILURE).finishes("error_during_execution", "preflight")
        elif end == "ending":
            log.add(TURNS).finishes()
        log.resumes(carries=end != "ending")
        counts.append(log.state.resumes)
    assert counts == [1, 2, 2, 3, 0, 1]


def test_a_turn_cap_is_hard_over_a_kill() -> None:
    """The refused calls of the turn past the cap are not run when a kill cut the refusal short."""
    log = Log(task(max_turns=1)).reply(reply("", READ)).runs(READ).ends()
    log.reply(reply("", EDIT, BASH)).add(TURNS).runs(EDIT, code="not_run")
    played = play(log.resumes())
    assert (played.ending.subtype, played.ran) == ("error_max_turns", ())


def test_a_cap_that_was_lowered_leaves_the_open_turn_alone() -> None:
    """The turn that was under way when the run was killed is carried out to its end."""
    log = Log(task(max_turns=2)).reply(reply("", READ)).runs(READ).ends()
    log.reply(reply("", EDIT, BASH)).runs(EDIT).resumes()
    log.state = replace(log.state, spec=task(max_turns=1))
    played = play(log, done())
    assert (played.ending.subtype, played.ran) == ("success", ("Bash",))


def test_more_turns_let_a_capped_session_go_on() -> None:
    """History is whole: the calls that were not run have their results when the cap is higher."""
    log = Log(task(max_turns=1))
    capped = play(log, reply("", READ), reply("", EDIT))
    assert (capped.ending.subtype, turns_left(log.state)) == ("error_max_turns", 0)
    log.finishes().resumes(carries=False)
    played = play(log, reply("", BASH), done())
    assert (played.ending.subtype, played.ran) == ("success", ("Bash",))


# -- calls and time --------------------------------------------------------------------------


def test_only_calls_of_known_outcome_count_as_made() -> None:
    """A reply, a failure and a retried attempt are over; an interrupted call is not."""
    again = SessionWarning(warning_type="model_retry", message="2", reserved_cost_usd=Decimal(0))
    log = Log().reply(reply("half")).settle()
    log.turn().add(again)
    assert log.state.attempts_over == {task().model: 2}
    log.add(SessionError(error_type="rate_limit", message="429")).settle()
    log.resumes().turn().resumes()
    assert log.state.attempts_over == {task().model: 3}


def test_a_failure_beside_a_reply_is_no_failure_of_the_call() -> None:
    """What goes wrong outside a model call uses up no call."""
    log = Log().reply(reply("", BASH)).starts(BASH).resumes().add(FAILURE)
    assert log.state.attempts_over == {task().model: 1}


def test_time_is_counted_over_the_parts_and_not_between_them() -> None:
    """Two seconds, a night, three seconds: five, also when a torn line is found in the morning."""
    log = Log()
    clock = log.journal.clock
    clock.tick(2)
    log.add(UserMessage(content="still here"))
    clock.tick(36_000)
    log.resumes().add(RunnerLogRecovered(offset=10, torn_bytes=3, torn_file="torn/10"))
    clock.tick(3)
    log.add(UserMessage(content="again"))
    assert (log.state.elapsed_ms, log.state.duration_ms) == (2_000, 5_000)
    log.finishes().resumes(carries=False)
    assert (log.state.elapsed_ms, log.state.duration_ms) == (0, 0)


def test_a_session_without_a_line_took_no_time() -> None:
    """There is no duration before there is a first line."""
    assert State().duration_ms == 0


def test_the_note_is_said_once() -> None:
    """Any user message takes its place: it is not repeated after the next reply."""
    log = Log().resumes("Go on.").settle()
    assert (log.state.note, log.state.main.messages[-1]) == (None, User(text="Go on."))
    log.reply(reply("half")).settle()
    assert [m for m in log.state.main.messages if m == User(text="Go on.")] == [User(text="Go on.")]


def test_a_resumed_log_folds_in_one_go_and_in_its_parts() -> None:
    """The state after a kill and an ending is the same however the log is cut."""
    log = busy(Log()).resumes()
    log.reply(done()).settle().finishes("success").resumes("More.", carries=False).settle()
    records = log.journal.records
    assert isinstance(next_step(log.state), AskModel)
    for cut in range(len(records)):
        assert fold(records[cut:], start=fold(records[:cut])) == log.state
    assert not isinstance(next_step(log.state), Finish)
