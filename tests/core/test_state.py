"""The fold: what is remembered of each fact."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from runner.core.events import (
    Abort,
    AssistantReasoning,
    Fee,
    PermissionCompleted,
    PermissionRequested,
    RunnerHeartbeat,
    RunnerLogRecovered,
    RunnerResult,
    SessionError,
    SessionInfo,
    SessionWarning,
    ToolExecutionComplete,
    ToolExecutionStart,
    UserMessage,
)
from runner.core.fold import apply, fold
from runner.core.history import History
from runner.core.messages import Assistant, ToolResult, User
from runner.core.state import MAIN, State
from runner.core.thread import Thread
from tests.fakes import call, done, reply
from tests.logs import MODEL, PRICE, READ_ONLY, SENTENCES, Log, task

READ, EDIT = call("Read"), call("Edit")
UNREMEMBERED = (
    SessionInfo(info_type="notification", message="hello"),
    AssistantReasoning(reasoning_id="r", content="hm"),
    PermissionRequested(request_id="r", permission_request={"kind": "shell"}),
    SessionWarning(warning_type="no_diff", message="no git"),
    RunnerLogRecovered(offset=10, torn_bytes=1, torn_file="torn/10"),
)


def test_an_opened_run_knows_its_spec_sentences_prices_and_tools() -> None:
    """Everything a decision needs comes from the first events."""
    spec = task(max_turns=3)
    state = Log(spec).state
    assert (state.need, state.sentences, state.system) == (spec, SENTENCES, "You are careful.")
    assert (state.price(MODEL), state.price("other")) == (PRICE, None)
    assert state.read_only_tools == frozenset(READ_ONLY)
    assert state.main.messages == (User(text="Do it."),)


def test_a_state_without_a_spec_says_so() -> None:
    """Asking for the spec is an error, and no price or tool is known, before they are recorded."""
    state = State()
    assert (state.price(MODEL), state.read_only_tools) == (None, frozenset())
    with pytest.raises(LookupError, match=r"no runner\.spec yet"):
        _ = state.need


@pytest.mark.parametrize("event", UNREMEMBERED, ids=lambda event: event.type)
def test_some_facts_change_nothing_but_the_time(event: SessionInfo) -> None:
    """The state is the same when such a fact is recorded."""
    log = Log()
    before = log.state
    log.journal.clock.tick(1)
    log.add(event)
    assert log.state == replace(before, last_timestamp="2026-01-02T03:04:06.000Z")


def test_what_a_call_costs_by_itself_is_spent_when_it_begins() -> None:
    """Whatever becomes of it: it may be billed from there on."""
    log = Log()
    spent = log.state.ledger.spent_usd
    fee = Fee(cost_usd=Decimal("0.25"), basis="table")
    start = ToolExecutionStart(
        tool_call_id="c", tool_name="WebSearch", arguments={}, turn_id="0", fee=fee
    )
    log.add(start)
    ledger = log.state.ledger
    assert ledger.spent_usd == spent + Decimal("0.25")
    assert ledger.models[MODEL].searches == 1


def test_ephemeral_records_are_not_folded() -> None:
    """The state is the same when something was only shown."""
    log = Log()
    beat = log.journal.stamp(RunnerHeartbeat(phase="start", elapsed_s=30.0))
    assert fold([*log.journal.records, beat]) == log.state


def test_results_join_the_history_in_the_order_asked() -> None:
    """The order of finishing does not matter when a turn ends."""
    log = Log().reply(reply("look", READ, EDIT))
    log.starts(READ).starts(EDIT).completes(EDIT, "failed").completes(READ).ends()
    assert log.state.main.messages[1:] == (
        Assistant(text="look", calls=(READ, EDIT)),
        ToolResult(call_id="Read-1", name="Read", content="ok"),
        ToolResult(call_id="Edit-1", name="Edit", content="failed", is_error=True),
    )


def test_calls_are_pending_until_they_have_a_result() -> None:
    """A started call is still pending, and control calls are told apart."""
    complete = done().calls[0]
    log = Log().reply(reply("", READ, EDIT, complete)).runs(READ).starts(EDIT)
    main = log.state.main
    assert (main.pending, main.pending_tools, main.started) == (
        (EDIT, complete),
        (EDIT,),
        {"Read-1": None, "Edit-1": None},
    )
    assert Thread().pending == ()


def test_a_failed_call_leaves_no_reply_and_no_reservation() -> None:
    """History and money are as before when a turn ends without a reply."""
    log = Log()
    before = log.state.main.messages
    log.turn(reserved_usd="0.5").ends()
    main = log.state.main
    assert (main.messages, main.open_turn, main.replies, main.turns_started) == (before, None, 0, 1)
    assert log.state.ledger.committed_usd == 0


def test_an_attempt_after_a_failed_one_takes_over_the_reservation() -> None:
    """A retry warning with an amount holds that amount."""
    log = Log().turn(reserved_usd="0.5")
    again = SessionWarning(
        warning_type="model_retry", message="again", reserved_cost_usd=PRICE.input_per_mtok
    )
    assert log.add(again).state.ledger.reserved == {MAIN: PRICE.input_per_mtok}


def test_the_first_of_each_kind_of_stop_stays() -> None:
    """A second abort, cap or failure changes nothing."""
    aborts = (
        Abort(reason="user_initiated", cause="SIGINT"),
        Abort(reason="remote_command", cause="SIGTERM"),
    )
    trips = (
        SessionWarning(warning_type="error_max_turns", message="1"),
        SessionWarning(warning_type="error_max_budget_usd", message="2"),
    )
    errors = tuple(SessionError(error_type=kind, message="m") for kind in ("quota", "internal"))
    state = Log().add(*aborts, *trips, *errors).state
    assert (state.abort, state.tripped, state.failure) == (aborts[0], trips[0], errors[0])


@pytest.mark.parametrize("warning_type", ["parameter_left_out", "usage_not_reported"])
def test_what_is_said_once_is_remembered(warning_type: str) -> None:
    """By its message, so that the same is not said again."""
    state = Log().add(SessionWarning(warning_type=warning_type, message="so it is")).state
    assert (state.said, state.tripped) == (frozenset({"so it is"}), None)


def test_the_result_is_remembered() -> None:
    """The state knows that it is over when the result was recorded."""
    assert Log().add(RunnerResult(result={"subtype": "success"})).state.result == {
        "subtype": "success"
    }


def test_agents_have_their_own_threads_and_share_the_ledger() -> None:
    """A sub-agent's messages stay its own when it speaks."""
    log = Log()
    heard = log.journal.append(UserMessage(content="look around"), "agent-1")
    state = apply(log.state, heard)
    assert (state.main, state.threads["agent-1"].messages) == (
        log.state.main,
        History((User(text="look around"),)),
    )


def test_a_denial_of_an_unknown_call_is_no_denial_of_the_open_reply() -> None:
    """Nothing is listed when no reply asked for the call."""
    denied = PermissionCompleted(
        request_id="r", tool_call_id="x", result={"kind": "denied-by-rules"}, reason="rule"
    )
    assert Log().add(denied).state.denials == ()
    assert Log().reply(reply("", READ)).add(denied).state.denials == ()


@pytest.mark.parametrize(("again", "count"), [("denied-by-rules", 1), ("approved", 0)])
def test_a_call_that_is_decided_again_is_denied_once_or_not_at_all(again: str, count: int) -> None:
    """After a kill before its answer; the last decision counts, and those on other calls stay."""

    def decided(call_id: str, kind: str) -> PermissionCompleted:
        return PermissionCompleted(
            request_id="r", tool_call_id=call_id, result={"kind": kind}, reason="rule"
        )

    log = Log().reply(reply("", READ, EDIT))
    for call_id, kind in ((EDIT.id, "denied-by-rules"), (READ.id, "denied-by-rules")):
        log.add(decided(call_id, kind))
    log.add(decided(READ.id, again), decided("unknown", "denied-by-rules"))
    log.add(decided("unknown", again))
    names = [denial["tool_use_id"] for denial in log.state.denials]
    assert names == [EDIT.id, READ.id][: 1 + count]


def test_an_outcome_without_words_is_an_empty_result() -> None:
    """A result from a log that holds neither result nor error reads as empty."""
    log = Log().reply(reply("", READ))
    log.add(
        ToolExecutionComplete(
            tool_call_id="Read-1", tool_name="Read", success=True, turn_id=log.turn_id
        )
    )
    assert log.state.main.results["Read-1"].content == ""
