"""How a run ended: exit codes and the result."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, get_args

import pytest

from runner.core.endings import (
    ADVICE,
    EXIT_ROWS,
    Ending,
    ErrorType,
    Subtype,
    advice_of,
    error_type_of,
    exit_code,
    row_of,
)
from runner.core.events import (
    Abort,
    McpListing,
    McpStatus,
    PermissionCompleted,
    RunnerPreflight,
    SessionError,
    SessionUsageCheckpoint,
    SessionWarning,
)
from runner.core.fold import apply
from runner.core.messages import FinishReason, Usage
from runner.core.outcome import build_result, final_text, result_json
from runner.core.state import State
from tests.fakes import call, done, reply
from tests.logs import MODEL, Log, task

PROMISED: Mapping[tuple[str, str | None], int] = {
    ("success", None): 0,
    ("error_during_execution", "invalid_request"): 1,
    ("error_during_execution", "model_not_found"): 1,
    ("error_during_execution", "context_limit"): 1,
    ("error_during_execution", "malformed_replies"): 1,
    ("error_during_execution", "hook_stopped"): 1,
    ("error_max_turns", None): 3,
    ("error_max_budget_usd", None): 4,
    ("error_max_structured_output_retries", None): 5,
    ("error_task_incomplete", "continues_exhausted"): 6,
    ("error_task_incomplete", "no_progress"): 6,
    ("error_task_incomplete", "refusal"): 6,
    ("error_task_blocked", None): 7,
    ("error_verification_failed", "check_failed"): 8,
    ("error_verification_failed", "required_changes_missing"): 8,
    ("error_verification_failed", "forbidden_changes"): 8,
    ("error_timeout", None): 9,
    ("error_permission_denied", None): 10,
    ("error_policy_violation", "protected_path_changed"): 11,
    ("error_policy_violation", "check_tampered"): 11,
    ("error_during_execution", "quota"): 69,
    ("error_during_execution", "internal"): 70,
    ("error_during_execution", "log_write"): 74,
    ("error_during_execution", "provider_unavailable"): 75,
    ("error_during_execution", "rate_limit"): 75,
    ("error_during_execution", "locked"): 75,
    ("error_during_execution", "authentication"): 77,
    ("error_during_execution", "preflight"): 78,
    ("error_during_execution", "cancelled"): 130,
    ("error_during_execution", "terminated"): 143,
}
"""Every ending there is, and the exit code people were promised for it."""


@pytest.mark.parametrize(("ending", "code"), PROMISED.items(), ids=str)
def test_every_ending_has_its_exit_code(
    ending: tuple[Subtype, ErrorType | None], code: int
) -> None:
    """The code follows from subtype and error type alone."""
    subtype, error_type = ending
    assert exit_code(Ending(subtype=subtype, error_type=error_type)) == code


@pytest.mark.parametrize("ending", PROMISED, ids=str)
def test_causes_that_share_a_code_say_what_to_do_about_each(
    ending: tuple[Subtype, ErrorType | None],
) -> None:
    """The row's advice where nothing more is known; a cause of its own never stands in it too."""
    subtype, error_type = ending
    row = row_of(Ending(subtype=subtype, error_type=error_type))
    told = advice_of(row, error_type)
    assert told == (ADVICE.get(error_type, row.advice) if error_type else row.advice)
    assert (told == row.advice) == (error_type not in ADVICE)


def test_no_subtype_and_no_error_type_is_without_a_code() -> None:
    """The promise covers every word an ending can be made of."""
    assert {subtype for subtype, _ in PROMISED} == set(get_args(Subtype))
    assert {error_type for _, error_type in PROMISED if error_type} == set(get_args(ErrorType))


def test_the_table_has_one_row_a_code_and_a_row_for_usage_errors() -> None:
    """The codes are pairwise different, and 2 belongs to no ending."""
    codes = [row.code for row in EXIT_ROWS]
    assert codes == sorted({2, *PROMISED.values()})
    assert [row.code for row in EXIT_ROWS if row.subtype is None] == [2]


@pytest.mark.parametrize(
    ("recorded", "error_type"),
    [
        ("rate_limit", "rate_limit"),
        ("internal", "internal"),
        ("check_failed", "internal"),
        ("newer", "internal"),
    ],
)
def test_a_failure_of_an_unknown_type_is_our_bug(recorded: str, error_type: str) -> None:
    """The type is `internal` when no failure of a run has the recorded one."""
    assert error_type_of(recorded) == error_type


def result_of(state: State, ending: Ending, **fields: Any) -> dict[str, Any]:
    return result_json(build_result(state, ending, session_id="s", uuid="u", **fields))


def test_the_result_of_a_good_run_holds_everything_but_errors() -> None:
    """Every field is a fold of the log when the run succeeded."""
    edit = call("Edit", file_path="a")
    log = Log().reply(reply("", edit), cost_usd="0.25").runs(edit, code="denied").settle()
    log.reply(reply("half"), cost_usd="0.25").settle()
    log.journal.clock.tick(1.5)
    log.reply(done("fixed"), cost_usd="0.5").settle()
    assert result_of(log.state, Ending(subtype="success"), log_head="ab") == {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "session_id": "s",
        "uuid": "u",
        "num_turns": 3,
        "duration_ms": 1500,
        "duration_api_ms": 0,
        "stop_reason": "tool_use",
        "total_cost_usd": 1,
        "max_overshoot_usd": 0,
        "usage": {
            "input_tokens": 300,
            "output_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
        "modelUsage": {
            MODEL: {
                "inputTokens": 300,
                "outputTokens": 0,
                "cacheReadInputTokens": 0,
                "cacheCreationInputTokens": 0,
                "webSearchRequests": 0,
                "costUSD": 1,
            }
        },
        "permission_denials": [],
        "terminal_reason": "completed",
        "result": "fixed",
        "exit_code": 0,
        "num_tool_turns": 1,
        "num_llm_calls": 3,
        "num_nudges": 1,
        "task_completed": True,
        "cost_basis": "spec",
        "sandbox": "process",
        "log_head": "ab",
        "survivors": [],
        "verification": {"status": "not_configured", "checks": []},
    }


def test_the_result_of_a_failed_run_says_why_and_has_no_answer() -> None:
    """`errors` stands where `result` would when the run failed; nothing was asked yet."""
    ending = Ending(subtype="error_during_execution", error_type="internal", message="KeyError")
    failure = SessionError(error_type="internal", message="KeyError", status_code=500)
    log = Log()
    log.state = State()
    result = result_of(log.add(failure).state, ending)
    assert result == {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "session_id": "s",
        "uuid": "u",
        "num_turns": 0,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "stop_reason": None,
        "total_cost_usd": 0,
        "max_overshoot_usd": 0,
        "usage": {
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
        "modelUsage": {},
        "permission_denials": [],
        "terminal_reason": "internal",
        "errors": ["KeyError"],
        "error_type": "internal",
        "api_error_status": 500,
        "exit_code": 70,
        "num_tool_turns": 0,
        "num_llm_calls": 0,
        "num_nudges": 0,
        "task_completed": False,
        "cost_basis": "none",
        "sandbox": "none",
        "survivors": [],
        "verification": {"status": "not_configured", "checks": []},
    }


def test_a_run_of_nothing_has_a_result() -> None:
    """Every field has a value when not even the first event was written."""
    ending = Ending(subtype="error_during_execution", error_type="locked")
    result = result_of(State(), ending)
    assert (result["duration_ms"], result["errors"]) == (0, [row_of(ending).meaning])


@pytest.mark.parametrize("ending", PROMISED, ids=str)
def test_every_ending_but_success_is_an_error_with_a_sentence(
    ending: tuple[Subtype, ErrorType | None],
) -> None:
    """`errors` is not empty, `result` absent and a reason given when the run did not succeed."""
    subtype, error_type = ending
    result = result_of(Log().state, Ending(subtype=subtype, error_type=error_type))
    ok = subtype == "success"
    assert (result["is_error"], "result" in result, bool(result.get("errors"))) == (
        not ok,
        ok,
        not ok,
    )
    assert result["terminal_reason"]


def test_the_status_of_a_failed_call_is_no_news_when_the_run_succeeded() -> None:
    """`api_error_status` is absent on success."""
    failure = SessionError(error_type="rate_limit", message="429", status_code=429)
    log = Log().reply(done()).settle().add(failure)
    assert "api_error_status" not in result_of(log.state, Ending(subtype="success"))


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("content_filter", "refusal"),
    ],
)
def test_the_stop_reason_is_that_of_the_last_reply(finish: FinishReason, stop: str) -> None:
    """It keeps its value when the run is stopped in the turn after."""
    log = Log().reply(reply("a", finish_reason=finish)).settle()
    log = log.add(Abort(reason="user_initiated", cause="SIGINT"))
    ending = Ending(subtype="error_during_execution", error_type="cancelled")
    assert result_of(log.state, ending)["stop_reason"] == stop


def test_the_summary_is_the_answer_and_the_last_text_where_there_is_none() -> None:
    """The summary wins when a completion was accepted; a rejected or blocked one has none."""
    completed = Log().reply(reply("I am done.", *done("It is 42.").calls)).settle()
    blocked = Log().reply(reply("I cannot.", call("task_blocked", reason="no network"))).settle()
    plain = Log(task(autopilot=False)).reply(reply("It is 43.")).settle()
    states = (completed.state, blocked.state, plain.state, Log().state)
    assert [final_text(state) for state in states] == ["It is 42.", "I cannot.", "It is 43.", ""]


def test_a_denied_call_is_in_the_result_with_its_input() -> None:
    """Tool, id and input are listed when a call was denied."""
    denial = {"tool_name": "Edit", "tool_use_id": "1", "tool_input": {"file_path": "a"}}
    log = Log().reply(reply("", call("Edit", "1", file_path="a")))
    log.add(
        PermissionCompleted(
            request_id="r", tool_call_id="1", result={"kind": "denied-by-rules"}, reason="rule"
        )
    )
    assert result_of(log.state, Ending(subtype="success"))["permission_denials"] == [denial]


def test_a_run_paid_on_two_bases_says_so() -> None:
    """`cost_basis` is `mixed` when one call was charged as reserved."""
    log = Log().reply(reply("a"))
    log.turn().add(
        SessionUsageCheckpoint(
            model=MODEL, cost_usd=Decimal(1), total_cost_usd=Decimal(1), basis="reserved"
        )
    )
    assert result_of(log.state, Ending(subtype="error_timeout"))["cost_basis"] == "mixed"


def test_a_charged_call_without_a_reply_is_no_model_call() -> None:
    """Only answered calls are counted when a stream was cut and paid."""
    log = Log(task()).turn().paid("0.1").ends().reply(reply("a"))
    assert result_of(log.state, Ending(subtype="error_timeout"))["num_llm_calls"] == 1


def test_usage_is_that_of_the_main_loop() -> None:
    """A sub-agent's tokens are in `modelUsage` and not in `usage`."""
    log = Log().turn().paid("0", Usage(input_tokens=1)).hears(reply("a"))
    spent = SessionUsageCheckpoint(
        model="other",
        cost_usd=Decimal(0),
        total_cost_usd=Decimal(0),
        basis="spec",
        input_tokens=5,
    )
    state = apply(log.state, log.journal.append(spent, "sub-1"))
    result = result_of(state, Ending(subtype="error_timeout"))
    assert (result["usage"]["input_tokens"], result["modelUsage"]["other"]["inputTokens"]) == (1, 5)


def test_the_result_says_how_things_stand_with_the_servers() -> None:
    """As they were last: what was lost and did not come back has failed. A word on a server before
    the preflight, or on one that is not listed, changes nothing."""

    def said(server: str, status: McpStatus) -> SessionWarning:
        return SessionWarning(warning_type="x", message="y", mcp_server=server, mcp_status=status)

    servers = tuple(McpListing(name=name, status="connected") for name in ("a", "b", "c"))
    listed = RunnerPreflight(
        checks=(), tools=(), sandbox="none", workspace="/", mcp_servers=servers
    )
    log = Log()
    early = apply(State(), log.journal.append(said("a", "failed")))
    assert early.preflight is None
    log.add(listed, said("a", "failed"), said("b", "failed"), said("b", "connected"))
    log.add(said("z", "failed"))
    result = build_result(log.state, Ending(subtype="success"), session_id="s", uuid="u")
    assert result_json(result)["mcp_servers"] == [
        {"name": "a", "status": "failed"},
        {"name": "b", "status": "connected"},
        {"name": "c", "status": "connected"},
    ]
