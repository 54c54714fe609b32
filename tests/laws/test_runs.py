"""Laws of whole runs: what holds in every log the engine can write."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from runner.core.endings import Ending, exit_code
from runner.core.events import (
    AssistantTurnEnd,
    AssistantTurnStart,
    Ephemeral,
    Fee,
    Persisted,
    Record,
    RunnerResult,
    SessionResume,
    SessionShutdown,
    SessionUsageCheckpoint,
    ToolExecutionComplete,
    ToolExecutionStart,
    from_json,
)
from runner.core.fold import apply, fold
from runner.core.ledger import ZERO
from runner.core.limits import budget_reached, turns_left
from runner.core.messages import Assistant, Message, ToolResult
from runner.core.policy import next_step
from runner.core.state import State
from runner.core.steps import AskModel, Finish, RunTools
from runner.core.subagents import child_state
from tests.crew import check_books
from tests.fakes import FakeTool, MemoryJournal, reply
from tests.laws.runs import killed_runs, resumed, runs
from tests.laws.strategies import ephemeral_events, foldable_events
from tests.logs import Log, play, task
from tests.stage import Stage

EDGES = ("start", "end")
EFFECTS = ("Edit", "Bash")


def log_of(events: Sequence[Persisted]) -> list[Record]:
    """Records of these events, as a journal numbers them."""
    journal = MemoryJournal()
    return [journal.append(event) for event in events]


def states(stage: Stage) -> Iterator[State]:
    """The state after each line."""
    state = State()
    for record in stage.journal.records:
        state = apply(state, record)
        yield state


# -- folding ---------------------------------------------------------------------------------


@given(st.lists(foldable_events, max_size=12), st.integers(0, 12))
def test_a_log_may_be_folded_in_pieces(events: list[Persisted], cut: int) -> None:
    """The state after both parts is that of the second part on top of the first."""
    records = log_of(events)
    assert fold(records) == fold(records[cut:], start=fold(records[:cut]))


@given(st.lists(foldable_events, max_size=8), st.lists(ephemeral_events, max_size=8))
def test_folding_does_not_see_what_was_only_shown(
    events: list[Persisted], shown: list[Ephemeral]
) -> None:
    """The state is the same with ephemeral records between the others."""
    records = log_of(events)
    journal = MemoryJournal()
    stamped = [journal.stamp(event) for event in shown]
    mixed = [r for pair in zip_longest(records, stamped) for r in pair if r is not None]
    assert fold(mixed) == fold(records)


@given(st.lists(foldable_events, max_size=20))
def test_the_cost_of_a_state_is_the_sum_of_what_was_charged(events: list[Persisted]) -> None:
    """With the fees of calls; by model it is the same sum, since the last resume that left them
    behind."""
    ledger = fold(log_of(events)).ledger
    costs: list[Decimal] = []
    for event in events:
        match event:
            case SessionUsageCheckpoint(cost_usd=cost):
                costs.append(cost)
            case ToolExecutionStart(fee=Fee(cost_usd=cost)):
                costs.append(cost)
            case SessionResume(carries=False):
                costs.clear()
    by_model = sum((totals.cost_usd for totals in ledger.models.values()), ZERO)
    assert ledger.spent_usd == sum(costs, ZERO) == by_model


# -- ending ----------------------------------------------------------------------------------


@given(
    cap=st.integers(0, 8),
    autopilot=st.booleans(),
    words=st.lists(st.text(max_size=3), min_size=9, max_size=9),
)
def test_a_model_that_only_talks_comes_to_an_end(
    cap: int, autopilot: bool, words: list[str]
) -> None:
    """At most one reply more than there are nudges is asked for, whatever is said."""
    log = Log(task(autopilot=autopilot, max_autopilot_continues=cap))
    played = play(log, *map(reply, words[: cap + 1]))
    assert played.ending.subtype in ("success", "error_task_incomplete", "error_during_execution")
    assert (played.ending.subtype == "success") == (not autopilot)


# -- every log the engine writes -------------------------------------------------------------


@given(stage=runs() | killed_runs())
def test_the_log_is_a_chain_without_gaps_that_reads_back(stage: Stage) -> None:
    """Numbers, parents and hashes link each line to the one before, and ids are used once."""
    lines = stage.journal.lines
    parsed = [json.loads(line) for line in lines]
    assert [line["seq"] for line in parsed] == list(range(len(lines)))
    assert [line["parentId"] for line in parsed] == [None, *(line["id"] for line in parsed[:-1])]
    hashes = [hashlib.sha256(line.encode()).hexdigest() for line in lines]
    assert [line["prev"] for line in parsed] == [None, *hashes[:-1]]
    assert len({record.id for record in stage.sink.records}) == len(stage.sink.records)
    assert [from_json(line) for line in parsed] == stage.journal.records


@given(stage=runs() | killed_runs())
def test_folding_the_log_gives_the_live_state(stage: Stage) -> None:
    """Nothing the engine knows is not on the log."""
    records = [from_json(json.loads(line)) for line in stage.journal.lines]
    assert fold(record for record in records if record is not None) == stage.state


@given(stage=runs() | killed_runs())
def test_each_intent_has_exactly_one_outcome(stage: Stage) -> None:
    """Agent by agent: turns open and close in turn; each call starts once, then completes once,
    in its turn; each sub-agent ends, within the call that started it."""
    check_books(stage)
    agents = {record.agent_id for record in stage.journal.records}
    for agent_id in agents:
        _check_intents(stage, agent_id)


def _check_intents(stage: Stage, agent_id: str | None) -> None:
    records = [record for record in stage.journal.records if record.agent_id == agent_id]
    turns = [
        (record.event.type, record.event.turn_id)
        for record in records
        if isinstance(record.event, (AssistantTurnStart, AssistantTurnEnd))
    ]
    count = len(turns) // 2
    assert turns == [
        (f"assistant.turn_{edge}", str(number)) for number in range(count) for edge in EDGES
    ]
    events = [record.event for record in records]
    starts = Counter(
        (e.turn_id, e.tool_call_id) for e in events if isinstance(e, ToolExecutionStart)
    )
    completes = Counter(
        (e.turn_id, e.tool_call_id) for e in events if isinstance(e, ToolExecutionComplete)
    )
    assert starts == completes
    assert set(starts.values()) <= {1}
    open_calls: set[tuple[str, str]] = set()
    for event in events:
        match event:
            case ToolExecutionStart(turn_id=turn, tool_call_id=call_id):
                open_calls.add((turn, call_id))
            case ToolExecutionComplete(turn_id=turn, tool_call_id=call_id):
                open_calls.remove((turn, call_id))
            case AssistantTurnEnd():
                assert not open_calls


@given(stage=runs() | killed_runs())
def test_each_call_of_each_reply_has_exactly_one_result_in_the_history(stage: Stage) -> None:
    """The results follow their reply, in the order asked, and there are no others; in the
    conversation of every agent."""
    for thread in stage.state.threads.values():
        _check_pairs(iter(thread.messages))


def _check_pairs(messages: Iterator[Message]) -> None:
    for message in messages:
        assert not isinstance(message, ToolResult)
        if isinstance(message, Assistant):
            results = [next(messages) for _ in message.calls]
            ids = [result.call_id for result in results if isinstance(result, ToolResult)]
            assert ids == [call.id for call in message.calls]


@given(stage=runs())
def test_there_is_one_result_and_then_the_shutdown_and_no_more(stage: Stage) -> None:
    """Both are the last lines, agree with each other, and `session.idle` ends the stream."""
    (result,), (shutdown,) = stage.events(RunnerResult), stage.events(SessionShutdown)
    assert [record.event for record in stage.journal.records[-2:]] == [result, shutdown]
    assert stage.sink.records[-1].event.type == "session.idle"
    assert stage.ending is not None
    said = result.result
    assert (said["subtype"], said["exit_code"], said["is_error"]) == (
        shutdown.result_subtype,
        shutdown.exit_code,
        shutdown.exit_code != 0,
    )
    assert shutdown.exit_code == exit_code(stage.ending)
    assert ("result" in said, bool(said.get("errors"))) == (not said["is_error"], said["is_error"])


@given(stage=runs())
def test_the_table_never_asks_or_acts_when_it_must_not(stage: Stage) -> None:
    """No call at the budget, beside open calls, after a completion, a stop or the result."""
    for state in states(stage):
        if state.spec is None:
            continue
        match next_step(state):
            case AskModel():
                assert not budget_reached(state)
                assert (state.main.open_turn, state.main.pending) == (None, ())
                stops = (state.completion, state.abort, state.tripped, state.failure, state.result)
                assert stops == (None,) * 5
                assert state.main.nudges <= state.need.max_autopilot_continues
            case RunTools(calls=calls):
                assert turns_left(state) != 0
                assert all(call in state.main.pending_tools for call in calls)
            case Finish(ending=ending):
                assert state.main.open_turn is None
                assert ending == stage.ending
            case step:
                assert state.result is None, step
        _check_steps_of_agents(state)
    assert isinstance(next_step(stage.state), Finish)


def _check_steps_of_agents(state: State) -> None:
    """The same for every sub-agent that is open, in the run as it sees it."""
    for agent_id, agent in state.agents.items():
        child = child_state(state, agent_id)
        cap = turns_left(child)
        match next_step(child) if agent.ended is None else None:
            case AskModel():
                assert not budget_reached(child)
                assert (child.main.open_turn, child.main.pending) == (None, ())
                assert (child.abort, child.tripped, child.failure) == (None,) * 3
            case RunTools():
                assert cap != 0
            case _:
                pass
        assert child.need.max_turns is None or child.main.tool_turns <= child.need.max_turns


@given(stage=runs() | killed_runs())
def test_the_caps_are_hard(stage: Stage) -> None:
    """Turns and nudges are counted exactly, and money held or spent is never above the cap."""
    spec, main = stage.state.need, stage.state.main
    assert spec.max_turns is None or main.tool_turns <= spec.max_turns
    assert main.nudges <= (spec.max_autopilot_continues if spec.autopilot else 0)
    before = ZERO
    for state in states(stage):
        spent = state.ledger.spent_usd
        assert before <= spent
        assert spec.max_budget_usd is None or state.ledger.committed_usd <= spec.max_budget_usd
        before = spent
    totals = [event.total_cost_usd for event in stage.events(SessionUsageCheckpoint)]
    assert stage.state.ledger.reserved == {}
    assert before == max(totals, default=ZERO)


@given(stage=runs() | killed_runs())
def test_green_means_done(stage: Stage) -> None:
    """Exit 0 only when the model completed the task, or answered where that is enough."""
    state = stage.state
    if stage.ending is not None and stage.ending.subtype == "success":
        completed = state.completion is not None and state.completion.success
        assert completed == state.need.autopilot
        assert state.main.reply is not None
        assert (state.abort is None or state.abort.cause == "timeout", state.failure) == (
            True,
            None,
        )


# -- kills -----------------------------------------------------------------------------------


@given(stage=runs(), data=st.data())
def test_no_effect_is_repeated_after_a_kill(stage: Stage, data: st.DataObject) -> None:
    """A call that had begun before the kill is not run after it, unless it only reads."""
    inside = [
        number
        for number, record in enumerate(stage.journal.records, start=1)
        if isinstance(record.event, ToolExecutionStart) and record.event.tool_name in EFFECTS
    ]
    lines = data.draw(st.sampled_from(inside or [len(stage.journal.records) - 1]))
    begun = {
        (record.agent_id, record.event.turn_id, record.event.tool_call_id)
        for record in stage.journal.records[:lines]
        if isinstance(record.event, ToolExecutionStart)
    }
    again = resumed(stage, lines)
    acted = [
        (record.agent_id, record.event.turn_id, record.event.tool_call_id)
        for record in again.journal.records[lines:]
        if isinstance(record.event, ToolExecutionComplete) and record.event.tool_name in EFFECTS
        if record.event.error is None or record.event.error.code == "failed"
    ]
    assert [call for call in acted if call in begun] == []
    tools = [tool for tool in again.engine.tools.values() if isinstance(tool, FakeTool)]
    assert sum(len(tool.ran) for tool in tools if tool.name in EFFECTS) == len(acted)


@given(stage=runs(), data=st.data())
def test_a_completion_survives_a_kill(stage: Stage, data: st.DataObject) -> None:
    """A run that was completed before the kill is a success after it, and asks nothing more."""
    lines = data.draw(st.integers(1, len(stage.journal.records) - 1))
    before = fold(stage.journal.records[:lines])
    again = resumed(stage, lines)
    if before.completion is not None and before.completion.success:
        assert again.ending == Ending(subtype="success")
        assert again.state.main.turns_started == before.main.turns_started
