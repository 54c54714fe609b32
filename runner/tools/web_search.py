"""WebSearch: asks a search engine, and shows what strangers wrote fenced off as such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from runner.core import untrusted, urls
from runner.core.events import Fee
from runner.core.web_rules import SEARCH_TOOL
from runner.ports import Hit, ToolContext, ToolFailure, ToolOutput
from runner.ports import WebSearch as Engine
from runner.tools.answers import answer, tool_spec

LIMIT_S: Final = 60.0
MAX_QUERY_CHARS: Final = 400
MAX_SNIPPET_CHARS: Final = 1_500

_DOMAINS = {"type": "array", "items": {"type": "string", "minLength": 1}}


class WebSearch:
    """One query a call; without an `engine` it says that there is none."""

    def __init__(
        self,
        *,
        engine: Engine | None,
        provider: str,
        fee: Fee | None,
        descriptions: Mapping[str, str],
    ) -> None:
        self._engine = engine
        self._provider = provider
        self.fee = fee
        properties: dict[str, dict[str, Any]] = {
            "query": {"type": "string", "minLength": 2, "maxLength": MAX_QUERY_CHARS},
            "allowed_domains": _DOMAINS,
            "blocked_domains": _DOMAINS,
        }
        self.spec = tool_spec(SEARCH_TOOL, descriptions, properties, required=("query",))

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        query = arguments["query"]
        return {
            "kind": "url",
            "intention": f"Search the web for {query}",
            "url": f"search:{self._provider}",
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        if self._engine is None:
            raise ToolFailure("web search is not configured: the task names no `web_search`")
        query = arguments["query"]
        hits = await self._engine.search(query, min(context.timeout_s, LIMIT_S))
        wanted = [hit for hit in hits if _is_wanted(hit, arguments)]
        told = f"{len(wanted)} results for {query!r}" if wanted else f"nothing found for {query!r}"
        if not wanted:
            return answer(told, context)
        return answer(f"{told}\n{_fenced(wanted)}", context)


def _is_wanted(hit: Hit, arguments: Mapping[str, Any]) -> bool:
    """Whether its host is, or is below, a domain that was asked for, and none that was not."""
    try:
        host = str(urls.parse(hit.url).host)
    except urls.UrlError:
        return False
    allowed, blocked = arguments.get("allowed_domains"), arguments.get("blocked_domains", ())
    return (not allowed or _is_below(host, allowed)) and not _is_below(host, blocked)


def _is_below(host: str, domains: Sequence[str]) -> bool:
    plain = [domain.lower().removeprefix("*.").strip(".") for domain in domains]
    return any(host == domain or host.endswith(f".{domain}") for domain in plain)


def _fenced(hits: Sequence[Hit]) -> str:
    listed = "\n\n".join(
        f"{hit.title}{f' ({hit.date})' if hit.date else ''}\n{hit.url}\n"
        f"{hit.snippet.strip()[:MAX_SNIPPET_CHARS]}"
        for hit in hits
    )
    return untrusted.fenced({"search results": listed})["search results"]
