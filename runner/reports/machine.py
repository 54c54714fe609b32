"""A run as one JSON object: its ending, its numbers, its turns and calls."""

from __future__ import annotations

from typing import Any

from runner.core import verification, wire
from runner.core.messages import Usage
from runner.reports import facts
from runner.reports.digest import Call, Digest, Note, Turn

FORMAT_VERSION = 1


def report_object(run: Digest) -> dict[str, Any]:
    """The object. Money is US dollars, times are ISO 8601, `result` is null until the run ended.

    Texts are whole, outputs as the model was given them.
    """
    state = run.state
    found = {
        "format_version": FORMAT_VERSION,
        "name": run.name,
        "session_id": run.session_id,
        "ending": facts.ending(run),
        "finished": run.result is not None,
        "cause": facts.cause(run) or None,
        "advice": facts.advice(run) or None,
        "began": state.first_timestamp,
        "last": state.last_timestamp,
        "duration_ms": state.duration_ms,
        "cost_usd": facts.spent_usd(run),
        "model": state.model or None,
        "sandbox": state.preflight.sandbox if state.preflight else None,
        "caps": [
            {"key": cap.key, "used": cap.used, "limit": cap.limit, "tripped": cap.tripped}
            for cap in facts.caps(run)
        ],
        "verification": verification.summary(state),
        "denials": [
            {"tool": denial.tool, "arguments": denial.arguments, "reason": denial.reason}
            for denial in facts.denials(run)
        ],
        "items": [_turn(item) if isinstance(item, Turn) else _note(item) for item in run.items],
        "result": run.result,
    }
    encoded: dict[str, Any] = wire.encode(found)
    return encoded


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "type": "turn",
        "number": turn.number,
        "agent": turn.agent or None,
        "agent_id": turn.agent_id or None,
        "model": turn.model,
        "began": turn.began,
        "ended": turn.ended,
        "text": turn.text,
        "reasoning": turn.reasoning,
        "finish_reason": turn.finish_reason or None,
        "usage": _usage(turn.usage),
        "cost_usd": turn.cost_usd,
        "total_usd": turn.total_usd,
        "cost_basis": turn.basis or None,
        "api_ms": turn.api_ms,
        "calls": [_call(call) for call in turn.calls],
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def _call(call: Call) -> dict[str, Any]:
    return {
        "id": call.id,
        "tool": call.tool,
        "arguments": call.arguments,
        "outcome": call.outcome,
        "code": call.code or None,
        "refusal": call.refusal or None,
        "duration_ms": call.duration_ms,
        "output": call.output,
        "diff": call.diff or None,
        "output_file": call.output_file,
    }


def _note(note: Note) -> dict[str, Any]:
    return {
        "type": note.kind,
        "agent": note.agent or None,
        "at": note.at,
        "text": note.text,
        "good": note.good,
    }
