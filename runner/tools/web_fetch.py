"""WebFetch: shows a page of the web as text, fenced off as what strangers wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.core import untrusted, urls
from runner.core.rules import WEB_TOOL
from runner.ports import Page, ToolContext, ToolFailure, ToolOutput, Web
from runner.tools.answers import answer, tool_spec

LIMIT_S = 60.0


class WebFetch:
    """GET, and nothing that a page could be told by."""

    def __init__(self, *, web: Web, descriptions: Mapping[str, str]) -> None:
        self._web = web
        properties = {"url": {"type": "string"}}
        self.spec = tool_spec(WEB_TOOL, descriptions, properties, required=("url",), read_only=True)

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        url = arguments["url"]
        return {"kind": "url", "intention": f"Read {url}", "url": url}

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        try:
            url = urls.parse(arguments["url"])
        except urls.UrlError as error:
            raise ToolFailure(str(error)) from None
        page = await self._web.read(url, min(context.timeout_s, LIMIT_S))
        told = f"{page.url}: HTTP {page.status}"
        if page.moved_to is not None:
            moved = f"{told}. It is at {page.moved_to} now; to read that, call {WEB_TOOL} with it."
            return answer(moved, context, details=told)
        return answer(
            f"{told}\n{_fenced(page)}", context, details=told, is_error=page.status >= 400
        )


def _fenced(page: Page) -> str:
    more = "\n(the page goes on: this is its first part)" if page.cut else ""
    return untrusted.fenced({page.url: page.text})[page.url] + more
