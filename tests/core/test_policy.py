"""The decision table, row by row, and the cases in which rows could argue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import permutations

import pytest

from runner.core.endings import Ending, ErrorType
from runner.core.events import (
    Abort,
    AssistantTurnEnd,
    ErrorCode,
    PermissionCompleted,
    Persisted,
    RunnerOutputCheck,
    RunnerProtection,
    RunnerVerifyStart,
    SessionCompactionComplete,
    SessionError,
    SessionTaskComplete,
    SessionWarning,
    SubagentFailed,
    SubagentStarted,
    ToolContent,
    ToolError,
    ToolExecutionComplete,
    ToolExecutionStart,
    UserMessage,
)
from runner.core.hooks import handlers
from runner.core.messages import ModelReply, ToolCall
from runner.core.policy import RULES, next_step
from runner.core.spec import HookEvent, LimitsSpec, VerifySpec
from runner.core.steps import (
    AskModel,
    CheckOutput,
    Compact,
    Compare,
    Finish,
    HookPoint,
    RunHooks,
    RunTools,
    Say,
    Step,
    Verify,
)
from tests import grown
from tests.fakes import call, done, reply
from tests.hooked import answered, hooks_of
from tests.logs import MODEL, SENTENCES, Log, Played, play, task, verified

CHECKS = (VerifySpec(run="make test"),)
READ, GLOB, EDIT, BASH = call("Read"), call("Glob"), call("Edit"), call("Bash")
BLOCKED = call("task_blocked", reason="no network")
NO_SUMMARY = call("task_complete")

SIGTERM = Abort(reason="remote_command", cause="SIGTERM")
TIMEOUT = Abort(reason="user_abort", cause="timeout")
BUDGET = SessionWarning(warning_type="error_max_budget_usd", message="no money")
TURNS = SessionWarning(warning_type="error_max_turns", message="no turns")
PREFLIGHT = SessionError(error_type="preflight", message="no key")
TOO_LONG = grown.too_long(100)
PROVIDER = SessionError(error_type="rate_limit", message="429")


def new(**spec: object) -> Log:
    return Log(task(**spec))


def failed(call: ToolCall, code: ErrorCode, message: str) -> ToolExecutionComplete:
    return ToolExecutionComplete(
        tool_call_id=call.id,
        tool_name=call.name,
        success=False,
        turn_id="0",
        error=ToolError(message=message, code=code),
    )


def accepted(call: ToolCall) -> ToolExecutionComplete:
    return ToolExecutionComplete(
        tool_call_id=call.id,
        tool_name=call.name,
        success=True,
        turn_id="0",
        result=ToolContent(content=SENTENCES[call.name]),
    )


def started(call: ToolCall) -> ToolExecutionStart:
    return ToolExecutionStart(
        tool_call_id=call.id, tool_name=call.name, arguments=call.arguments, turn_id="0"
    )


def says(*events: Persisted) -> Say:
    return Say(events=events)


def _hooked(event: HookEvent, **spec: object) -> Log:
    """A log whose spec has one hook of this event."""
    return new(hooks=hooks_of(event, "a hook"), **spec)


def _refused_stop(log: Log) -> Log:
    return log.add(answered(log.spec, "Stop", decision="block", reason="more"))


def _proved(**spec: object) -> Log:
    """A completion that passed its checks, and one Stop hook that is to be asked."""
    log = _hooked("Stop", verify=CHECKS, **spec)
    return log.reply(done()).add(verified(exit_code=0)).settle()


def _asked_stop(log: Log) -> Log:
    return log.add(answered(log.spec, "Stop"))


def _told_after(log: Log) -> Log:
    """A call has ended, and its hooks are still to be told of it."""
    due = tuple(handler.id for handler in handlers(log.spec, "PostToolUse", "Read"))
    log.reply(reply("", READ, GLOB)).starts(READ)
    ended = accepted_call(READ)
    return log.add(replace(ended, hooks=due))


AGENT = call("Agent", "agent", prompt="Look.")


def grown_up(log: Log) -> Log:
    """The open call has started the sub-agent `a`."""
    return log.by(
        "a",
        SubagentStarted(
            tool_call_id=AGENT.id,
            turn_id=log.turn_id,
            agent_name="scout",
            agent_display_name="scout",
            agent_description="looks",
        ),
    )


def cancelled(error: str) -> SubagentFailed:
    return SubagentFailed(
        tool_call_id=AGENT.id,
        agent_name="scout",
        agent_display_name="scout",
        error=error,
        reason="cancelled",
        model=MODEL,
        cancelled=True,
    )


def accepted_call(call: ToolCall) -> ToolExecutionComplete:
    return ToolExecutionComplete(
        tool_call_id=call.id,
        tool_name=call.name,
        success=True,
        turn_id="0",
        result=ToolContent(content="ok"),
    )


def incomplete(error_type: ErrorType, message: str) -> Finish:
    ending = Ending(subtype="error_task_incomplete", error_type=error_type, message=message)
    return Finish(ending=ending)


SCHEMA = {"type": "object"}
OUTPUT = call("StructuredOutput", ok=True)
MISMATCH = RunnerOutputCheck(valid=False, errors=("/ok: no",))
GUARDED = RunnerProtection(entries={"check.sh": "file 0755 00"})
TURN_END = says(AssistantTurnEnd(turn_id="0", model=MODEL))
NUDGE = UserMessage(
    content=SENTENCES["nudge"],
    source="autopilot",
    agent_mode="autopilot",
    is_autopilot_continuation=True,
)
NOTE = UserMessage(content="Go on.", source="resume", agent_mode="autopilot")
DENIED = Finish(
    ending=Ending(
        subtype="error_permission_denied",
        message="1 denied, the first of Bash; `on_denied: fail` makes that the ending",
    )
)
SUCCESS = Finish(ending=Ending(subtype="success"))
CANCELLED = Ending(
    subtype="error_during_execution", error_type="terminated", message="Cancelled by SIGTERM"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """After this log, this rule decides and says this."""

    rule: str
    why: str
    log: Callable[[], Log]
    step: Step


TABLE = (
    Row(
        rule="ends_uncompared",
        why="the completion stands, and somebody may have bent what judges it",
        log=lambda: new().add(GUARDED).reply(done()).settle(),
        step=Compare(),
    ),
    Row(
        rule="ends_uncompared",
        why="a cap is reached, which is no way out either",
        log=lambda: new().add(GUARDED, BUDGET),
        step=Compare(),
    ),
    Row(
        rule="budget_reached",
        why="a text brought spending to the cap",
        log=lambda: new(max_budget_usd=Decimal("0.02")).reply(reply("half"), cost_usd="0.02"),
        step=says(
            SessionWarning(
                warning_type="error_max_budget_usd",
                message="Reached maximum budget ($0.02; spent $0.02)",
            )
        ),
    ),
    Row(
        rule="budget_reached",
        why="a reply that completes the task brought spending to the cap",
        log=lambda: new(max_budget_usd=Decimal("0.02")).reply(done(), cost_usd="0.02"),
        step=says(
            SessionWarning(
                warning_type="error_max_budget_usd",
                message="Reached maximum budget ($0.02; spent $0.02)",
            )
        ),
    ),
    Row(
        rule="budget_reached",
        why="a call that failed was charged up to the cap",
        log=lambda: new(max_budget_usd=Decimal("0.02")).turn().paid("0.02").add(PROVIDER),
        step=says(
            SessionWarning(
                warning_type="error_max_budget_usd",
                message="Reached maximum budget ($0.02; spent $0.02)",
            )
        ),
    ),
    Row(
        rule="turn_cap_reached",
        why="the reply after the last tool-use turn asks for tools",
        log=lambda: (
            new(max_turns=1).reply(reply("", READ)).runs(READ).ends().reply(reply("", EDIT))
        ),
        step=says(
            SessionWarning(
                warning_type="error_max_turns", message="Reached maximum number of turns (1)"
            )
        ),
    ),
    Row(
        rule="turn_cap_reached",
        why="a kill came while the calls past the cap were refused",
        log=lambda: (
            new(max_turns=1)
            .reply(reply("", READ))
            .runs(READ)
            .ends()
            .reply(reply("", EDIT, BASH))
            .add(TURNS)
            .runs(EDIT, code="not_run")
            .resumes()
        ),
        step=says(
            SessionWarning(
                warning_type="error_max_turns", message="Reached maximum number of turns (1)"
            )
        ),
    ),
    Row(
        rule="hook_stop",
        why="a hook of the prompt said so",
        log=lambda: _hooked("UserPromptSubmit").add(
            answered(_hooked("UserPromptSubmit").spec, "UserPromptSubmit", stop_reason="Friday")
        ),
        step=says(
            SessionError(
                error_type="hook_stopped",
                message="A UserPromptSubmit hook stopped the run: Friday",
            )
        ),
    ),
    Row(
        rule="stopping_with_open_agents",
        why="a signal came while a sub-agent was at work",
        log=lambda: grown_up(new().reply(reply("", AGENT)).starts(AGENT)).add(SIGTERM),
        step=Say(events=(cancelled("Cancelled by SIGTERM"),), agent_id="a"),
    ),
    Row(
        rule="agent_left_open",
        why="its call was answered in another way: a resumed session has no such tool",
        log=lambda: (
            grown_up(new().reply(reply("", AGENT)).starts(AGENT))
            .resumes()
            .completes(AGENT, "unknown_tool")
        ),
        step=Say(events=(cancelled("The run was stopped"),), agent_id="a"),
    ),
    Row(
        rule="stopping_with_open_calls",
        why="a signal came while the second of three calls ran",
        log=lambda: new().reply(reply("", READ, EDIT, BASH)).runs(READ).starts(EDIT).add(SIGTERM),
        step=says(
            failed(EDIT, "cancelled", SENTENCES["cancelled"]),
            started(BASH),
            failed(BASH, "cancelled", SENTENCES["cancelled"]),
        ),
    ),
    Row(
        rule="stopping_with_open_calls",
        why="the budget is spent by a reply that asks for tools",
        log=lambda: new().reply(reply("", EDIT)).add(BUDGET),
        step=says(started(EDIT), failed(EDIT, "not_run", SENTENCES["not_run"])),
    ),
    Row(
        rule="stopping_with_open_calls",
        why="a resumed run stops before it could look at the call that a kill interrupted",
        log=lambda: new().reply(reply("", BASH, EDIT)).starts(BASH).resumes().add(PREFLIGHT),
        step=says(
            failed(BASH, "interrupted", SENTENCES["interrupted"]),
            started(EDIT),
            failed(EDIT, "not_run", SENTENCES["not_run"]),
        ),
    ),
    Row(
        rule="stopping_with_open_calls",
        why="a sub-agent was closed because of the budget: what it did stands",
        log=lambda: (
            grown_up(new().reply(reply("", AGENT)).starts(AGENT))
            .by("a", cancelled("The run was stopped"))
            .add(BUDGET)
        ),
        step=says(failed(AGENT, "cancelled", SENTENCES["cancelled"])),
    ),
    Row(
        rule="stopping_with_open_turn",
        why="the provider failed",
        log=lambda: new().turn().add(PROVIDER),
        step=TURN_END,
    ),
    Row(
        rule="stopping_with_open_compaction",
        why="a signal came while the summary was written",
        log=lambda: grown.full().add(grown.begins(), SIGTERM),
        step=says(
            SessionCompactionComplete(
                success=False, trigger="threshold", error="the run was stopped"
            )
        ),
    ),
    Row(
        rule="capped_unchecked",
        why="the turns are used up, and nobody knows yet whether the work is any good",
        log=lambda: new(verify=CHECKS).reply(reply("half")).ends().add(TURNS),
        step=Verify(start=RunnerVerifyStart(attempt=1, commands=("make test",))),
    ),
    Row(
        rule="stopped",
        why="the turn of the failed call is closed",
        log=lambda: new().turn().add(PROVIDER).ends(),
        step=Finish(
            ending=Ending(subtype="error_during_execution", error_type="rate_limit", message="429")
        ),
    ),
    Row(
        rule="hooks_due",
        why="a call has ended, and a hook is about it",
        log=lambda: _told_after(_hooked("PostToolUse")),
        step=RunHooks(points=(HookPoint(event="PostToolUse", subject="Read-1"),)),
    ),
    Row(
        rule="tools_pending",
        why="nothing ran yet: the read-only calls at the front run together",
        log=lambda: new().reply(reply("", READ, GLOB, EDIT, done().calls[0])),
        step=RunTools(calls=(READ, GLOB)),
    ),
    Row(
        rule="tools_pending",
        why="a call that changes something runs alone, and control calls wait",
        log=lambda: new().reply(reply("", done().calls[0], EDIT, READ)),
        step=RunTools(calls=(EDIT,)),
    ),
    Row(
        rule="control_accepted",
        why="the completion was accepted",
        log=lambda: new().reply(done("all fixed")).runs(done().calls[0]),
        step=says(SessionTaskComplete(summary="all fixed")),
    ),
    Row(
        rule="control_accepted",
        why="the block was accepted, although another control call waits",
        log=lambda: new().reply(reply("", BLOCKED, done().calls[0])).runs(BLOCKED),
        step=says(SessionTaskComplete(success=False, outcome="blocked", reason="no network")),
    ),
    Row(
        rule="output_unchecked",
        why="an object comes before the completion that needs it",
        log=lambda: new(output_schema=SCHEMA).reply(reply("", *done().calls, OUTPUT)),
        step=CheckOutput(value=OUTPUT.arguments, tool_call_id=OUTPUT.id),
    ),
    Row(
        rule="output_unchecked",
        why="the answer itself may be the object",
        log=lambda: new(output_schema=SCHEMA).reply(reply('{"ok": true}')),
        step=CheckOutput(value={"ok": True}),
    ),
    Row(
        rule="completion_unchecked",
        why="the task is said to be complete",
        log=lambda: new(verify=CHECKS).reply(done()),
        step=Verify(start=RunnerVerifyStart(attempt=1, commands=("make test",))),
    ),
    Row(
        rule="control_pending",
        why="the task is completed",
        log=lambda: new().reply(done("all fixed")),
        step=says(started(done("all fixed").calls[0]), accepted(done().calls[0])),
    ),
    Row(
        rule="control_pending",
        why="the model is blocked",
        log=lambda: new().reply(reply("", BLOCKED)),
        step=says(started(BLOCKED), accepted(BLOCKED)),
    ),
    Row(
        rule="control_pending",
        why="a kill came between the start of the completion and its answer",
        log=lambda: new().reply(done("all fixed")).starts(done().calls[0]).resumes(),
        step=says(accepted(done().calls[0])),
    ),
    Row(
        rule="control_pending",
        why="a completion without its summary is rejected",
        log=lambda: new().reply(reply("", NO_SUMMARY)),
        step=says(
            started(NO_SUMMARY),
            failed(
                NO_SUMMARY, "failed", "`task_complete` needs `summary`: a text that is not empty"
            ),
        ),
    ),
    Row(
        rule="turn_open",
        why="a text asks for nothing",
        log=lambda: new().reply(reply("half")),
        step=TURN_END,
    ),
    Row(
        rule="turn_open",
        why="every call has its result",
        log=lambda: new().reply(reply("", READ)).runs(READ),
        step=TURN_END,
    ),
    Row(
        rule="checks_given_up",
        why="the checks failed once, and once is all they may",
        log=lambda: (
            new(verify=CHECKS, limits=LimitsSpec(max_verify_attempts=1))
            .reply(done())
            .add(verified("bad"))
            .settle()
        ),
        step=Finish(
            ending=Ending(
                subtype="error_verification_failed",
                error_type="check_failed",
                message="Checks failed: `make test` (attempt 1 of 1)",
            )
        ),
    ),
    Row(
        rule="completed_denied",
        why="the completion was accepted, but a denial is fatal here",
        log=lambda: _denied(new(on_denied="fail")).reply(done()).settle(),
        step=DENIED,
    ),
    Row(
        rule="completion_unasked",
        why="a completion was accepted, and there are Stop hooks",
        log=lambda: _hooked("Stop").reply(done()).settle(),
        step=RunHooks(points=(HookPoint(event="Stop"),)),
    ),
    Row(
        rule="completion_refused",
        why="a Stop hook wants more",
        log=lambda: _refused_stop(_hooked("Stop").reply(done()).settle()),
        step=says(UserMessage(content="more", source="stop_hook")),
    ),
    Row(
        rule="completion_unproved",
        why="a Stop hook ran after the checks, and may have changed the work",
        log=lambda: _asked_stop(_proved()),
        step=Verify(start=RunnerVerifyStart(attempt=2, commands=("make test",))),
    ),
    Row(
        rule="completion_disproved",
        why="what the Stop hook left does not pass",
        log=lambda: _asked_stop(_proved()).add(verified("bad", attempt=2)),
        step=says(
            SessionTaskComplete(
                success=False, outcome="continue", reason="Checks failed: `make test`"
            ),
            UserMessage(content="`make test`: exit code 1\nbad", source="verify"),
        ),
    ),
    Row(
        rule="completed",
        why="what the Stop hook left passes",
        log=lambda: _asked_stop(_proved()).add(verified(exit_code=0, attempt=2)),
        step=SUCCESS,
    ),
    Row(
        rule="completed",
        why="a Stop hook was asked and said nothing",
        log=lambda: (
            _hooked("Stop").reply(done()).settle().add(answered(_hooked("Stop").spec, "Stop"))
        ),
        step=SUCCESS,
    ),
    Row(
        rule="completed",
        why="a call was denied, which is reported and no more",
        log=lambda: _denied(new()).reply(done()).settle(),
        step=SUCCESS,
    ),
    Row(
        rule="completed",
        why="a completion was accepted and its turn is closed",
        log=lambda: new().reply(done()).settle(),
        step=SUCCESS,
    ),
    Row(
        rule="blocked",
        why="the model said so and its turn is closed",
        log=lambda: new().reply(reply("", BLOCKED)).settle(),
        step=Finish(ending=Ending(subtype="error_task_blocked", message="Blocked: no network")),
    ),
    Row(
        rule="refused",
        why="the provider stopped the reply, although nudges are left",
        log=lambda: new().reply(reply("I will not", finish_reason="content_filter")).ends(),
        step=incomplete("refusal", "The model refused the task"),
    ),
    Row(
        rule="malformed",
        why="three replies in a row had a call nobody can run",
        log=lambda: _in_turns(new(), *[reply("", call("Nope"))] * 3, code="unknown_tool"),
        step=Finish(
            ending=Ending(
                subtype="error_during_execution",
                error_type="malformed_replies",
                message="The model gave 3 malformed replies in a row",
            )
        ),
    ),
    Row(
        rule="output_lacking",
        why="the answer is a text and should be an object",
        log=lambda: new(output_schema=SCHEMA, autopilot=False).reply(reply("42")).ends(),
        step=says(RunnerOutputCheck(valid=False, errors=("no object was given",))),
    ),
    Row(
        rule="output_given_up",
        why="the fifth attempt failed",
        log=lambda: new(output_schema=SCHEMA).add(*[MISMATCH] * 5),
        step=Finish(
            ending=Ending(
                subtype="error_max_structured_output_retries",
                message="Failed to provide valid structured output after 5 attempts: /ok: no",
            )
        ),
    ),
    Row(
        rule="output_sent_back",
        why="the answer is an object that does not fit",
        log=lambda: new(output_schema=SCHEMA).reply(reply('{"ok": 1}')).add(MISMATCH).ends(),
        step=says(UserMessage(content="- /ok: no", source="output_schema")),
    ),
    Row(
        rule="answer_denied",
        why="the answer is there, but a denial is fatal here",
        log=lambda: _denied(new(on_denied="fail", autopilot=False)).reply(reply("42")).ends(),
        step=DENIED,
    ),
    Row(
        rule="answer_refused",
        why="a Stop hook wants more",
        log=lambda: _refused_stop(_hooked("Stop", autopilot=False).reply(reply("42")).ends()),
        step=says(UserMessage(content="more", source="stop_hook")),
    ),
    Row(
        rule="answer_unchecked",
        why="the answer is there, and has to pass",
        log=lambda: new(verify=CHECKS, autopilot=False).reply(reply("42")).ends(),
        step=Verify(start=RunnerVerifyStart(attempt=1, commands=("make test",))),
    ),
    Row(
        rule="answer_unchecked",
        why="a Stop hook ran after the checks, and may have changed the work",
        log=lambda: _asked_stop(
            _hooked("Stop", verify=CHECKS, autopilot=False)
            .reply(reply("42"))
            .ends()
            .add(verified(exit_code=0))
        ),
        step=Verify(start=RunnerVerifyStart(attempt=2, commands=("make test",))),
    ),
    Row(
        rule="answer_sent_back",
        why="the answer did not pass",
        log=lambda: (
            new(verify=CHECKS, autopilot=False).reply(reply("42")).ends().add(verified("bad"))
        ),
        step=says(
            SessionTaskComplete(
                success=False, outcome="continue", reason="Checks failed: `make test`"
            ),
            UserMessage(content="`make test`: exit code 1\nbad", source="verify"),
        ),
    ),
    Row(
        rule="answer_unasked",
        why="the answer is there, and there are Stop hooks",
        log=lambda: _hooked("Stop", autopilot=False).reply(reply("42")).ends(),
        step=RunHooks(points=(HookPoint(event="Stop"),)),
    ),
    Row(
        rule="plain_answer",
        why="nobody expects a completion",
        log=lambda: new(autopilot=False).reply(reply("42")).ends(),
        step=SUCCESS,
    ),
    Row(
        rule="continues_exhausted",
        why="a text, and no nudge is left",
        log=lambda: new(max_autopilot_continues=0).reply(reply("half")).ends(),
        step=incomplete(
            "continues_exhausted",
            "The model stopped without completing the task (0 continues allowed)",
        ),
    ),
    Row(
        rule="continues_exhausted",
        why="a rejected completion would use up a nudge that is not left",
        log=lambda: new(max_autopilot_continues=0).reply(reply("", NO_SUMMARY)).settle(),
        step=incomplete(
            "continues_exhausted",
            "The model stopped without completing the task (0 continues allowed)",
        ),
    ),
    Row(
        rule="no_progress",
        why="the same text came three times",
        log=lambda: _in_turns(new(), *[reply("half")] * 3),
        step=incomplete("no_progress", "The model gave the same reply 3 times"),
    ),
    Row(
        rule="resumed",
        why="a kill came before anything was said",
        log=lambda: new().resumes(),
        step=says(NOTE),
    ),
    Row(
        rule="resumed",
        why="a kill came after a text: the note stands for the nudge",
        log=lambda: new().reply(reply("half")).ends().resumes(),
        step=says(NOTE),
    ),
    Row(
        rule="resumed",
        why="the last part stopped at a cap",
        log=lambda: new(max_turns=1).add(TURNS).finishes().resumes(carries=False),
        step=says(NOTE),
    ),
    Row(
        rule="nudge",
        why="a text, and nudges are left",
        log=lambda: new().reply(reply("half")).ends(),
        step=says(NUDGE),
    ),
    Row(
        rule="nudge",
        why="the reply ran into its output limit",
        log=lambda: new().reply(reply("half", finish_reason="length")).ends(),
        step=says(NUDGE),
    ),
    Row(
        rule="hook_context",
        why="a hook of the start adds something",
        log=lambda: _hooked("SessionStart").add(
            answered(_hooked("SessionStart").spec, "SessionStart", additional_context="Tuesday")
        ),
        step=says(UserMessage(content="Tuesday", source="hook")),
    ),
    Row(
        rule="compacted_by_hand",
        why="the summary stands",
        log=lambda: _by_hand().add(grown.begins("manual"), grown.helps(2, "manual")),
        step=SUCCESS,
    ),
    Row(
        rule="compacted_by_hand",
        why="the model could not be asked",
        log=lambda: _by_hand().add(grown.begins("manual"), grown.fails("manual")),
        step=says(
            SessionError(
                error_type="rate_limit", message="The conversation was not compacted: busy"
            )
        ),
    ),
    Row(
        rule="compact_by_hand",
        why="a resumed session has a conversation",
        log=lambda: _by_hand(),
        step=Compact(trigger="manual"),
    ),
    Row(
        rule="compact_by_hand",
        why="a new session has none",
        log=lambda: new(prompt="/compact"),
        step=says(
            SessionError(
                error_type="invalid_request",
                message="There is nothing to compact: `/compact` goes on with a session, "
                "see `run --resume`",
            )
        ),
    ),
    Row(
        rule="message_too_large",
        why="the result of one call is longer than the window",
        log=lambda: grown.read(grown.windowed(), 100_000, tokens=100),
        step=says(
            SessionWarning(
                warning_type="message_cut",
                message="A message does not fit the context window of 20000 tokens: from here on "
                "the model is shown at most 7916 bytes of each, head and tail",
                max_message_bytes=7916,
            )
        ),
    ),
    Row(
        rule="too_long",
        why="the provider refused the request, and there are older messages",
        log=lambda: _in_turns(new(), *[reply("", READ)] * 3).turn().add(TOO_LONG).ends(),
        step=Compact(trigger="context_limit_retry"),
    ),
    Row(
        rule="too_long",
        why="the model that took over reads less than was said",
        log=lambda: grown.full().turn().add(grown.too_long(30_000)).ends(),
        step=Compact(trigger="model_switch"),
    ),
    Row(
        rule="too_long",
        why="there is nothing to leave out",
        log=lambda: new().turn().add(TOO_LONG).ends(),
        step=says(
            SessionError(
                error_type="context_limit",
                message="The conversation is too long, and nothing shortens it",
            )
        ),
    ),
    Row(
        rule="compaction_in_vain",
        why="two attempts failed",
        log=lambda: grown.full().add(grown.begins(), grown.fails(), grown.begins(), grown.fails()),
        step=says(
            SessionWarning(
                warning_type="compaction_given_up",
                message="Compaction did not help 2 times in a row: the run goes on without, as far "
                "as the context window reaches",
            )
        ),
    ),
    Row(
        rule="compaction_due",
        why="the last request was above the threshold",
        log=grown.full,
        step=Compact(trigger="threshold"),
    ),
    Row(
        rule="ask",
        why="compaction was given up",
        log=lambda: (
            grown.full().add(grown.begins(), grown.fails(), grown.begins(), grown.fails()).settle()
        ),
        step=AskModel(),
    ),
    Row(
        rule="ask",
        why="the spec wants no compaction",
        log=lambda: grown.full(grown.windowed(enabled=False)),
        step=AskModel(),
    ),
    Row(
        rule="ask",
        why="nothing was asked yet",
        log=new,
        step=AskModel(),
    ),
    Row(
        rule="ask",
        why="the tools have run",
        log=lambda: new().reply(reply("", READ)).runs(READ).ends(),
        step=AskModel(),
    ),
    Row(
        rule="ask",
        why="a completion was rejected and uses up the last nudge",
        log=lambda: new(max_autopilot_continues=1).reply(reply("", NO_SUMMARY)).settle(),
        step=AskModel(),
    ),
)


def _by_hand() -> Log:
    """A session that is resumed with `/compact` as its prompt."""
    return _in_turns(new(), *[reply("", READ)] * 2).resumes("/compact").settle()


def _denied(log: Log) -> Log:
    """A turn whose one call a rule denied."""
    decided = PermissionCompleted(
        request_id="r", tool_call_id=BASH.id, result={"kind": "denied-by-rules"}, reason="no"
    )
    return log.reply(reply("", BASH)).add(decided).runs(BASH, code="denied").ends()


def _in_turns(log: Log, *replies: ModelReply, code: ErrorCode | None = None) -> Log:
    """These replies, their calls run, with the nudges they cause; the last turn is closed."""
    for number, said in enumerate(replies):
        if number:
            log.settle()
        log.reply(said).runs(*said.calls, code=code).ends()
    return log


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.rule}: {row.why}")
def test_the_table_says(row: Row) -> None:
    """The rule decides and gives the step when the log is the row's."""
    log = row.log()
    assert (log.rule, next_step(log.state)) == (row.rule, row.step)


def test_every_rule_has_a_row_in_order_and_its_own_name() -> None:
    """The rows name the rules of the table, all of them, in its order."""
    names = [rule.name for rule in RULES]
    assert list(dict.fromkeys(row.rule for row in TABLE)) == names
    assert len(set(names)) == len(names)


# -- precedence ------------------------------------------------------------------------------

STRENGTH = (
    (SIGTERM, CANCELLED),
    (BUDGET, Ending(subtype="error_max_budget_usd", message="no money")),
    (TIMEOUT, Ending(subtype="error_timeout", message="Reached the time limit (60 s)")),
    (TURNS, Ending(subtype="error_max_turns", message="no turns")),
    (
        PROVIDER,
        Ending(subtype="error_during_execution", error_type="rate_limit", message="429"),
    ),
)
"""Facts that stop a run and their endings, the strongest first."""


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("strong", "weak"),
    [
        (strong, weak)
        for strong in range(len(STRENGTH))
        for weak in range(strong + 1, len(STRENGTH))
        if type(STRENGTH[strong][0]) is not type(STRENGTH[weak][0])  # one abort, one trip a run
    ],
)
def test_of_two_facts_that_stop_a_run_the_stronger_names_the_ending(
    strong: int, weak: int, swapped: bool
) -> None:
    """Signal beats budget beats timeout beats turns beats provider, whichever came first."""
    facts = [STRENGTH[strong][0], STRENGTH[weak][0]]
    log = new(timeout=60.0).add(*(reversed(facts) if swapped else facts))
    assert next_step(log.state) == Finish(ending=STRENGTH[strong][1])


@pytest.mark.parametrize("facts", [*permutations((BUDGET, TIMEOUT, PROVIDER), 2)])
def test_a_limit_that_trips_after_an_accepted_completion_does_not_undo_it(
    facts: tuple[Persisted, ...],
) -> None:
    """The run succeeds when the task was completed before the limits."""
    log = new(timeout=60.0).reply(done()).settle().add(*facts)
    assert next_step(log.state) == SUCCESS


@pytest.mark.parametrize(("exit_code", "ending"), [(0, "success"), (1, "error_timeout")])
def test_a_deadline_while_hooks_kept_the_work_in_doubt_ends_as_the_checks_say(
    exit_code: int, ending: str
) -> None:
    """After it the checks run once more, and the completion stands when they pass."""
    log = _asked_stop(_proved(timeout=60.0)).add(TIMEOUT)
    assert log.rule == "capped_unchecked"
    last = next_step(log.add(verified(exit_code=exit_code, attempt=2)).state)
    assert isinstance(last, Finish)
    assert last.ending.subtype == ending


def test_a_completion_that_hooks_spoilt_no_longer_stands_and_uses_up_an_attempt() -> None:
    """The model works on; the next failure is the last one that is allowed."""
    log = _hooked("Stop", verify=CHECKS, limits=LimitsSpec(max_verify_attempts=2))
    log.reply(done()).add(verified(exit_code=0)).settle()
    assert _asked_stop(log).add(verified("bad", attempt=2)).rule == "checks_given_up"
    log = _asked_stop(_proved()).add(verified("bad", attempt=2)).settle()
    assert (log.state.completion, log.state.verify_attempts, log.rule) == (None, 2, "ask")


def test_hooks_of_the_end_leave_the_verdict_as_it_was() -> None:
    """They run when the ending is known."""
    log = _hooked("SessionEnd", verify=CHECKS).reply(done()).add(verified(exit_code=0)).settle()
    assert log.add(answered(log.spec, "SessionEnd")).rule == "completed"


def test_spending_at_the_cap_after_an_accepted_completion_is_still_a_success() -> None:
    """The completion stands when the money is gone only afterwards."""
    log = new(max_budget_usd=Decimal("0.02")).reply(done()).settle().turn().paid("0.02").ends()
    assert log.settle().rule == "completed"


def test_a_signal_wins_over_an_accepted_completion() -> None:
    """The run is cancelled when the signal comes before the result."""
    log = new().reply(done()).settle().add(SIGTERM)
    assert next_step(log.state) == Finish(ending=CANCELLED)


def test_sigint_has_its_own_error_type() -> None:
    """The ending is `cancelled` when the cause is SIGINT."""
    log = new().add(Abort(reason="user_initiated", cause="SIGINT"))
    message = "Cancelled by SIGINT"
    ending = Ending(subtype="error_during_execution", error_type="cancelled", message=message)
    assert next_step(log.state) == Finish(ending=ending)


def test_a_failure_before_the_spec_was_recorded_is_an_ending_too() -> None:
    """The run ends with the failure when nothing else is known."""
    bug = SessionError(error_type="internal", message="KeyError: 'x'")
    log = Log()
    bare = type(log.state)()
    log.state = bare
    log.add(bug)
    assert next_step(log.state) == Finish(
        ending=Ending(
            subtype="error_during_execution", error_type="internal", message="KeyError: 'x'"
        )
    )


# -- whole runs in miniature -----------------------------------------------------------------

X = reply("", READ)
T = reply("half")


def test_a_crossing_reply_with_a_completion_is_the_budget_error() -> None:
    """The completion is not honoured when the reply that holds it brings spending to the cap."""
    played = play(new(max_budget_usd=Decimal("0.02")), (X, "0.01"), (done(), "0.01"))
    assert (played.ending.subtype, played.asked, played.state.completion) == (
        "error_max_budget_usd",
        2,
        None,
    )


def test_a_crossing_plain_answer_is_the_budget_error() -> None:
    """The answer does not count when it brings spending to the cap."""
    log = new(autopilot=False, max_budget_usd=Decimal("0.01"))
    assert play(log, (T, "0.01")).ending.subtype == "error_max_budget_usd"


def test_the_tools_of_a_crossing_reply_are_not_run() -> None:
    """Nothing runs when the reply that asks for it brings spending to the cap."""
    played = play(new(max_budget_usd=Decimal("0.01")), (reply("", EDIT), "0.01"))
    assert (played.ran, played.state.main.replies_acted_on) == ((), 0)


def test_one_tool_then_the_answer_fits_under_a_cap_of_one() -> None:
    """The closing call is made when the turns are used up."""
    played = play(new(autopilot=False, max_turns=1), X, reply("bye"))
    assert (played.ending.subtype, played.asked) == ("success", 2)


def test_the_turn_cap_stops_before_the_edit() -> None:
    """A cap of two stops `test, read, edit` before the edit, with two turns done."""
    script = (reply("", BASH), reply("", READ, GLOB), reply("", EDIT, BASH))
    played = play(new(autopilot=False, max_turns=2), *script)
    main = played.state.main
    assert (played.ending, played.asked, played.ran, main.replies_acted_on, main.tool_turns) == (
        Ending(subtype="error_max_turns", message="Reached maximum number of turns (2)"),
        3,
        ("Bash", "Read", "Glob"),
        2,
        2,
    )


def test_several_calls_of_one_reply_are_one_turn() -> None:
    """A cap of one lets five calls run when they come in one reply."""
    calls = tuple(call("Read", f"id-{number}") for number in range(5))
    played = play(new(max_turns=1), reply("", *calls), done())
    assert (played.ending.subtype, len(played.ran)) == ("success", 5)


def test_nudges_texts_and_control_tools_do_not_count_as_turns() -> None:
    """A cap of one is not touched by texts, nudges and rejected completions."""
    script = (X, reply("a"), reply("", NO_SUMMARY), reply("b"), done())
    played = play(new(max_turns=1), *script)
    assert (played.ending.subtype, played.state.main.tool_turns) == ("success", 1)


def test_a_completion_beside_tools_past_the_cap_is_not_honoured() -> None:
    """The run ends at the cap when the completing reply also asks for a tool."""
    completing = reply("", EDIT, done().calls[0])
    played = play(new(max_turns=1), X, completing)
    assert (played.ending.subtype, played.ran, played.state.completion) == (
        "error_max_turns",
        ("Read",),
        None,
    )


def test_a_lone_completion_past_the_cap_is_honoured() -> None:
    """The run succeeds when the reply after the last turn only completes the task."""
    assert play(new(max_turns=1), X, done()).ending.subtype == "success"


def test_the_other_calls_of_a_completing_reply_run_first() -> None:
    """The tools run before the completion when one reply holds both."""
    played = play(new(), reply("", done().calls[0], EDIT))
    assert (played.ending.subtype, played.ran) == ("success", ("Edit",))


def test_denied_and_failed_calls_make_a_tool_use_turn() -> None:
    """The turn counts when none of its calls went well."""
    log = new(max_turns=1).reply(reply("", EDIT, BASH)).runs(EDIT, BASH, code="denied").settle()
    played = play(log, X)
    assert (played.ending.subtype, played.state.main.tool_turns) == ("error_max_turns", 1)


def test_without_caps_sixty_tool_turns_are_no_problem() -> None:
    """The run goes on when no cap is set."""
    assert play(new(), *[X] * 60, done()).ending.subtype == "success"


@pytest.mark.parametrize(("cap", "asked"), [(0, 1), (2, 3), (5, 6)])
def test_the_cap_on_nudges_is_exact(cap: int, asked: int) -> None:
    """N nudges allow N + 1 texts."""
    texts = [reply(f"text {number}") for number in range(10)]
    played = play(new(max_autopilot_continues=cap), *texts)
    assert (played.ending.error_type, played.asked, played.state.main.nudges) == (
        "continues_exhausted",
        asked,
        cap,
    )


def test_rejected_completions_use_up_nudges() -> None:
    """One nudge, one rejected completion: the second rejected one is too many."""
    played = play(new(max_autopilot_continues=1), *[reply("", NO_SUMMARY)] * 2)
    assert (played.ending.error_type, played.asked, played.state.main.nudges) == (
        "continues_exhausted",
        2,
        0,
    )


def test_a_rejected_completion_beside_a_tool_uses_up_nothing() -> None:
    """The nudges stay when the reply also did something."""
    played = play(new(max_autopilot_continues=0), reply("", READ, NO_SUMMARY), done())
    assert played.ending.subtype == "success"


def test_a_bad_completion_then_a_good_one_is_a_success() -> None:
    """The run goes on when a completion is rejected."""
    assert _shape(play(new(), reply("", NO_SUMMARY), done())) == ("success", None, 2)


def test_only_the_first_of_two_endings_in_one_reply_counts() -> None:
    """A completion is rejected when the same reply said it is blocked before."""
    assert _shape(play(new(), reply("", BLOCKED, done().calls[0]))) == (
        "error_task_blocked",
        None,
        1,
    )


@pytest.mark.parametrize("text", ["half", "", "  "])
def test_identical_texts_end_the_run_after_two_nudges(text: str) -> None:
    """Three of the same, and it stops: as no progress, or as malformed when they are empty."""
    wanted = "no_progress" if text.strip() else "malformed_replies"
    played = play(new(), *[reply(text)] * 3)
    assert (played.ending.error_type, played.asked, played.state.main.nudges) == (wanted, 3, 2)


def test_a_tool_call_in_between_is_progress() -> None:
    """Identical texts are not counted together when a tool was used between them."""
    assert _shape(play(new(), T, T, X, T, done())) == ("success", None, 5)


def test_a_good_reply_starts_the_count_of_malformed_ones_anew() -> None:
    """Two malformed, one good, two malformed: the run goes on."""
    log = new()
    for code in ("invalid_arguments", "unknown_tool", None, "invalid_arguments", "unknown_tool"):
        log = _in_turns(log, reply("", BASH), code=code)
    assert log.rule == "ask"


def test_an_unreadable_completion_is_rejected_with_what_is_wrong() -> None:
    """The reader's words are the result when the arguments could not be read."""
    cut = ToolCall(id="1", name="task_complete", arguments={}, problem="the JSON is cut off")
    log = new().reply(reply("", cut))
    assert next_step(log.state) == says(
        started(cut), failed(cut, "invalid_arguments", "the JSON is cut off")
    )


def test_plain_mode_knows_no_control_tools() -> None:
    """A completion is an unknown tool when autopilot is off."""
    complete = done().calls[0]
    log = new(autopilot=False).reply(done())
    assert next_step(log.state) == says(
        started(complete), failed(complete, "unknown_tool", "there is no tool `task_complete`")
    )


def test_plain_mode_never_nudges() -> None:
    """A text ends the run when autopilot is off."""
    played = play(new(autopilot=False), X, reply("bye"))
    assert (*_shape(played), played.state.main.nudges) == ("success", None, 2, 0)


def test_a_refusal_is_no_success_in_plain_mode_either() -> None:
    """The run is incomplete when the provider stopped the answer."""
    played = play(new(autopilot=False), reply("no", finish_reason="content_filter"))
    assert _shape(played) == ("error_task_incomplete", "refusal", 1)


def _shape(played: Played) -> tuple[str, str | None, int]:
    return played.ending.subtype, played.ending.error_type, played.asked
