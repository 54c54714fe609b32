"""How a run ended: the endings, their exit codes, and the result built from the state.

The exit code is computed here and nowhere else, from the ending alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from runner.core import wire
from runner.core.ledger import Ledger, ModelTotals
from runner.core.messages import Usage
from runner.core.state import State

Subtype = Literal[
    "success",
    "error_max_turns",
    "error_max_budget_usd",
    "error_during_execution",
    "error_max_structured_output_retries",
    "error_task_incomplete",
    "error_task_blocked",
    "error_verification_failed",
    "error_timeout",
    "error_permission_denied",
    "error_policy_violation",
]
ErrorType = Literal[
    "invalid_request",
    "model_not_found",
    "context_limit",
    "malformed_replies",
    "hook_stopped",
    "continues_exhausted",
    "no_progress",
    "refusal",
    "check_failed",
    "required_changes_missing",
    "forbidden_changes",
    "protected_path_changed",
    "check_tampered",
    "quota",
    "internal",
    "log_write",
    "provider_unavailable",
    "rate_limit",
    "locked",
    "authentication",
    "preflight",
    "cancelled",
    "terminated",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run stopped and why, in words a person can act on."""

    subtype: Subtype
    error_type: ErrorType | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRow:
    """One row of the exit-code table."""

    code: int
    subtype: Subtype | None
    error_types: tuple[ErrorType, ...]
    meaning: str
    advice: str


USAGE_ERROR = 2
"""A bad command line or spec: nothing ran, there is no session."""

_EXEC: Subtype = "error_during_execution"

EXIT_ROWS: tuple[ExitRow, ...] = (
    ExitRow(
        code=0,
        subtype="success",
        error_types=(),
        meaning="done, and every check passed",
        advice="go on",
    ),
    ExitRow(
        code=1,
        subtype=_EXEC,
        error_types=(
            "invalid_request",
            "model_not_found",
            "context_limit",
            "malformed_replies",
            "hook_stopped",
        ),
        meaning="the run could not go on",
        advice="look at the log",
    ),
    ExitRow(
        code=USAGE_ERROR,
        subtype=None,
        error_types=(),
        meaning="bad command line or spec; nothing ran",
        advice="fix the spec",
    ),
    ExitRow(
        code=3,
        subtype="error_max_turns",
        error_types=(),
        meaning="the turn cap was reached",
        advice="raise `max_turns` or split the task",
    ),
    ExitRow(
        code=4,
        subtype="error_max_budget_usd",
        error_types=(),
        meaning="the budget does not pay for another call",
        advice="raise `max_budget_usd` or split the task",
    ),
    ExitRow(
        code=5,
        subtype="error_max_structured_output_retries",
        error_types=(),
        meaning="no answer matched the output schema",
        advice="look at the log",
    ),
    ExitRow(
        code=6,
        subtype="error_task_incomplete",
        error_types=("continues_exhausted", "no_progress", "refusal"),
        meaning="the model stopped without completing the task",
        advice="look at the log, maybe run again",
    ),
    ExitRow(
        code=7,
        subtype="error_task_blocked",
        error_types=(),
        meaning="the model says a person is needed",
        advice="read the reason, then decide",
    ),
    ExitRow(
        code=8,
        subtype="error_verification_failed",
        error_types=("check_failed", "required_changes_missing", "forbidden_changes"),
        meaning="the work did not pass its checks",
        advice="treat it as a real red",
    ),
    ExitRow(
        code=9,
        subtype="error_timeout",
        error_types=(),
        meaning="the wall clock ran out",
        advice="raise `timeout` or split the task",
    ),
    ExitRow(
        code=10,
        subtype="error_permission_denied",
        error_types=(),
        meaning="a call was denied and the spec makes that fatal",
        advice="fix the policy",
    ),
    ExitRow(
        code=11,
        subtype="error_policy_violation",
        error_types=("protected_path_changed", "check_tampered"),
        meaning="something protected was changed",
        advice="treat it as a security event",
    ),
    ExitRow(
        code=69,
        subtype=_EXEC,
        error_types=("quota",),
        meaning="the provider account has no credit left",
        advice="do not retry; pay",
    ),
    ExitRow(
        code=70,
        subtype=_EXEC,
        error_types=("internal",),
        meaning="a bug in the runner",
        advice="report it with the log",
    ),
    ExitRow(
        code=74,
        subtype=_EXEC,
        error_types=("log_write",),
        meaning="the log could not be written",
        advice="fix the disk of the machine",
    ),
    ExitRow(
        code=75,
        subtype=_EXEC,
        error_types=("provider_unavailable", "rate_limit", "locked"),
        meaning="something is busy or down",
        advice="retry later",
    ),
    ExitRow(
        code=77,
        subtype=_EXEC,
        error_types=("authentication",),
        meaning="the provider refused the key",
        advice="fix the key",
    ),
    ExitRow(
        code=78,
        subtype=_EXEC,
        error_types=("preflight",),
        meaning="the machine or the job is not ready; no model call was made",
        advice="fix the job",
    ),
    ExitRow(
        code=130,
        subtype=_EXEC,
        error_types=("cancelled",),
        meaning="cancelled by SIGINT",
        advice="nothing to fix",
    ),
    ExitRow(
        code=143,
        subtype=_EXEC,
        error_types=("terminated",),
        meaning="cancelled by SIGTERM or SIGHUP",
        advice="nothing to fix",
    ),
)

_ROW_OF = {
    (row.subtype, error_type): row
    for row in EXIT_ROWS
    if row.subtype
    for error_type in (row.error_types or (None,))
}

_FAILURES = tuple(
    error_type for row in EXIT_ROWS if row.subtype == _EXEC for error_type in row.error_types
)

TERMINAL_REASONS: dict[str, str] = {
    "success": "completed",
    "error_max_turns": "max_turns",
    "error_max_budget_usd": "budget_exhausted",
    "error_max_structured_output_retries": "structured_output_retry_exhausted",
    "error_timeout": "timeout",
    "error_task_blocked": "blocked",
    "continues_exhausted": "autopilot_continues_exhausted",
    "malformed_replies": "malformed_tool_use_exhausted",
    "context_limit": "prompt_too_long",
    "cancelled": "aborted",
    "terminated": "aborted",
    "quota": "api_error",
    "provider_unavailable": "api_error",
    "rate_limit": "api_error",
    "authentication": "api_error",
    "invalid_request": "api_error",
    "model_not_found": "api_error",
}
"""Claude's word for an ending where it has one, looked up by error type, then by subtype."""


def row_of(ending: Ending) -> ExitRow:
    """The row of the exit-code table an ending belongs to."""
    return _ROW_OF[ending.subtype, ending.error_type]


def exit_code(ending: Ending) -> int:
    """The process's exit code: a pure function of subtype and error type."""
    return row_of(ending).code


def error_type_of(name: str) -> ErrorType:
    """The error type of a recorded failure, or `internal` when no failure has this one."""
    return next((known for known in _FAILURES if known == name), "internal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The last word on a run. Field names are those of Claude's ResultMessage, then ours.

    `result` is there only on success, `errors` is non-empty exactly when it is not.
    Costs are US dollars, durations milliseconds, `usage` is the main loop's.
    """

    wire_case = "snake"

    subtype: Subtype
    is_error: bool
    session_id: str
    uuid: str
    num_turns: int
    duration_ms: int
    duration_api_ms: int
    total_cost_usd: Decimal
    usage: dict[str, int]
    modelUsage: dict[str, Any]  # Claude's spelling
    permission_denials: tuple[Any, ...]
    terminal_reason: str
    exit_code: int
    num_tool_turns: int
    num_llm_calls: int
    num_nudges: int
    task_completed: bool
    cost_basis: str
    sandbox: str
    type: str = "result"
    stop_reason: str | None = None
    result: str | None = None
    errors: tuple[str, ...] | None = None
    error_type: str | None = None
    api_error_status: int | None = None
    workspace_diff: Mapping[str, Any] | None = None
    log_head: str | None = None


STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
"""Our finish reasons (OpenAI's words) as Claude's stop reasons."""


def build_result(
    state: State,
    ending: Ending,
    *,
    session_id: str,
    uuid: str,
    log_head: str | None = None,
    workspace_diff: Mapping[str, Any] | None = None,
) -> Result:
    """The result of a run that ended like this; everything but the ids is a fold of the log."""
    ok = ending.subtype == "success"
    main = state.main
    reason = TERMINAL_REASONS.get(ending.error_type or "") or TERMINAL_REASONS.get(ending.subtype)
    return Result(
        subtype=ending.subtype,
        is_error=not ok,
        session_id=session_id,
        uuid=uuid,
        num_turns=main.replies_acted_on,
        duration_ms=_elapsed_ms(state),
        duration_api_ms=state.ledger.api_duration_ms,
        stop_reason=STOP_REASONS.get(main.finish_reason or ""),
        total_cost_usd=state.ledger.spent_usd,
        usage=_usage(state.usage),
        modelUsage={name: _model_usage(totals) for name, totals in state.ledger.models.items()},
        permission_denials=state.denials,
        terminal_reason=reason or ending.error_type or ending.subtype,
        result=final_text(state) if ok else None,
        errors=None if ok else (ending.message or row_of(ending).meaning,),
        error_type=ending.error_type,
        exit_code=exit_code(ending),
        num_tool_turns=main.tool_turns,
        num_llm_calls=sum(thread.replies for thread in state.threads.values()),
        num_nudges=main.nudges,
        task_completed=bool(state.completion and state.completion.success),
        cost_basis=_basis(state.ledger),
        sandbox=state.preflight.sandbox if state.preflight else "none",
        api_error_status=state.failure.status_code if state.failure and not ok else None,
        workspace_diff=workspace_diff,
        log_head=log_head,
    )


def final_text(state: State) -> str:
    """The text of the last reply, else the completion summary."""
    reply = state.main.reply
    text = reply.text if reply and reply.text.strip() else ""
    return text or (state.completion.summary if state.completion else "")


def result_json(result: Result) -> dict[str, Any]:
    """The result as the JSON object of `result.json`, the last event and stdout."""
    data: dict[str, Any] = wire.encode(result)
    return {"stop_reason": None} | data


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
    }


def _model_usage(totals: ModelTotals) -> dict[str, Any]:
    return {
        "inputTokens": totals.usage.input_tokens,
        "outputTokens": totals.usage.output_tokens,
        "cacheReadInputTokens": totals.usage.cache_read_tokens,
        "cacheCreationInputTokens": totals.usage.cache_write_tokens,
        "webSearchRequests": 0,
        "costUSD": totals.cost_usd,
    }


def _basis(ledger: Ledger) -> str:
    if not ledger.bases:
        return "none"
    return next(iter(ledger.bases)) if len(ledger.bases) == 1 else "mixed"


def _elapsed_ms(state: State) -> int:
    if state.first_timestamp is None or state.last_timestamp is None:
        return 0
    first, last = map(datetime.fromisoformat, (state.first_timestamp, state.last_timestamp))
    return round((last - first).total_seconds() * 1000)
