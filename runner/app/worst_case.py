"""The most a whole run can cost, told before it has begun."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from runner.adapters import preflight, web_search
from runner.adapters.prices import model_limits
from runner.core import web_rules
from runner.core.ledger import ZERO, worst_case_usd
from runner.core.messages import AGENT_TOOL
from runner.core.permissions import offered
from runner.core.spec import TaskSpec
from runner.core.words import count


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCase:
    """US dollars; None where nothing bounds them, and then `why` says what would."""

    usd: Decimal | None
    why: str


def worst_case(spec: TaskSpec) -> WorstCase:
    """What the caps of a spec let a run come to, if everything goes as badly as it can.

    Without `max_budget_usd` that is every call the other caps allow, each attempt of it failing
    after it was paid for, on every model, with a full window.
    """
    if spec.max_budget_usd is not None:
        kept = "a call that might cost more than is left is not made"
        return WorstCase(usd=spec.max_budget_usd, why=kept)
    if spec.max_turns is None or "Stop" in spec.hooks:
        loose = "`max_turns` is not set" if spec.max_turns is None else "a Stop hook may go on"
        return _unbounded(f"{loose}; set `max_budget_usd`")
    if spec.auto_mode is not None:
        return _unbounded("mode auto asks its model about each call; set `max_budget_usd`")
    if _pays_for_searches(spec):
        return _unbounded("every search of the web is paid for; set `max_budget_usd`")
    if _has_sub_agents(spec):
        return _unbounded("sub-agents have turns of their own; set `max_budget_usd`")
    per_attempt = ZERO
    for one in preflight.per_model(spec):
        price, limits = preflight.price(one), model_limits(one.model)
        if price is None:
            return _unbounded(f"no price of {one.model} is known; state it in `pricing`")
        if limits is None:
            return _unbounded(f"the window of {one.model} is unknown; set `max_budget_usd`")
        per_attempt += worst_case_usd(price, limits.context_window_tokens, spec.max_output_tokens)
    calls, attempts = _most_calls(spec, spec.max_turns), spec.retry.max_attempts
    made = f"{count(calls, 'model call')}, each {count(attempts, 'attempt')} with a full window"
    models = " on every model" if spec.fallback_models else ""
    why = f"no `max_budget_usd`: at most {made}{models}"
    return WorstCase(usd=per_attempt * attempts * calls, why=why)


def _unbounded(because: str) -> WorstCase:
    return WorstCase(usd=None, why=f"no bound: {because}")


def _pays_for_searches(spec: TaskSpec) -> bool:
    if spec.web_search is None or not web_rules.may_reach(spec, web_rules.SEARCH_TOOL):
        return False
    fee = web_search.fee(spec.web_search)
    return fee.cost_usd > 0 or fee.basis == "unpriced"


def _has_sub_agents(spec: TaskSpec) -> bool:
    may = spec.limits.max_subagent_depth and spec.limits.max_subagents
    return bool(may and offered(spec, (AGENT_TOOL,)))


def _most_calls(spec: TaskSpec, max_turns: int) -> int:
    """How often a model can be asked: after each tool-use turn, each nudge, each rejected
    completion, and once more; before each of these there may be a compaction."""
    calls = max_turns + 1
    calls += spec.max_autopilot_continues if spec.autopilot else 0
    judged = spec.verify or spec.require_changes or spec.forbid_changes
    calls += spec.limits.max_verify_attempts if judged else 0
    calls += spec.limits.max_structured_output_retries if spec.output_schema else 0
    return 2 * calls if spec.compaction.enabled else calls
