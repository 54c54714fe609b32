"""How hard a model is told to think: our levels as the parameters that litellm takes for it.

Rules of this file:
* A level the model does not have becomes the next lower one it has; with none of them, nothing is
  sent. Both are said, in a sentence that is the same for every call.
* litellm knows most of what a model takes; what it hands on unjudged (`max`, and `xhigh` outside
  of a few families) is taken only if the model's entry in its table says so. A model that is in
  no table is somebody's own: it gets what was asked for.
* Where thinking is paid from the output limit (Anthropic's budgets), it leaves room for a reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from runner.core.messages import Assistant, Message, ModelRequest, User

LEVELS = ("low", "medium", "high", "xhigh", "max")
_UNJUDGED = frozenset({"xhigh", "max"})
_MIN_BUDGET_TOKENS = 1024
"""Anthropic refuses a smaller thinking budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """What to send for the effort that was asked for, and what to say when it is something else."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    said: tuple[str, ...] = ()


def thinking(litellm: Any, model: str, request: ModelRequest) -> Thinking:
    """The arguments of `litellm.acompletion` for the effort of this request."""
    asked = request.effort
    if asked is None:
        return Thinking()
    level = _best_level(litellm, model, asked)
    if level is None:
        return Thinking(said=(f"{model} takes no `effort`: it was not sent",))
    said = () if level == asked else (f"{model} has no effort `{asked}`: `{level}` was sent",)
    budget_tokens = _budget_tokens(litellm, model, level)
    if budget_tokens is None:
        return Thinking(arguments={"reasoning_effort": level}, said=said)
    if _goes_on_unthought(request.messages):
        told = f"{model} cannot begin to think between the calls of a turn: `effort` waits for it"
        return Thinking(said=(*said, told))
    if budget_tokens < request.max_output_tokens:
        return Thinking(arguments={"reasoning_effort": level}, said=said)
    told = f"{model} thinks within the output limit: less than `effort: {level}` stands for"
    fitting = request.max_output_tokens // 2
    if fitting < _MIN_BUDGET_TOKENS:
        return Thinking(said=(*said, told))
    enabled = {"type": "enabled", "budget_tokens": fitting}
    return Thinking(arguments={"thinking": enabled}, said=(*said, told))


@cache
def _best_level(litellm: Any, model: str, asked: str) -> str | None:
    """The level asked for, or the highest below it that the model has."""
    lower = reversed(LEVELS[: LEVELS.index(asked) + 1])
    return next((level for level in lower if _mapped(litellm, model, level) is not None), None)


def _budget_tokens(litellm: Any, model: str, level: str) -> int | None:
    """The part of the output limit that this level sets aside, where the provider counts so."""
    thinks = (_mapped(litellm, model, level) or {}).get("thinking")
    budget = thinks.get("budget_tokens") if isinstance(thinks, dict) else None
    return budget if isinstance(budget, int) else None


@cache
def _mapped(litellm: Any, model: str, level: str) -> Mapping[str, Any] | None:
    """What litellm makes of a level; None when this model does not take it."""
    try:
        name, provider, _, _ = litellm.get_llm_provider(model)
        mapped: Mapping[str, Any] = litellm.utils.get_optional_params(
            model=name, custom_llm_provider=provider, reasoning_effort=level
        )
    except (litellm.exceptions.openai.OpenAIError, _provider_error(litellm), ValueError):
        return None
    as_is = mapped.get("reasoning_effort") == level and level in _UNJUDGED
    entry = litellm.model_cost.get(model) or litellm.model_cost.get(name)
    if as_is and entry is not None and not entry.get(f"supports_{level}_reasoning_effort"):
        return None
    return mapped


def _provider_error(litellm: Any) -> type[Exception]:
    """What a provider's own code raises inside litellm, before it is given a common name."""
    found: type[Exception] = litellm.llms.base_llm.chat.transformation.BaseLLMException
    return found


def _goes_on_unthought(messages: Sequence[Message]) -> bool:
    """Calls that were made without thinking wait for the model to go on; another model made
    them, or this one before it was told to think. Anthropic refuses to think from there."""
    turn: list[Assistant] = []
    for message in reversed(messages):
        if isinstance(message, User):
            break
        if isinstance(message, Assistant):
            turn.append(message)
    return bool(turn) and not any(block.signature for block in turn[-1].reasoning)
