"""The end of a run: one result, written last, whatever happened before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runner.core import wire
from runner.core.endings import Ending, exit_code
from runner.core.events import RunnerResult, SessionIdle, SessionShutdown
from runner.core.outcome import build_result, result_json
from runner.core.state import State
from runner.engine.recorder import Recorder

ROUTINE = frozenset({"success", "error_max_turns", "error_max_budget_usd", "error_timeout"})
"""Endings that are no malfunction in the SDK's two words, routine and error."""

NO_CHANGES: Mapping[str, Any] = {"linesAdded": 0, "linesRemoved": 0, "filesModified": []}


def record_result(
    recorder: Recorder,
    ending: Ending,
    *,
    session_id: str,
    uuid: str,
    workspace_diff: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Record the result and the shutdown; the result as its JSON object. Raises `JournalError`."""
    result = result_json(
        build_result(
            recorder.state,
            ending,
            session_id=session_id,
            uuid=uuid,
            log_head=recorder.journal.head,
            workspace_diff=workspace_diff,
        )
    )
    recorded = recorder.record(RunnerResult(result=result)).event
    if isinstance(recorded, RunnerResult):  # without secrets
        result = dict(recorded.result)
    recorder.record(_shutdown(recorder.state, ending, workspace_diff))
    recorder.show(SessionIdle(aborted=True if recorder.state.abort else None))
    return result


def _shutdown(
    state: State, ending: Ending, workspace_diff: Mapping[str, Any] | None
) -> SessionShutdown:
    routine = ending.subtype in ROUTINE
    began = datetime.fromisoformat(state.first_timestamp) if state.first_timestamp else None
    return SessionShutdown(
        shutdown_type="routine" if routine else "error",
        session_start_time=round(began.timestamp() * 1000) if began else 0,
        total_api_duration_ms=state.ledger.api_duration_ms,
        code_changes=_code_changes(workspace_diff),
        model_metrics=_model_metrics(state),
        result_subtype=ending.subtype,
        exit_code=exit_code(ending),
        total_cost_usd=state.ledger.spent_usd,
        current_model=state.model,
        error_reason=None if routine else ending.message or ending.error_type or ending.subtype,
    )


def _code_changes(diff: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if diff is None:
        return NO_CHANGES
    named = [file["path"] for file in diff["files"]]
    total = diff.get("files_total", len(named))
    return {
        "linesAdded": diff["lines_added"],
        "linesRemoved": diff["lines_removed"],
        "filesModified": named,
        **({"filesModifiedTotal": total} if total > len(named) else {}),
    }


def _model_metrics(state: State) -> Mapping[str, Any]:
    return {
        name: {
            "requests": {"count": totals.calls, "cost": 0},
            "usage": {
                "inputTokens": totals.usage.input_tokens,
                "outputTokens": totals.usage.output_tokens,
                "cacheReadTokens": totals.usage.cache_read_tokens,
                "cacheWriteTokens": totals.usage.cache_write_tokens,
            },
            "costUsd": wire.encode(totals.cost_usd),  # as it reads back
        }
        for name, totals in state.ledger.models.items()
    }
