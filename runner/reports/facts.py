"""What a run came to, in words and numbers that every report repeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from runner.core.endings import EXIT_ROWS, ExitRow, advice_of
from runner.core.outcome import model_calls
from runner.core.spec import TaskSpec
from runner.core.words import COST_BASES, count, span, usd
from runner.reports.digest import Digest

Tone = Literal["good", "bad", "open"]


def tone(run: Digest) -> Tone:
    """Whether it ended well, badly, or not at all."""
    if run.result is None:
        return "open"
    return "good" if run.is_good else "bad"


def ending(run: Digest) -> str:
    """`success`, `error_during_execution: quota`, `not finished`."""
    if run.result is None:
        return "not finished"
    subtype, kind = run.result["subtype"], run.result.get("error_type")
    return f"{subtype}: {kind}" if kind else str(subtype)


def cause(run: Digest) -> str:
    """Why it did not end well; empty for a success."""
    if run.result is None:
        last = f"its last line is {run.last_event}" if run.last_event else "it is empty"
        return f"The log has no result: the run goes on, or was killed; {last}."
    return "\n".join(str(error) for error in run.result.get("errors") or ())


def advice(run: Digest) -> str:
    """What to do about it; empty for a success."""
    if run.result is None:
        folder = run.session_id or "ID"
        return f"go on with `--resume {folder}`, or `autopilot log recover {folder}`"
    row = _row(run.result)
    return "" if row is None or run.is_good else advice_of(row, run.result.get("error_type"))


def _row(result: Mapping[str, Any]) -> ExitRow | None:
    """The row of the exit-code table; None for an ending that a newer version wrote."""
    kind = result.get("error_type")
    for row in EXIT_ROWS:
        if row.subtype == result["subtype"] and (kind in row.error_types or not row.error_types):
            return row
    return None


def rows(run: Digest) -> dict[str, str]:
    """The run in numbers: a name and a line for each thing that is worth one."""
    main, ledger = run.state.main, run.state.ledger
    usage = run.state.ledger.models.values()
    tokens = (
        f"{sum(m.usage.prompt_tokens for m in usage):,} in "
        f"({sum(m.usage.cache_read_tokens for m in usage):,} from the cache), "
        f"{sum(m.usage.output_tokens for m in usage):,} out"
    )
    calls = f"{count(model_calls(run.state), 'model call')}, {count(main.nudges, 'nudge')}"
    spec = run.state.spec
    cap = f" of {spec.max_turns}" if spec and spec.max_turns is not None else ""
    found = {
        "cost": cost(run),
        "turns": f"{main.tool_turns}{cap} tool-use, {calls}",
        "tokens": tokens if ledger.models else "",
        "time": _time(run),
        "changed": changes((run.result or {}).get("workspace_diff")),
        "denied": _denied(run),
        "checks": _checks(run),
        "model": ", ".join(ledger.models) or run.state.model,
        "sandbox": run.state.preflight.sandbox if run.state.preflight else "",
        "session": run.session_id,
    }
    return {name: text for name, text in found.items() if text}


def cost(run: Digest) -> str:
    """`$0.02 of $0.50 (prices from the spec)`."""
    spec, bases = run.state.spec, run.state.ledger.bases
    of = f" of {usd(spec.max_budget_usd)}" if spec and spec.max_budget_usd is not None else ""
    basis = COST_BASES["mixed"] if len(bases) > 1 else "".join(COST_BASES.get(b, b) for b in bases)
    return usd(spent_usd(run)) + of + (f" ({basis})" if basis else "")


def spent_usd(run: Digest) -> Decimal:
    """What the run cost, in US dollars: by its log, else by its result."""
    if run.state.session is None and run.result is not None:
        return Decimal(str(run.result.get("total_cost_usd", 0)))
    return run.state.ledger.spent_usd


def changes(diff: Mapping[str, Any] | None) -> str:
    """`3 files, +12 -4`; empty when nobody looked."""
    if diff is None:
        return ""
    if not diff["files"]:
        return "nothing"
    total = diff.get("files_total", len(diff["files"]))
    return f"{count(total, 'file')}, +{diff['lines_added']} -{diff['lines_removed']}"


def _time(run: Digest) -> str:
    limit = run.state.spec.timeout if run.state.spec else None
    whole, model = run.state.duration_ms / 1000, run.state.ledger.api_duration_ms / 1000
    of = "" if limit is None else f" of {span(limit)}"
    return f"{span(whole)}{of}, {span(model)} of it the model"


def _denied(run: Digest) -> str:
    names = sorted({str(denial["tool_name"]) for denial in run.state.denials})
    return f"{count(len(run.state.denials), 'call')} ({', '.join(names)})" if names else ""


def _checks(run: Digest) -> str:
    configured = bool(run.state.spec and run.state.spec.verify)
    last = run.state.verified
    if last is None or not last.checks:
        return "not run" if configured else ""
    passed = sum(check.passed for check in last.checks)
    return f"{passed} of {len(last.checks)} passed, attempt {last.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit of the spec: how much of it was used, in words, and whether it ended the run."""

    key: str
    used: str
    limit: str
    tripped: bool


_TRIPPED_BY: Mapping[str, tuple[str, str | None]] = {
    "max_turns": ("error_max_turns", None),
    "max_budget_usd": ("error_max_budget_usd", None),
    "timeout": ("error_timeout", None),
    "max_autopilot_continues": ("error_task_incomplete", "continues_exhausted"),
}


def caps(run: Digest) -> tuple[Cap, ...]:
    """Every cap the spec sets."""
    spec = run.state.spec
    if spec is None:
        return ()
    used = _used(run, spec)
    result = run.result or {}
    ended = (result.get("subtype"), result.get("error_type"))
    return tuple(
        Cap(key=key, used=words[0], limit=words[1], tripped=ended == _TRIPPED_BY[key])
        for key, words in used.items()
    )


def _used(run: Digest, spec: TaskSpec) -> dict[str, tuple[str, str]]:
    main = run.state.main
    found: dict[str, tuple[str, str]] = {}
    if spec.max_turns is not None:
        found["max_turns"] = (str(main.tool_turns), str(spec.max_turns))
    if spec.max_budget_usd is not None:
        found["max_budget_usd"] = (usd(spent_usd(run)), usd(spec.max_budget_usd))
    if spec.timeout is not None:
        found["timeout"] = (span(run.state.duration_ms / 1000), span(spec.timeout))
    if spec.autopilot:
        found["max_autopilot_continues"] = (str(main.nudges), str(spec.max_autopilot_continues))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A call that was not allowed, and why."""

    tool: str
    arguments: Mapping[str, Any]
    reason: str


def denials(run: Digest) -> tuple[Denial, ...]:
    """Every denied call, in the order of the log."""
    why = {call.id: call.refusal or call.output for call in run.calls}
    return tuple(
        Denial(
            tool=str(denial["tool_name"]),
            arguments=denial["tool_input"],
            reason=why.get(str(denial.get("tool_use_id")), ""),
        )
        for denial in run.state.denials
    )
