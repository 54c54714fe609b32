"""The last word on a run for people: the ending, its cause, what to do, and where everything is."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from runner.adapters.journal import LOG, SessionError, session_dir
from runner.adapters.log import Line, Span
from runner.core.endings import Ending, advice_of, row_of
from runner.core.state import State
from runner.core.words import COST_BASES, count, span, usd


def final_block(result: Mapping[str, Any], state: State, home: Path) -> Line:
    """The block, from the result and from the state the run ended in."""
    ok = not result["is_error"]
    subtype, error_type = result["subtype"], result.get("error_type")
    row = row_of(Ending(subtype=subtype, error_type=error_type))
    ending = f"{subtype}: {error_type}" if error_type else subtype
    rows = {
        "cause": "" if ok else "\n".join(result["errors"]),
        "to do": "" if ok else advice_of(row, error_type),
    }
    if state.session is not None:  # else there is no log, and the session is none of this run's
        rows |= _facts(result, state) | _places(result, state, home)
    told = {name: text for name, text in rows.items() if text}
    spans: tuple[Span, ...] = (
        ("good" if ok else "bad", ending),
        ("plain", f", exit code {result['exit_code']}"),
        *(_row(name, text) for name, text in told.items()),
    )
    fields = {"subtype": subtype, "error_type": error_type, "exit_code": result["exit_code"]}
    fields |= {_FIELD_NAMES.get(name, name): text for name, text in told.items()}
    return Line(event="result", spans=spans, fields=fields, level="info" if ok else "error")


_FIELD_NAMES = {"to do": "advice"}


def _facts(result: Mapping[str, Any], state: State) -> dict[str, str]:
    """What the run came to, in numbers."""
    return {
        "turns": _turns(result, state),
        "cost": _cost(result, state),
        "overshoot": _overshoot(result, state),
        "time": span(result["duration_ms"] / 1000),
        "denied": _denials(result),
        "sandbox": _sandbox(result),
        "changed": _changes(result.get("workspace_diff")),
    }


def _sandbox(result: Mapping[str, Any]) -> str:
    report = result.get("sandbox_report")
    if not report:
        return ""
    if report["tier"] == "process":
        return f"process: no boundary ({report.get('reason') or 'nothing better works here'})"
    return f"{report['tier']}, network {report['network']}"


def _row(name: str, text: str) -> Span:
    indented = text.replace("\n", "\n" + " " * 13)
    return ("plain", f"\n  {name:<10} {indented}")


def _turns(result: Mapping[str, Any], state: State) -> str:
    used = count(result["num_tool_turns"], "tool-use turn")
    cap = state.spec.max_turns if state.spec else None
    calls, nudges = (
        count(result["num_llm_calls"], "model call"),
        count(result["num_nudges"], "nudge"),
    )
    return f"{used}{'' if cap is None else f' of {cap}'}, {calls}, {nudges}"


def _cost(result: Mapping[str, Any], state: State) -> str:
    spent, cap = Decimal(str(result["total_cost_usd"])), None
    if state.spec is not None:
        cap = state.spec.max_budget_usd
    of = "" if cap is None else f" of {usd(cap)}"
    basis = COST_BASES.get(result["cost_basis"], "")
    return f"{usd(spent)}{of}{f' ({basis})' if basis else ''}"


def _overshoot(result: Mapping[str, Any], state: State) -> str:
    """How far over the cap the bill can be although spending is not; only told with a cap."""
    if state.spec is None or state.spec.max_budget_usd is None or not result["num_llm_calls"]:
        return ""
    over = Decimal(str(result.get("max_overshoot_usd", 0)))
    if not over:
        return "none, even if the provider billed more tokens than it reported"
    return f"at most {usd(over)} over the cap, if the provider billed more than it reported"


def _denials(result: Mapping[str, Any]) -> str:
    denied = result["permission_denials"]
    names = ", ".join(sorted({str(denial["tool_name"]) for denial in denied}))
    return f"{count(len(denied), 'call')} ({names})" if denied else ""


def _changes(diff: Mapping[str, Any] | None) -> str:
    if diff is None:
        return ""
    if not diff["files"]:
        return "nothing"
    lines = f"+{diff['lines_added']} -{diff['lines_removed']}"
    total = diff.get("files_total", len(diff["files"]))  # older results name every file
    return f"{count(total, 'file')}, {lines}"


def _places(result: Mapping[str, Any], state: State, home: Path) -> dict[str, str]:
    """Where to look: session, log, workspace, patch; only what is there."""
    places = {"session": str(result["session_id"])}
    try:
        folder = session_dir(home, result["session_id"])
    except SessionError:
        return places
    if (folder / LOG).exists():
        places["folder"] = str(folder)
    if state.spec is not None and state.preflight is not None:
        copied = state.spec.workspace.isolation == "copy"
        places["workspace"] = state.preflight.workspace + (" (a copy)" if copied else "")
    patch = (result.get("workspace_diff") or {}).get("patch")
    if patch:
        places["patch"] = str(patch)
    return places
