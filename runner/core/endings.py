"""The endings of a run and their exit codes: one table, and the functions that read it.

The exit code is computed here and nowhere else, from the ending alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
        meaning="the task is done",
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
        advice="fix what the cause names",
    ),
    ExitRow(
        code=130,
        subtype=_EXEC,
        error_types=("cancelled",),
        meaning="cancelled by SIGINT, or by the program that has it run",
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

ADVICE: dict[ErrorType, str] = {
    "model_not_found": "correct `model`: its provider knows no such one",
    "context_limit": "split the task, or take a model with a larger window",
    "malformed_replies": "run it again, or take a model that is better at calling tools",
    "hook_stopped": "read the cause: it is the hook's own reason",
    "continues_exhausted": "say in `prompt` what is done when, or raise `max_autopilot_continues`",
    "no_progress": "make `prompt` more specific, then run it again",
    "refusal": "reword `prompt`: the model refuses the task as it is",
    "locked": "wait for the run that writes the session, or start a session of its own",
    "rate_limit": "run it again later, or name `fallback_models`",
    "provider_unavailable": "run it again later, or name `fallback_models`",
    "preflight": "`autopilot doctor SPEC` checks it again without a run",
}
"""What to do about one error type, where its row of the table is too general."""


def advice_of(row: ExitRow, error_type: str | None) -> str:
    """What to do about an ending of this row."""
    specific = (ADVICE[known] for known in ADVICE if known == error_type)
    return next(specific, row.advice)


def row_of(ending: Ending) -> ExitRow:
    """The row of the exit-code table an ending belongs to."""
    return _ROW_OF[ending.subtype, ending.error_type]


def exit_code(ending: Ending) -> int:
    """The process's exit code: a pure function of subtype and error type."""
    return row_of(ending).code


def error_type_of(name: str) -> ErrorType:
    """The error type of a recorded failure, or `internal` when no failure has this one."""
    return next((known for known in _FAILURES if known == name), "internal")
