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
        told = f"{url}: HTTP {page.status}"
        text = f"{told}\n{_fenced(page, str(url))}"
        return answer(text, context, is_error=page.status >= 400)


def _fenced(page: Page, asked: str) -> str:
    """Everything that the other side has written: the page, and where it says to go."""
    if page.moved_to is not None:
        where = untrusted.fenced({"redirect": page.moved_to})["redirect"]
        return f"The page is elsewhere now; to read it there, call {WEB_TOOL} with:\n{where}"
    here = "" if page.url == asked else f"(at {page.url})\n\n"
    more = "\n(the page goes on: this is its first part)" if page.cut else ""
    return untrusted.fenced({"page": here + page.text})["page"] + more
