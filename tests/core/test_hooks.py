"""Hooks as values: matchers, exit codes, answers, and what several of them mean together."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.events import Abort, HookOutput, SessionWarning
from runner.core.hook_answers import MAX_CHARS, HookRun, Reading, read
from runner.core.hook_events import named
from runner.core.hook_steps import arguments_of, stop_unvouched
from runner.core.hook_verdicts import concerns, refusal, vouched
from runner.core.hook_view import fields, leads, subtype
from runner.core.hooks import (
    Ruling,
    block_reason,
    handlers,
    hook_type,
    in_order,
    matches,
    ruling,
    stop_reason,
)
from runner.core.policy import next_step
from runner.core.spec import HookEvent, HookGroup, HookSpec
from runner.core.steps import Finish, RunHooks, Say
from runner.core.stops import stop
from runner.core.verdicts import Verdict
from tests.fakes import call, done, reply
from tests.hooked import answered, begun, hooks_of
from tests.logs import Log, task

READ, EDIT = call("Read"), call("Edit", file_path="a")
NO_RULE = Verdict(kind="denied-no-approval-rule-and-could-not-request-from-user", reason="no rule")


def said(event: HookEvent, *, fail_closed: bool = False, **run: Any) -> Reading:
    """What the end of a hook's process means."""
    return read(event, HookRun(**{"exit_code": 0, **run}), fail_closed=fail_closed)


def printed(event: HookEvent, **answer: Any) -> Reading:
    """What a JSON answer means."""
    return said(event, stdout=json.dumps(answer))


# -- which hooks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matcher", "fits", "does_not"),
    [
        ("", ["Bash", ""], []),
        ("*", ["Bash", ""], []),
        ("Bash", ["Bash"], ["BashOutput", "bash"]),
        ("Edit|Write", ["Edit", "Write"], ["Read", "Edit|Write"]),
        ("Edit, Write", ["Edit", "Write"], ["Edit, Write"]),
        ("^(Edit|Write)$", ["Edit", "Write"], ["NotebookEdit"]),
        ("mcp__.*", ["mcp__a__b", "x mcp__a"], ["Bash"]),
        ("mcp__a", ["mcp__a"], ["mcp__a__b"]),
    ],
)
def test_matchers(matcher: str, fits: list[str], does_not: list[str]) -> None:
    """Nothing and `*` are all, plain words are exact names, the rest is an expression."""
    assert [matches(matcher, value) for value in fits + does_not] == [True] * len(fits) + [
        False
    ] * len(does_not)


def test_names_of_a_matcher() -> None:
    """An expression lists none."""
    assert (named("Edit | Write,Read"), named("^x")) == (("Edit", "Write", "Read"), None)


def test_equal_hooks_run_once_and_the_rest_in_their_order() -> None:
    """The same words are the same hook; a difference in `if` makes another."""
    same, other = HookSpec(command="a"), HookSpec(command="a", if_="Bash")
    groups = (
        HookGroup(hooks=(same, other), matcher="Bash"),
        HookGroup(hooks=(same, HookSpec(command="b"))),
    )
    spec = task(hooks={"PreToolUse": groups})
    found = handlers(spec, "PreToolUse", "Bash")
    assert [(h.hook.command, h.position) for h in found] == [("a", 0), ("a", 1), ("b", 3)]
    assert [h.position for h in handlers(spec, "PreToolUse", "Read")] == [2, 3]
    assert handlers(spec, "Stop") == ()
    assert hook_type("PreToolUse") == "preToolUse"


# -- exit codes ----------------------------------------------------------------------------------

EVENTS: tuple[HookEvent, ...] = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop")
SILENT: tuple[HookEvent, ...] = ("SessionEnd", "Notification", "SubagentStart")


def test_silence_is_success() -> None:
    """Nothing printed, nothing decided."""
    assert said("PreToolUse") == Reading(outcome="success")


@pytest.mark.parametrize("event", EVENTS)
def test_exit_code_2_blocks_with_what_stderr_says(event: HookEvent) -> None:
    """A PreToolUse hook denies; the others block."""
    output = HookOutput(decision="deny" if event == "PreToolUse" else "block", reason="no")
    assert said(event, exit_code=2, stderr=" no\n") == Reading(outcome="success", output=output)


@pytest.mark.parametrize("event", [*SILENT, "SessionStart"])
def test_exit_code_2_is_an_error_where_nothing_can_be_blocked(event: HookEvent) -> None:
    """It is told and changes nothing."""
    reading = said(event, exit_code=2, stderr="no")
    assert (reading.outcome, reading.output) == ("error", None)
    assert reading.problem == "exit code 2, which blocks nothing here: no"


def test_exit_code_2_cannot_be_taken_back() -> None:
    """Neither an allowing answer nor one that is malformed makes it harmless."""
    allow = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow"}})
    for stdout in (allow, "{oops", ""):
        reading = said("PreToolUse", exit_code=2, stdout=stdout)
        assert reading.output is not None
        assert (reading.output.decision, reading.output.reason) == ("deny", "no reason was given")


def test_exit_code_2_prefers_the_reason_of_the_answer() -> None:
    """When the answer blocks by itself, its reason is the better one."""
    reading = said(
        "Stop", exit_code=2, stderr="x", stdout=json.dumps({"decision": "block", "reason": "y"})
    )
    assert reading.output == HookOutput(decision="block", reason="y")


def test_other_exit_codes_are_errors_that_decide_nothing_by_themselves() -> None:
    """A sound JSON answer still counts."""
    reading = said("PreToolUse", exit_code=1, stderr="oops")
    assert reading == Reading(outcome="error", problem="exit code 1: oops")
    assert said("PreToolUse", exit_code=1) == Reading(outcome="error", problem="exit code 1")
    answer = json.dumps({"hookSpecificOutput": {"permissionDecision": "deny"}})
    decided = said("PreToolUse", exit_code=3, stdout=answer)
    assert (decided.outcome, decided.output and decided.output.decision) == ("error", "deny")


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        ({"exit_code": None}, "timeout"),
        ({"exit_code": None, "problem": "it could not be started: x"}, "error"),
        ({"exit_code": 1}, "error"),
        ({"stdout": "{oops"}, "error"),
    ],
)
def test_a_hook_that_must_not_fail_blocks_when_it_does(run: dict[str, Any], outcome: str) -> None:
    """The reason says what went wrong; without `fail_closed` nothing is decided."""
    assert said("PreToolUse", **run).output is None
    reading = said("PreToolUse", fail_closed=True, **run)
    assert reading.outcome == outcome
    assert reading.output is not None
    assert reading.output.decision == "deny"
    assert reading.output.reason == f"a hook that must not fail did: {reading.problem}"
    assert said("PreToolUse", fail_closed=True).output is None


def test_a_start_hook_that_must_not_fail_stops_the_run() -> None:
    """There is nothing else that it could block."""
    reading = said("SessionStart", fail_closed=True, exit_code=1)
    assert reading.output is not None
    assert reading.output.stop_reason == "a hook that must not fail did: exit code 1"


def test_a_failing_hook_that_denies_keeps_its_own_reason() -> None:
    """`fail_closed` adds nothing to a denial."""
    answer = json.dumps({"decision": "block", "reason": "y"})
    reading = said("PreToolUse", fail_closed=True, exit_code=1, stdout=answer)
    assert reading.output == HookOutput(decision="deny", reason="y")


# -- answers -------------------------------------------------------------------------------------


def test_plain_text_is_context_at_the_start_and_at_the_prompt() -> None:
    """Elsewhere it is a note for the log."""
    assert said("SessionStart", stdout=" hi\n").output == HookOutput(additional_context="hi")
    assert said("UserPromptSubmit", stdout="hi").output == HookOutput(additional_context="hi")
    assert said("PreToolUse", stdout="hi").output is None


def test_a_whole_answer() -> None:
    """Every field that an answer before a call may have."""
    reading = printed(
        "PreToolUse",
        **{"continue": False, "stopReason": "enough", "systemMessage": "look", "extra": 1},
        suppressOutput=True,
        hookSpecificOutput={
            "hookEventName": "PreToolUse",
            "permissionDecision": "ask",
            "permissionDecisionReason": "unsure",
            "updatedInput": {"a": 1},
            "additionalContext": "x" * (MAX_CHARS + 1),
        },
    )
    assert reading == Reading(
        outcome="success",
        quiet=True,
        output=HookOutput(
            decision="ask",
            reason="unsure",
            updated_input={"a": 1},
            additional_context="x" * MAX_CHARS,
            system_message="look",
            stop_reason="enough",
        ),
    )


@pytest.mark.parametrize(
    ("word", "decision"),
    [("allow", "allow"), ("approve", "allow"), ("deny", "deny"), ("block", "deny"), ("ask", "ask")],
)
def test_words_for_a_decision(word: str, decision: str) -> None:
    """The older ones, too."""
    special = printed("PreToolUse", hookSpecificOutput={"permissionDecision": word}).output
    plain = printed("PreToolUse", decision=word).output
    assert special == plain
    assert special is not None
    assert special.decision == decision


def test_what_is_deferred_is_denied() -> None:
    """Nobody will decide it later."""
    output = printed("PreToolUse", hookSpecificOutput={"permissionDecision": "defer"}).output
    assert output is not None
    assert (output.decision, "later" in (output.reason or "")) == ("deny", True)


def test_other_events_have_fields_of_their_own() -> None:
    """A new output after a call, text or not; a new input only before one."""
    special = {"updatedToolOutput": [1], "updatedInput": {"a": 1}}
    after = printed("PostToolUse", hookSpecificOutput=special).output
    assert after == HookOutput(updated_tool_output="[1]")
    text = printed("PostToolUse", hookSpecificOutput={"updatedToolOutput": "x"}).output
    assert text == HookOutput(updated_tool_output="x")
    assert printed("Stop", hookSpecificOutput=special).output == HookOutput()
    assert printed("Stop", decision="block").output == HookOutput(
        decision="block", reason="no reason was given"
    )
    assert printed("Stop", **{"continue": False}).output == HookOutput(
        stop_reason="no reason was given"
    )


@pytest.mark.parametrize(
    ("event", "stdout", "why"),
    [
        ("PreToolUse", "{", "not JSON"),
        ("PreToolUse", '{"a": NaN}', "NaN"),
        ("PreToolUse", '{"a": 1e999}', "1e999 is out of range"),
        ("PreToolUse", '{"a":' * 101 + "1" + "}" * 101, "nested deeper than 100 levels"),
        ("PreToolUse", '{"hookSpecificOutput": 1}', "`hookSpecificOutput` is no object"),
        ("Stop", '{"hookSpecificOutput": {"hookEventName": "PreToolUse"}}', "is not Stop"),
        ("Stop", '{"decision": "allow"}', "may only be block"),
        ("PreToolUse", '{"decision": "perhaps"}', '"perhaps"'),
        ("PreToolUse", '{"hookSpecificOutput": {"updatedInput": 1}}', "`updatedInput`"),
        ("PreToolUse", '{"systemMessage": 1}', "`systemMessage` is no text"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(event: HookEvent, stdout: str, why: str) -> None:
    """It says what is wrong with it, and decides nothing."""
    reading = said(event, stdout=stdout)
    assert (reading.outcome, reading.output) == ("error", None)
    assert reading.problem is not None
    assert why in reading.problem


@given(st.text(), st.sampled_from([0, 1, 2, 137]), st.sampled_from([*EVENTS, *SILENT]))
def test_every_output_is_read(stdout: str, exit_code: int, event: HookEvent) -> None:
    """Whatever is printed, there is a reading; nothing but exit code 2 blocks without JSON."""
    reading = said(event, stdout=stdout, exit_code=exit_code)
    blocks = reading.output is not None and reading.output.decision in ("deny", "block")
    if not stdout.lstrip().startswith("{"):
        assert blocks == (exit_code == 2 and event in EVENTS)


# -- together ------------------------------------------------------------------------------------

DECISIONS = st.lists(st.sampled_from([None, "allow", "ask", "deny"]), max_size=5)


@given(DECISIONS)
def test_deny_is_stronger_than_ask_than_allow(decisions: list[Any]) -> None:
    """Whatever the order."""
    together = ruling([HookOutput(decision=decision) for decision in decisions]).decision
    strongest = [rank for rank in ("deny", "ask", "allow") if rank in decisions]
    assert together == (strongest[0] if strongest else None)


def test_reasons_are_joined_and_the_last_input_counts() -> None:
    """Only the reasons of those that decide."""
    outputs = [
        HookOutput(decision="deny", reason="a", updated_input={"n": 1}),
        HookOutput(decision="allow", reason="b", updated_input={"n": 2}),
        HookOutput(decision="deny", reason="c"),
    ]
    assert ruling(outputs) == Ruling(decision="deny", reason="a; c", updated_input={"n": 2})
    blocks = [HookOutput(decision="block", reason="a"), HookOutput(), HookOutput(decision="block")]
    assert (block_reason(blocks), block_reason([HookOutput()])) == ("a\n", None)


def test_answers_come_in_the_order_of_the_spec() -> None:
    """Whichever came first; one without an output says nothing."""
    spec = task(hooks=hooks_of("Stop", "a", "b", "c"))
    ends = [answered(spec, "Stop", position=n, reason=str(n)) for n in (2, 0)]
    ends.append(answered(spec, "Stop", position=1))
    assert [output.reason for output in in_order(ends)] == ["0", "2"]


# -- verdicts ------------------------------------------------------------------------------------


def test_what_hooks_refuse() -> None:
    """A denial and a question end alike; the reason is told when there is one."""
    denied, asked = refusal(Ruling(decision="deny")), refusal(Ruling(decision="ask", reason="x"))
    assert denied is not None
    assert asked is not None
    assert (denied.kind, denied.reason) == (
        "denied-by-permission-request-hook",
        "a PreToolUse hook denies it",
    )
    assert asked.reason.endswith("nobody is there: x")
    assert refusal(Ruling(decision="allow")) is None
    assert denied.to_wire({}) == {"kind": denied.kind, "message": denied.reason}


def test_what_hooks_vouch_for() -> None:
    """It replaces a missing rule, and nothing else."""
    allow, rule = Ruling(decision="allow", reason="x"), Verdict(kind="denied-by-rules", reason="r")
    assert vouched(task(), allow, "Bash", NO_RULE) == Verdict(
        kind="approved", reason="a PreToolUse hook allows it: x"
    )
    assert vouched(task(), Ruling(decision="allow"), "Bash", NO_RULE).allowed
    assert vouched(task(), allow, "Bash", rule) is rule
    assert vouched(task(), Ruling(), "Bash", NO_RULE) is NO_RULE
    assert vouched(task(permission_mode="plan"), allow, "Bash", NO_RULE) is NO_RULE
    assert vouched(task(), allow, "AskUserQuestion", NO_RULE) is NO_RULE


def test_what_hooks_want_asked() -> None:
    """Also what a rule allows; but not what a rule denies, and in mode plan nobody is asked."""
    said = Ruling(decision="ask", reason="x")
    approved = Verdict(kind="approved", reason="r")
    denied = Verdict(kind="denied-by-rules", reason="r")
    asks = refusal(said)
    assert asks is not None
    assert asks.asks
    for ruled in (approved, NO_RULE, replace(denied, asks=True)):
        assert vouched(task(), said, "Bash", ruled) == asks
        assert vouched(task(permission_mode="plan"), said, "Bash", ruled) == replace(
            asks, asks=False
        )
    assert vouched(task(), said, "Bash", denied) is denied


def test_if_means_a_call_that_its_rule_would_deny() -> None:
    """A call that cannot be compared is meant: a gate is asked rather than skipped."""
    spec = task()
    assert concerns(spec, "Bash", "Bash", "shell", None, {})
    assert not concerns(spec, "Bash", "Read", "read", None, {})
    assert concerns(spec, "Bash(git *)", "Bash", "shell", None, {})


# -- the fold and the table ----------------------------------------------------------------------


def test_a_cancelled_hook_has_not_answered() -> None:
    """It stays due; its start is no longer open."""
    log = Log(task(hooks=hooks_of("Stop", "a"))).reply(done()).settle()
    end = answered(log.spec, "Stop", outcome="cancelled")
    log.add(begun(end))
    assert list(log.state.open_hooks) == ["Stop-0"]
    log.add(end)
    assert (log.state.open_hooks, isinstance(next_step(log.state), RunHooks)) == ({}, True)


def test_the_ninth_block_is_ignored() -> None:
    """Eight are obeyed; each retracts the completion."""
    log = Log(task(hooks=hooks_of("Stop", "a")))
    for _ in range(8):
        log.reply(done()).settle()
        log.add(answered(log.spec, "Stop", decision="block", reason="more"))
        step = next_step(log.state)
        assert isinstance(step, Say)
        log.add(*step.events)
        assert log.state.completion is None
    log.reply(done()).settle()
    log.add(answered(log.spec, "Stop", decision="block", reason="more"))
    assert isinstance(next_step(log.state), Finish)


@pytest.mark.parametrize(("closed", "subtype_"), [(True, "error_timeout"), (False, None)])
def test_a_deadline_does_not_open_a_gate_that_must_not_fail(
    closed: bool, subtype_: str | None
) -> None:
    """The time is up while a Stop hook is waited for: only a fail-open one lets success stand."""
    hook = HookSpec(command="a", fail_closed=closed)
    log = Log(task(hooks=hooks_of("Stop", hook), timeout=60.0)).reply(done()).settle()
    log.add(Abort(reason="user_abort", cause="timeout"))
    ending = stop(log.state)
    assert (ending and ending.subtype, stop_unvouched(log.state)) == (subtype_, closed)


def test_results_carry_what_hooks_say_of_them() -> None:
    """In the order asked: the new output, the objection, then what is added."""
    log = Log(task(hooks=hooks_of("PostToolUse", "a", "b"))).reply(reply("", READ)).runs(READ)
    log.add(
        answered(log.spec, "PostToolUse", subject=READ.id, position=1, additional_context="late"),
        answered(
            log.spec,
            "PostToolUse",
            subject=READ.id,
            decision="block",
            reason="bad",
            updated_tool_output="new",
        ),
    ).ends()
    assert log.state.main.messages[-1].content == "new\n\nbad\n\nlate"  # type: ignore[union-attr]


def test_a_call_is_told_of_as_it_was_run() -> None:
    """With the input a hook gave it; else as the model asked for it."""
    log = Log(task(hooks=hooks_of("PreToolUse", "a"))).reply(reply("", EDIT))
    assert arguments_of(log.state.main, EDIT.id) == EDIT.arguments
    assert arguments_of(log.state.main, "unknown") == {}
    log.add(answered(log.spec, "PreToolUse", subject=EDIT.id, updated_input={"file_path": "b"}))
    assert arguments_of(log.state.main, EDIT.id) == {"file_path": "b"}
    log.ends().add(SessionWarning(warning_type="x", message="x"))
    assert arguments_of(Log(task()).state.main, EDIT.id) == {}


def test_what_is_added_twice_is_told_once() -> None:
    """A session that is resumed runs its start hooks again."""
    log = Log(task(hooks=hooks_of("SessionStart", "a")))
    for subject in ("1", "2"):
        log.add(answered(log.spec, "SessionStart", subject=subject, additional_context="hi"))
    assert log.state.main.told == ("hi",)
    assert answered(log.spec, "SessionStart").output is None


def test_which_answers_stop_a_run() -> None:
    """A rejected prompt does; nothing does once the run is over."""
    for event, output, stops in (
        ("UserPromptSubmit", {"decision": "block", "reason": "no"}, True),
        ("Stop", {"decision": "block", "reason": "no"}, False),
        ("SessionEnd", {"stop_reason": "no"}, False),
        ("Stop", {"stop_reason": "no"}, True),
        ("Stop", {}, False),
    ):
        spec = task(hooks=hooks_of(event, "a"))  # type: ignore[arg-type]  # one of the events
        end = answered(spec, event, **output)  # type: ignore[arg-type]  # as above
        assert (stop_reason(end) is not None) == stops


def test_a_hook_that_stops_outweighs_a_completion() -> None:
    """`continue: false` of a Stop hook: the run is no success."""
    log = Log(task(hooks=hooks_of("Stop", "a"))).reply(done()).settle()
    log.add(answered(log.spec, "Stop", stop_reason="no licence")).settle()
    step = next_step(log.state)
    assert isinstance(step, Finish)
    assert step.ending.error_type == "hook_stopped"


# -- as messages ---------------------------------------------------------------------------------


def test_hooks_as_claudes_messages() -> None:
    """Started with its ids; answered with what it printed and how it ended."""
    spec = task(hooks=hooks_of("PreToolUse", "a"))
    end = answered(spec, "PreToolUse", outcome="timeout")
    assert (subtype(begun(end)), subtype(end)) == ("hook_started", "hook_response")
    assert not leads(end)
    about = {
        "hook_id": "PreToolUse-0",
        "hook_name": "PreToolUse",
        "hook_event": "PreToolUse",
    }
    assert fields(begun(end)) == about
    assert fields(end) == {
        **about,
        "output": "",
        "stdout": "",
        "stderr": "",
        "exit_code": None,
        "outcome": "cancelled",
    }
