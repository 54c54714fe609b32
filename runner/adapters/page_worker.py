"""Turns an HTML page into Markdown: a program of its own, so that it can be stopped.

Standard input is the page, the arguments are its address and its charset or nothing; standard
output is the Markdown. What a reader would not see is left out: a page may hide words in it that
are meant for a model.
"""

from __future__ import annotations

import re
import resource
import sys
from contextlib import suppress
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Comment, Tag
from markdownify import MarkdownConverter

CPU_S = 15
MEMORY_BYTES = 1024 * 1024 * 1024
MAX_BYTES = 5 * 1024 * 1024
"""Of what is written: a small table may say that it has a million columns."""

_UNSEEN = ("script", "style", "noscript", "template", "svg", "iframe", "object", "head", "title")
_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|(opacity|font-size)\s*:\s*0(?![.\d])",
    re.IGNORECASE,
)


def main() -> None:
    """Read, convert, answer."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    address, charset = sys.argv[1:]
    text = markdown(sys.stdin.buffer.read(), address, charset or None)
    sys.stdout.buffer.write(text.encode("utf-8", "replace")[:MAX_BYTES])


def markdown(page: bytes, address: str, charset: str | None) -> str:
    """The page as Markdown, its links absolute."""
    soup = BeautifulSoup(page, "html.parser", from_encoding=charset)
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    base = soup.find("base", href=True)
    start = urljoin(address, str(base["href"])) if isinstance(base, Tag) else address
    for element in soup.find_all(_is_unseen):
        element.extract()
    for comment in soup.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    _complete(soup, start)
    converter = MarkdownConverter(heading_style="ATX", bullets="-", escape_misc=False)
    text = re.sub(r"[ \t]+\n", "\n", converter.convert_soup(soup))
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return f"{title}\n\n{text}" if title and not text.startswith(f"# {title}") else text


def _is_unseen(element: Tag) -> bool:
    style = element.get("style")
    hides = isinstance(style, str) and _HIDING.search(style) is not None
    return hides or element.name in _UNSEEN or element.has_attr("hidden")


def _complete(soup: BeautifulSoup, start: str) -> None:
    """Make every address whole, and drop pictures that stand in the page itself."""
    for name, attribute in (("a", "href"), ("img", "src")):
        for element in soup.find_all(name):
            target = str(element.get(attribute, ""))
            if name == "img" and (not target or target.startswith("data:")):
                element.extract()
                continue
            with suppress(ValueError):  # it is no address: it stays as it is
                element[attribute] = urljoin(start, target)


if __name__ == "__main__":
    main()
