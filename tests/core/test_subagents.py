"""Sub-agents as states: what one sees of the run, what the run keeps of it, what it may have."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import get_args

import pytest

from runner.core import wire
from runner.core.endings import Ending
from runner.core.events import (
    AssistantMessage,
    AssistantTurnEnd,
    AssistantTurnStart,
    FileState,
    PermissionCompleted,
    Persisted,
    RunnerSpec,
    SessionCompactionStart,
    SessionError,
    SessionModelChange,
    SessionResume,
    SessionUsageCheckpoint,
    SessionWarning,
    SkillInvoked,
    SubagentCompleted,
    SubagentFailed,
    SubagentStarted,
    SystemMessage,
    ToolContent,
    ToolExecutionComplete,
    ToolRequest,
    UserMessage,
)
from runner.core.limits import budget_left_usd
from runner.core.messages import CONTROL_TOOLS, ModelReply, ToolCall, ToolSpec
from runner.core.permissions import decide
from runner.core.policy import next_step
from runner.core.spawning import close, ended, last_text, offered_to, refusal, told
from runner.core.spec import AgentSpec, LimitsSpec, PermissionMode, TaskSpec, VerifySpec
from runner.core.state import MAIN
from runner.core.steps import AskModel, Finish, Say
from runner.core.subagents import (
    NARROWER,
    catalog,
    child_spec,
    child_state,
    depth,
    label,
    narrowed,
    of_call,
    open_children,
)
from tests.crew import agent, start
from tests.fakes import call, reply
from tests.hooked import hooks_of
from tests.logs import MODEL, Log, task

SCOUT = start("scout")
TURNS = SessionWarning(warning_type="error_max_turns", message="no turns")
BUDGET = SessionWarning(warning_type="error_max_budget_usd", message="no money")
FAILURE = SessionError(error_type="rate_limit", message="429")


def begun(
    name: str = "scout", call_id: str | None = None, parent: str | None = None, turn: str = "0"
) -> SubagentStarted:
    return SubagentStarted(
        tool_call_id=call_id or name,
        turn_id=turn,
        agent_name=name,
        agent_display_name=name,
        agent_description="looks",
        parent_agent_id=parent,
        tool_definitions_bytes=7,
    )


def family(**spec: object) -> Log:
    """The main loop has started the scout `a`, which has started another one, `b`."""
    agents = {"scout": agent(), "other": agent(model="fake/other", max_turns=2)}
    log = Log(task(**{"agents": agents, **spec})).reply(reply("", SCOUT)).starts(SCOUT)
    log.by("a", begun(), SystemMessage(content="You look."), UserMessage(content="Look."))
    other = start("other")
    log.by("a", *turn_of(reply("", other)))
    return log.by("b", begun("other", parent="a"), UserMessage(content="Read."))


def turn_of(
    said: ModelReply, number: int = 0, model: str = MODEL, held: str = "0"
) -> list[Persisted]:
    """A turn of a sub-agent up to its reply."""
    return [
        AssistantTurnStart(
            turn_id=str(number), model=model, max_output_tokens=9, reserved_cost_usd=Decimal(held)
        ),
        paid(model=model),
        AssistantMessage(
            message_id="m",
            content=said.text,
            model=model,
            turn_id=str(number),
            finish_reason=said.finish_reason,
            tool_requests=tuple(
                ToolRequest(tool_call_id=c.id, name=c.name, arguments=c.arguments)
                for c in said.calls
            ),
        ),
    ]


def paid(cost: str = "0", model: str = MODEL) -> SessionUsageCheckpoint:
    return SessionUsageCheckpoint(
        model=model,
        cost_usd=Decimal(cost),
        total_cost_usd=Decimal(cost),
        basis="spec",
        input_tokens=10,
        cache_read_tokens=5,
        output_tokens=3,
    )


def opened(held: str, number: int = 0) -> AssistantTurnStart:
    return AssistantTurnStart(
        turn_id=str(number), model=MODEL, max_output_tokens=9, reserved_cost_usd=Decimal(held)
    )


# -- what it sees ----------------------------------------------------------------------------------


def test_a_sub_agent_sees_a_run_of_its_own() -> None:
    """Its conversation, prompt, tools and caps stand where those of the main loop would."""
    log = family(
        verify=(VerifySpec(run="make test"),), on_denied="fail", hooks=hooks_of("Stop", "x")
    )
    child = child_state(log.state, "b")
    assert (child.agent_id, child.main) == ("b", log.state.threads["b"])
    assert (child.model, child.need.model, child.need.max_turns) == ("fake/other", "fake/other", 2)
    assert (child.need.autopilot, child.need.verify, child.need.on_denied) == (False, (), "report")
    assert dict(child.need.hooks) == {}
    assert child.preflight is not None
    assert child.preflight.tool_definitions_bytes == 7
    assert child_state(log.state, "a").system == "You look."
    assert (child.abort, child.sentences, child.task) == (None, log.state.sentences, "Do it.")
    assert isinstance(next_step(child), AskModel)


def test_what_a_sub_agent_sees_of_one_below_it_is_what_the_run_sees() -> None:
    """A projection of a projection is the same."""
    log = family()
    state = log.by("b", opened("0.25")).state
    assert child_state(child_state(state, "a"), "b") == replace(
        child_state(state, "b"),
        threads={**child_state(state, "b").threads},
    )
    assert (depth(state, MAIN), depth(state, "a"), depth(state, "b")) == (0, 1, 2)
    assert (open_children(state), open_children(child_state(state, "a"))) == (("a",), ("b",))
    assert child_spec(child_state(state, "a"), "b") == child_spec(state, "b")


def test_all_agents_draw_on_one_budget() -> None:
    """What another agent holds is not left; what it holds itself is free for its next call."""
    log = family(max_budget_usd=Decimal(1))
    log.by("a", *[opened("0.5", 1)]).by("b", opened("0.25"))
    state = log.state
    lefts = [budget_left_usd(child_state(state, one), MAIN) for one in ("a", "b")]
    assert lefts == [Decimal("0.75"), Decimal("0.5")]
    assert budget_left_usd(state, MAIN) == Decimal("0.25")
    log.by("b", paid("0.2", "fake/other"))
    assert dict(log.state.ledger.reserved) == {"a": Decimal("0.5")}
    assert log.state.ledger.spent_usd == Decimal("0.2")


def test_a_call_is_known_by_who_made_it_and_in_which_turn() -> None:
    """The same id in another turn or of another agent is another call."""
    log = family()
    assert of_call(log.state, SCOUT) == "a"
    assert of_call(child_state(log.state, "a"), SCOUT) is None
    assert of_call(child_state(log.state, "a"), start("other")) == "b"
    later = log.by("a", done_with()).completes(SCOUT).ends().reply(reply("", SCOUT))
    assert of_call(later.state, SCOUT) is None


def done_with() -> SubagentCompleted:
    return SubagentCompleted(tool_call_id="scout", agent_name="scout", agent_display_name="scout")


# -- what is kept of it ----------------------------------------------------------------------------


@pytest.mark.parametrize("fact", [TURNS, BUDGET, FAILURE])
def test_what_stops_a_sub_agent_stops_no_other(fact: Persisted) -> None:
    """A cap or a failure of its own ends it, and neither its parent nor one below it."""
    log = family().by("a", fact)
    assert (log.state.tripped, log.state.failure) == (None, None)
    agent_a = log.state.agents["a"]
    assert fact in (agent_a.tripped, agent_a.failure)
    assert log.rule == "tools_pending"
    below = child_state(log.state, "b")
    assert (below.tripped, below.failure) == (None, None)


def test_a_resumed_run_asks_them_again_with_the_models_of_the_spec() -> None:
    """What stopped a sub-agent before the kill is past, and so is its fallback."""
    log = family()
    change = SessionModelChange(
        previous_model=MODEL, new_model="fake/spare", cause="busy", reserved_cost_usd=Decimal(0)
    )
    log.by("a", opened("0", 1), change)
    assert child_state(log.state, "a").model == "fake/spare"
    assert (log.state.model, child_state(log.state, "b").model) == (MODEL, "fake/other")
    log.by("a", TURNS, FAILURE).resumes()
    again = RunnerSpec(spec=wire.encode(log.spec), spec_hash="0", sentences={})
    state = log.add(again).state
    agent_a = state.agents["a"]
    assert (agent_a.tripped, agent_a.failure, agent_a.model) == (None, None, None)
    assert child_state(state, "a").model == MODEL


def test_files_and_decisions_are_each_agents_own() -> None:
    """What a sub-agent has read its parent does not know; what it was denied, everybody does."""
    log = family()
    read = ToolExecutionComplete(
        tool_call_id="r",
        tool_name="Read",
        success=True,
        turn_id="0",
        result=ToolContent(content="x"),
        file=FileState(path="/a", sha256="00"),
    )
    denied = PermissionCompleted(
        request_id="r",
        tool_call_id="other",
        result={"kind": "denied-by-rules", "rules": []},
        reason="no",
    )
    log.by("a", denied, read)
    assert (log.state.known_files, log.state.decided) == ({}, {})
    child = child_state(log.state, "a")
    assert (child.known_files, list(child.decided)) == ({"/a": "00"}, ["other"])
    assert [one["tool_use_id"] for one in log.state.denials] == ["other"]
    assert log.state.agents["a"].tool_calls == 1


def test_usage_is_the_main_loops_and_costs_are_everybodys() -> None:
    """Tokens of a sub-agent count for its model and for itself, not for the main loop."""
    log = family()
    before = log.state
    log.by("b", opened("1"), paid("0.5", "fake/other"))
    after = log.state
    assert after.usage == before.usage
    assert after.ledger.models["fake/other"].cost_usd == Decimal("0.5")
    assert (after.agents["b"].tokens, after.agents["a"].tokens) == (18, 18)


def test_a_start_that_belongs_to_nobody_never_was() -> None:
    """Without an id of its own, twice, or below an agent nobody knows: the state is the same."""
    log = family()
    state = log.state
    assert log.add(begun()).state.agents == state.agents
    assert log.by("a", begun("other")).state.agents == state.agents
    assert log.by("c", begun(parent="nobody")).state.agents == state.agents
    assert log.by("nobody", done_with()).state.agents == state.agents


# -- never more than above -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", get_args(PermissionMode))
@pytest.mark.parametrize("above", get_args(PermissionMode))
def test_a_mode_is_taken_only_if_it_is_narrower(
    mode: PermissionMode, above: PermissionMode
) -> None:
    """MCP10: whatever its definition asks for, no call is approved that its parent could not make;
    nor is one left to a model that above was denied."""
    spec = task(permission_mode=above, allowed_tools=("Write",))
    narrow = narrowed(spec, agent(permission_mode=mode), MODEL)
    assert narrow.permission_mode == (mode if mode in NARROWER[above] else above)
    for tool, kind in (("Read", "read"), ("Write", "write"), ("Edit", "write"), ("Mine", "mcp")):
        wide, verdict = decide(spec, tool, kind), decide(narrow, tool, kind)
        assert not verdict.allowed or wide.allowed or wide.open
        assert not verdict.open or wide.open or wide.allowed


def test_rules_are_inherited_and_added_to() -> None:
    """MCP10: a sub-agent is denied what its parent is denied, and what its definition says."""
    spec = task(disallowed_tools=("Bash(rm *)",), allowed_tools=("Edit",), ask_tools=("Write",))
    narrow = narrowed(spec, agent(disallowed_tools=("Bash(curl *)",), effort="high"), "m")
    assert narrow.disallowed_tools == ("Bash(rm *)", "Bash(curl *)")
    assert (narrow.allowed_tools, narrow.ask_tools) == (("Edit",), ("Write",))
    assert (narrow.model, narrow.effort, narrow.max_budget_usd) == ("m", "high", None)


SHOWN = tuple(
    ToolSpec(name=name, description=name, input_schema={})
    for name in (
        *("Read", "Edit", "Bash", "AskUserQuestion", "Agent", "mcp__git__log", "mcp__web__get"),
        *sorted(CONTROL_TOOLS),
    )
)


@pytest.mark.parametrize(
    ("own", "names"),
    [
        (agent(), "Read Edit Bash Agent mcp__git__log mcp__web__get"),
        (agent(tools=("Read", "Glob")), "Read"),
        (agent(tools=("Bash(git *)", "mcp__git")), "Bash mcp__git__log"),
        (agent(tools=("mcp__*",)), "mcp__git__log mcp__web__get"),
        (agent(tools=("task_complete", "AskUserQuestion")), ""),
        (
            agent(disallowed_tools=("Bash", "Edit(src/**)", "mcp__web")),
            "Read Edit Agent mcp__git__log",
        ),
        (agent(tools=("Read", "Bash"), disallowed_tools=("Read",)), "Bash"),
    ],
)
def test_the_tools_of_a_sub_agent_are_in_both_lists(own: AgentSpec, names: str) -> None:
    """MCP10: of what its parent is shown, what its definition leaves; never a control tool."""
    state = Log(task(agents={"scout": own})).state
    assert [tool.name for tool in offered_to(state, "scout", SHOWN, 1)] == names.split()


def test_at_the_last_depth_nobody_is_offered_more() -> None:
    """And of an agent that the spec does not know any more, nothing is left."""
    state = Log(task(agents={"scout": agent()}, limits=LimitsSpec(max_subagent_depth=2))).state
    assert "Agent" in {tool.name for tool in offered_to(state, "scout", SHOWN, 1)}
    assert "Agent" not in {tool.name for tool in offered_to(state, "scout", SHOWN, 2)}
    assert offered_to(state, "gone", SHOWN, 1) == ()


# -- the start -------------------------------------------------------------------------------------


def test_the_general_agent_may_be_replaced() -> None:
    """A spec's own `general-purpose` stands in place of ours."""
    own = agent(description="mine")
    assert list(catalog(task())) == ["general-purpose"]
    assert catalog(task(agents={"general-purpose": own}))["general-purpose"] == own


@pytest.mark.parametrize(
    ("spec", "asked", "why"),
    [
        (task(agents={"x": agent()}), start("y"), "there is no agent `y`; the agents are general"),
        (task(), call("Agent", prompt="p"), None),
        (task(limits=LimitsSpec(max_subagents=2)), start("general-purpose"), "2 sub-agents are at"),
        (task(limits=LimitsSpec(max_subagents=3)), start("general-purpose"), None),
        (task(limits=LimitsSpec(max_subagent_depth=0)), start("general-purpose"), "nested 0 deep"),
        (task(max_budget_usd=Decimal("0.5")), start("general-purpose"), "Budget limit reached: no"),
    ],
)
def test_why_no_sub_agent_is_started(spec: TaskSpec, asked: ToolCall, why: str | None) -> None:
    """Row 84: each reason in words; none when it may be started."""
    state = replace(family().state, spec=spec)
    ledger = replace(state.ledger, spent_usd=Decimal("0.5"))
    refused = refusal(replace(state, ledger=ledger), asked)
    assert refused is None if why is None else refused is not None and why in refused


# -- the end ---------------------------------------------------------------------------------------


def test_a_sub_agent_that_said_nothing_has_failed() -> None:
    """Success is an answer; blanks are none. What was said before a call counts as said."""
    log = family().by("b", *turn_of(reply(" \n")))
    end = ended(child_state(log.state, "b"), Ending(subtype="success"), 5)
    assert isinstance(end, SubagentFailed)
    assert (end.error, end.reason) == ("It ended without a word", "malformed_replies")
    said = child_state(family().by("b", *turn_of(reply("x"))).state, "b")
    assert isinstance(ended(said, Ending(subtype="success"), 5), SubagentCompleted)


def test_an_ending_without_words_is_named_by_its_kind() -> None:
    """The kind stands for the sentence when there is none."""
    child = child_state(family().state, "b")
    end = ended(child, Ending(subtype="error_max_turns"), 5)
    assert isinstance(end, SubagentFailed)
    assert (end.error, end.reason) == ("error_max_turns", "error_max_turns")


def test_what_was_said_last_is_the_newest_text() -> None:
    """A reply without text leaves that to the one before it."""
    log = family().by("b", *turn_of(reply("first", call("Read"))))
    read = ToolExecutionComplete(
        tool_call_id="Read-1",
        tool_name="Read",
        success=True,
        turn_id="0",
        result=ToolContent(content="x"),
    )
    log.by("b", read, AssistantTurnEnd(turn_id="0", model=MODEL), *turn_of(reply(""), 1))
    assert last_text(child_state(log.state, "b")) == "first"
    assert last_text(child_state(family().state, "b")) == ""
    failed = ended(child_state(log.state, "b"), Ending(subtype="error_max_turns"), 5)
    over = log.by("b", failed).state
    assert told(child_state(over, "b")) == ("other: error_max_turns\n\nfirst", True)


def test_what_is_open_is_closed_from_the_inside() -> None:
    """Calls, turn and end of the innermost first; then of the one above it."""
    log = family()
    asked = reply("", call("Bash"), call("Edit"))
    log.by("b", *turn_of(asked, model="fake/other")).add(FAILURE)
    closed: list[tuple[str | None, str]] = []
    while isinstance(step := next_step(log.state), Say):
        closed += [(step.agent_id, event.type) for event in step.events]
        log.by(step.agent_id, *step.events) if step.agent_id else log.add(*step.events)
    pair = ["tool.execution_start", "tool.execution_complete"]
    assert closed == [
        *(("b", kind) for kind in pair * 2),
        ("b", "assistant.turn_end"),
        ("b", "subagent.failed"),
        *(("a", kind) for kind in pair),
        ("a", "assistant.turn_end"),
        ("a", "subagent.failed"),
        (None, "tool.execution_complete"),
        (None, "assistant.turn_end"),
    ]
    assert isinstance(step, Finish)


def test_an_open_summary_of_a_sub_agent_is_closed() -> None:
    """Nothing came of it, like for the main loop."""
    log = family()
    summary = SessionCompactionStart(
        trigger="threshold",
        model=MODEL,
        current_tokens=9,
        max_output_tokens=9,
        reserved_cost_usd=Decimal(0),
    )
    step = close(log.by("b", summary).state)
    assert isinstance(step, Say)
    assert [event.type for event in step.events] == ["session.compaction_complete"]


# -- what binds it, what it is told ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("above", "own", "holds"),
    [(None, None, None), (3, None, 3), (None, 4, 4), (3, 9, 3), (3, 2, 2)],
)
def test_the_smaller_cap_of_turns_holds(
    above: int | None, own: int | None, holds: int | None
) -> None:
    """An agent has no more turns than the one above it may have."""
    assert narrowed(task(max_turns=above), agent(max_turns=own), MODEL).max_turns == holds


def test_what_a_skill_denies_its_user_it_denies_those_below() -> None:
    """As long as it is in force; what it allows, it allows its user alone."""
    skill = SkillInvoked(
        name="careful",
        path="/s",
        content="Be careful.",
        trigger="agent-invoked",
        allowed_tools=("Write",),
        disallowed_tools=("Bash(rm *)",),
    )
    log = family(disallowed_tools=("WebFetch",))
    log.add(skill)
    for child in ("a", "b"):
        spec = child_spec(log.state, child)
        assert (spec.allowed_tools, spec.disallowed_tools) == ((), ("WebFetch", "Bash(rm *)"))
    assert child_spec(child_state(log.state, "a"), "b") == child_spec(log.state, "b")
    log.by("a", replace(skill, disallowed_tools=("Edit",)))
    assert "Edit" in child_spec(log.state, "b").disallowed_tools
    assert "Edit" not in child_spec(log.state, "a").disallowed_tools


def test_sub_agents_that_a_kill_left_open_are_told_that_the_run_goes_on() -> None:
    """Once, each of them; one that has ended is not."""
    log = family()
    log.by(
        "b",
        *turn_of(reply("Seen."), 0, "fake/other"),
        AssistantTurnEnd(turn_id="0", model="fake/other"),
    )
    log.by("b", replace(done_with(), tool_call_id="other"))
    resumed = SessionResume(
        session_id="session-1",
        resume_time=log.journal.clock.now(),
        event_count=9,
        selected_model=MODEL,
        carries=True,
        note="Go on with the task.",
        agents_note="Go on.",
    )
    state = log.add(resumed).state
    notes = [child_state(state, one).note for one in ("a", "b")]
    assert (state.note, notes) == ("Go on with the task.", ["Go on.", None])
    told_ = log.by("a", UserMessage(content="Go on.", source="resume")).state
    assert (told_.note, child_state(told_, "a").note) == ("Go on with the task.", None)


def test_people_are_told_an_agent_by_its_name() -> None:
    """With a number from the second of that name on; an id that nobody knows is shown as it is."""
    log = family().by("c", begun("scout", call_id="again"))
    assert [label(log.state, one) for one in ("a", "b", "c", "x")] == [
        "scout",
        "other",
        "scout 2",
        "x",
    ]
