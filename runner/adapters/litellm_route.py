"""Which API litellm asks for a model, and what it has to be told for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from runner.adapters.litellm_wire import Dialect, speaks_anthropic

_A_TOOL = ({"type": "function", "function": {"name": "any"}},)
_WITH_RESPONSES = frozenset({"openai", "azure"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What the API understands, and the arguments of `litellm.acompletion` that go with it."""

    dialect: Dialect = "other"
    arguments: Mapping[str, Any] = field(default_factory=dict)


@cache
def route(
    litellm: Any, model: str, *, api_base: str | None, effort: str | None, tools: bool
) -> Route:
    """The way of a request: to Anthropic, to OpenAI's responses, or to any other API.

    litellm takes OpenAI's newer API for `openai/responses/...`, for models that have no other, and
    for some when they get tools. There nothing is kept for us at the provider, as nowhere else; so
    what a model thought between calls comes along encrypted, to be sent back.
    """
    if speaks_anthropic(model):
        return Route(dialect="anthropic")
    try:
        name, provider, _, _ = litellm.get_llm_provider(model)
        if provider not in _WITH_RESPONSES:
            return Route()
        info, name = litellm.main.responses_api_bridge_check(
            model=name,
            custom_llm_provider=provider,
            tools=_A_TOOL if tools else None,
            reasoning_effort=effort,
            api_base=api_base,
        )
        thinks = litellm.supports_reasoning(model=name, custom_llm_provider=provider)
    except litellm.exceptions.openai.OpenAIError:
        return Route()  # the call itself will say what is wrong with the model's name
    if info.get("mode") != "responses":
        return Route()
    sealed = {"include": ["reasoning.encrypted_content"]} if thinks else {}
    return Route(dialect="responses", arguments={"store": False, **sealed})
