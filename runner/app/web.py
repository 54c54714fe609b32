"""The web as the agent may reach it: pages, and a search when the spec names one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from runner.adapters import web_search
from runner.adapters.litellm_search import LitellmSearch
from runner.adapters.web import HttpWeb
from runner.app import wiring
from runner.core import web_rules
from runner.core.spec import TaskSpec
from runner.ports import Tool
from runner.tools.web_fetch import WebFetch
from runner.tools.web_search import WebSearch


def search(spec: TaskSpec, environ: Mapping[str, str]) -> LitellmSearch | None:
    """Who searches; None when the spec names nobody."""
    asked = spec.web_search
    if asked is None:
        return None
    variable = web_search.key_variable(asked)
    return LitellmSearch(
        provider=asked.provider,
        api_base=asked.api_base,
        api_key=environ.get(variable) if variable else None,
        max_results=asked.max_results,
    )


def tools(spec: TaskSpec, engine: LitellmSearch | None) -> Mapping[str, Tool]:
    """`WebFetch` and `WebSearch`; without an `engine` the second only says so."""
    texts = wiring.tool_descriptions()
    asked = spec.web_search
    built: tuple[Tool, ...] = (
        WebFetch(web=HttpWeb(partial(web_rules.may_connect, spec)), descriptions=texts),
        WebSearch(
            engine=engine,
            provider=asked.provider if asked else "none",
            fee=web_search.fee(asked) if asked else None,
            descriptions=texts,
        ),
    )
    return {tool.spec.name: tool for tool in built}
