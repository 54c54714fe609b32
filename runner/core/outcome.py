"""The result of a run: a fold of its log and its ending, in Claude's words and then ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from runner.core import verification, wire
from runner.core.endings import TERMINAL_REASONS, Ending, Subtype, exit_code, row_of
from runner.core.events import SandboxReport
from runner.core.ledger import ZERO, Ledger, ModelTotals
from runner.core.messages import Usage
from runner.core.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The last word on a run. Field names are those of Claude's ResultMessage, then ours.

    `result` is there only on success, `errors` is non-empty exactly when it is not.
    `max_overshoot_usd` is how far a provider that misreports its tokens can have gone over the cap.
    `mcp_servers` is how things stood with them last: one that was lost for good has failed.
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
    verification: Mapping[str, Any]
    sandbox_report: SandboxReport | None = None
    max_overshoot_usd: Decimal = ZERO
    survivors: tuple[str, ...] = ()
    mcp_servers: tuple[Mapping[str, str], ...] | None = None
    type: str = "result"
    stop_reason: str | None = None
    result: str | None = None
    structured_output: Mapping[str, Any] | None = None
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
    cap = state.spec.max_budget_usd if state.spec else None
    reason = TERMINAL_REASONS.get(ending.error_type or "") or TERMINAL_REASONS.get(ending.subtype)
    return Result(
        subtype=ending.subtype,
        is_error=not ok,
        session_id=session_id,
        uuid=uuid,
        num_turns=main.replies_acted_on,
        duration_ms=state.duration_ms,
        duration_api_ms=state.ledger.api_duration_ms,
        stop_reason=STOP_REASONS.get(main.finish_reason or ""),
        total_cost_usd=state.ledger.spent_usd,
        usage=_usage(state.usage),
        modelUsage={name: _model_usage(totals) for name, totals in state.ledger.models.items()},
        permission_denials=state.denials,
        terminal_reason=reason or ending.error_type or ending.subtype,
        result=final_text(state) if ok else None,
        structured_output=state.output if ok else None,
        errors=None if ok else (ending.message or row_of(ending).meaning,),
        error_type=ending.error_type,
        exit_code=exit_code(ending),
        num_tool_turns=main.tool_turns,
        num_llm_calls=model_calls(state),
        num_nudges=main.nudges,
        task_completed=bool(state.completion and state.completion.success),
        cost_basis=_basis(state.ledger),
        max_overshoot_usd=state.ledger.max_overshoot_usd(cap),
        sandbox=state.preflight.sandbox if state.preflight else "none",
        sandbox_report=state.preflight.sandbox_report if state.preflight else None,
        verification=verification.summary(state),
        survivors=state.survivors,
        mcp_servers=_servers(state),
        api_error_status=state.failure.status_code if state.failure and not ok else None,
        workspace_diff=workspace_diff,
        log_head=log_head,
    )


def _servers(state: State) -> tuple[Mapping[str, str], ...] | None:
    """How things stand with the MCP servers now, in the shape of Claude's init message."""
    listed = state.preflight.mcp_servers if state.preflight else ()
    return tuple({"name": one.name, "status": one.status} for one in listed) or None


def model_calls(state: State) -> int:
    """How often a model answered, whoever asked it."""
    return sum(thread.replies + thread.summaries for thread in state.threads.values())


def final_text(state: State) -> str:
    """The answer: the summary of an accepted completion, else the text of the last reply.

    The model is told to put the answer into the summary; beside the call most models write a
    word or two that is no answer.
    """
    if state.completion is not None and state.completion.success:
        return state.completion.summary
    if state.main.reply is None and state.main.compacted is not None:
        return state.main.compacted.summary_content or ""
    return state.main.reply.text if state.main.reply else ""


def result_json(result: Result) -> dict[str, Any]:
    """The result as the JSON object of `result.json`, the last event and stdout."""
    data: dict[str, Any] = wire.encode(result)
    first = {"type": result.type, "subtype": result.subtype}
    return first | {"stop_reason": None} | data


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
        "webSearchRequests": totals.searches,
        "costUSD": totals.cost_usd,
    }


def _basis(ledger: Ledger) -> str:
    if not ledger.bases:
        return "none"
    return next(iter(ledger.bases)) if len(ledger.bases) == 1 else "mixed"
