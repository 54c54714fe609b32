"""URLs as they may be fetched: plain, or not at all. What was understood is what is asked for.

Rules of this file: a URL is taken apart once, and everybody decides and connects by the parts. A
host in any other spelling than a plain name or address is none, so that no two readers of it can
disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from runner.core.reach import Address, host_of

PORTS: Final = {"http": 80, "https": 443}
MAX_CHARS: Final = 8_000
_PATH_SAFE: Final = "/%:@!$&'()*+,;=-._~"
_QUERY_SAFE: Final = _PATH_SAFE + "?"


class UrlError(ValueError):
    """The text is no URL that can be fetched; the message says why, and what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebUrl:
    """A URL in parts. `target` is path and query, percent-encoded; a fragment is not sent."""

    scheme: str
    host: str | Address
    port: int
    target: str

    @property
    def host_text(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if isinstance(self.host, IPv6Address) else str(self.host)

    @property
    def authority(self) -> str:
        """The host, and the port unless it is the scheme's own."""
        usual = PORTS[self.scheme] == self.port
        return self.host_text if usual else f"{self.host_text}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse(text: str) -> WebUrl:
    """The URL a text is. Raises `UrlError`."""
    text = text.strip(" ")
    if len(text) > MAX_CHARS:
        raise UrlError(f"the URL is longer than {MAX_CHARS} characters")
    if "\\" in text or not text.isprintable():
        raise UrlError("the URL holds a backslash or a character that cannot be seen")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise UrlError("the URL cannot be read: its host or its port is none") from None
    if parts.scheme not in PORTS:
        raise UrlError("only http:// and https:// URLs are fetched")
    if "@" in parts.netloc:
        raise UrlError("a URL with a user or a password in it is not fetched; leave them out")
    host = host_of(_host_text(parts.netloc))
    if host is None or port == 0:
        raise UrlError(
            "the host of the URL is no plain name or address; write an international name in its "
            "ASCII form (xn--...), and an address as 1.2.3.4 or [1:2::3]"
        )
    target = quote(parts.path, safe=_PATH_SAFE) or "/"
    query = f"?{quote(parts.query, safe=_QUERY_SAFE)}" if parts.query else ""
    return WebUrl(
        scheme=parts.scheme,
        host=host,
        port=PORTS[parts.scheme] if port is None else port,
        target=target + query,
    )


def follow(base: WebUrl, location: str) -> WebUrl:
    """Where a redirect leads. Raises `UrlError`."""
    try:
        return parse(urljoin(str(base), location))
    except UrlError:
        raise
    except ValueError:
        raise UrlError("the redirect leads to nothing that can be read") from None


def _host_text(netloc: str) -> str:
    """As it was written: the parser's own property lower-cases and drops brackets."""
    if netloc.startswith("["):
        host, _, rest = netloc.partition("]")
        return f"{host}]" if rest[:1] in ("", ":") else netloc
    return netloc.partition(":")[0]
