"""Reads pages of the web: GET, on addresses that were checked, within limits of size and time.

Rules of this file: a name is looked up once a request, every address is checked, and what was
checked is what is connected to. No cookie, no credential, no proxy of the environment. A redirect
is followed on the same host alone; to go elsewhere is a decision for whoever asked.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import Message
from functools import cache
from importlib.metadata import version
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runner.adapters.resolve import Resolve, resolve
from runner.adapters.worker import work
from runner.core import urls
from runner.core.reach import USUAL_PORTS, Address
from runner.core.urls import WebUrl
from runner.ports import Page, ToolDenied, ToolFailure

if TYPE_CHECKING:
    import httpx

MAX_BYTES: Final = 5 * 1024 * 1024
MAX_HOPS: Final = 10
SILENCE_S: Final = 20.0
CONVERT_S: Final = 20.0
CHUNK_BYTES: Final = 64 * 1024
PAGE_WORKER: Final = Path(__file__).with_name("page_worker.py")

NOT_PUBLIC: Final = "public addresses"
"""The rule that a denial names when a host is at an address that is not public, nor listed."""

_HTML = ("text/html", "application/xhtml+xml")
_TEXT = ("json", "xml", "yaml", "toml", "javascript", "ecmascript", "x-sh", "graphql", "csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What one request came to."""

    status: int
    location: str | None
    kind: str
    charset: str | None
    body: bytes
    cut: bool


class HttpWeb:
    """The web over HTTP. `may_connect` says whether an address with a port may be connected to."""

    def __init__(
        self, may_connect: Callable[[Address, int], bool], *, find: Resolve = resolve
    ) -> None:
        self._may_connect = may_connect
        self._find = find

    async def read(self, url: WebUrl, timeout_s: float) -> Page:
        """See the port."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._read(url)
        except TimeoutError:
            raise ToolFailure(f"{url} was not there within {timeout_s:g} s") from None

    async def _read(self, url: WebUrl) -> Page:
        for _ in range(MAX_HOPS):
            answer = await self._get(url)
            if answer.location is None:
                return await _page(url, answer)
            following = _follow(url, answer.location)
            if not _is_same_place(url, following):
                return Page(
                    url=str(url), status=answer.status, kind="", text="", moved_to=str(following)
                )
            url = following
        raise ToolFailure(f"{url} redirects more than {MAX_HOPS} times")

    async def _get(self, url: WebUrl) -> _Answer:
        """The answer of the first address of the host that can be connected to."""
        import httpx  # noqa: PLC0415  # a tenth of a second, for runs that fetch something

        addresses = await self._addresses(url)
        for at, address in enumerate(addresses):
            try:
                async with _response(url, address) as response:
                    return await _answer(response)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if at == len(addresses) - 1:
                    raise ToolFailure(f"no connection to {url.authority}: {error}") from None
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, zlib.error) as error:
                why = str(error) or type(error).__name__
                raise ToolFailure(f"{url.authority} answered with nothing usable: {why}") from None
        raise AssertionError("a host has at least one address")

    async def _addresses(self, url: WebUrl) -> list[Address]:
        """Where the host is, as far as it may be asked there; at least one address."""
        if not isinstance(url.host, str):
            found = [url.host]
        else:
            try:
                found = list(await self._find(url.host, url.port))
            except OSError as error:
                raise ToolFailure(f"no address is known for {url.host}: {error.strerror}") from None
        fit = [address for address in found if self._may_connect(address, url.port)]
        if not fit:
            raise ToolDenied(
                f"{url.authority} is at an address that is not public, and `allowed_tools` of the "
                "spec does not list that address itself",
                rule=NOT_PUBLIC,
            )
        return fit


@asynccontextmanager
async def _response(url: WebUrl, address: Address) -> AsyncIterator[httpx.Response]:
    """The response of exactly this address, on a connection of its own, before its body is read."""
    import httpx  # noqa: PLC0415  # as above

    at = f"[{address}]" if isinstance(address, IPv6Address) else str(address)
    client = httpx.AsyncClient(
        verify=_certificates(),
        trust_env=False,
        follow_redirects=False,
        timeout=SILENCE_S,
        headers={
            "Host": url.authority,
            "User-Agent": f"autopilot-runner/{version('autopilot-runner')}",
            "Accept": "text/markdown, text/html;q=0.9, text/*;q=0.8, */*;q=0.1",
            "Accept-Encoding": "gzip, deflate",
        },
    )
    address_url = f"{url.scheme}://{at}:{url.port}{url.target}"
    # The certificate is that of the name, whatever the address is.
    named = {"sni_hostname": str(url.host)}
    async with client, client.stream("GET", address_url, extensions=named) as response:
        yield response


@cache
def _certificates() -> Any:
    import httpx  # noqa: PLC0415  # as above

    return httpx.create_ssl_context()


async def _answer(response: httpx.Response) -> _Answer:
    header = Message()
    header["Content-Type"] = response.headers.get("Content-Type", "application/octet-stream")
    is_redirect = response.status_code in (301, 302, 303, 307, 308)
    location = response.headers.get("Location") if is_redirect else None
    body, cut = (b"", False) if location is not None else await _body(response)
    return _Answer(
        status=response.status_code,
        location=location,
        kind=header.get_content_type(),
        charset=header.get_content_charset(),
        body=body,
        cut=cut,
    )


async def _body(response: httpx.Response) -> tuple[bytes, bool]:
    """At most `MAX_BYTES` of the body, unpacked piece by piece: a small one may unpack to a huge
    one. Raises `zlib.error`."""
    unpack = _unpacking(response.headers.get("Content-Encoding", "identity").strip().lower())
    body = bytearray()
    async for chunk in response.aiter_raw(CHUNK_BYTES):
        body += unpack(chunk, MAX_BYTES - len(body))
        if len(body) >= MAX_BYTES:
            return bytes(body), True
    return bytes(body), False


def _unpacking(encoding: str) -> Callable[[bytes, int], bytes]:
    """From a piece and how much room there is to at most that much of what it holds."""
    if encoding in ("", "identity"):
        return lambda chunk, room: chunk[:room]
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ToolFailure(f"the page is packed as `{encoding[:40]}`, which nobody asked for")
    return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress


async def _page(url: WebUrl, answer: _Answer) -> Page:
    text = await _text(url, answer)
    return Page(url=str(url), status=answer.status, kind=answer.kind, text=text, cut=answer.cut)


async def _text(url: WebUrl, answer: _Answer) -> str:
    if answer.kind in _HTML:
        charset = answer.charset if _is_known(answer.charset) else None
        made = await work(PAGE_WORKER, str(url), charset or "", feed=answer.body, limit_s=CONVERT_S)
        if made is None:
            raise ToolFailure(f"{url} could not be turned into text within the limits")
        return made.decode("utf-8", "replace")
    if not answer.body or _is_text(answer.kind):
        charset = answer.charset if _is_known(answer.charset) else "utf-8-sig"
        return answer.body.decode(charset or "utf-8-sig", "replace")
    raise ToolFailure(
        f"{url} is {answer.kind} ({len(answer.body)} bytes{' and more' if answer.cut else ''}), "
        "and only text is read"
    )


def _is_text(kind: str) -> bool:
    subtype = kind.partition("/")[2]
    return kind.startswith("text/") or any(
        subtype == name or subtype.endswith((f"+{name}", f"-{name}")) for name in _TEXT
    )


def _is_known(charset: str | None) -> bool:
    """Whether Python knows it as a charset of texts."""
    if charset is None:
        return False
    try:
        b" ".decode(charset, "replace")
    except LookupError:
        return False
    return True


def _follow(url: WebUrl, location: str) -> WebUrl:
    try:
        return urls.follow(url, location)
    except urls.UrlError as error:
        raise ToolFailure(f"{url} redirects to what is not fetched: {error}") from None


def _is_same_place(here: WebUrl, there: WebUrl) -> bool:
    """Whether what may be asked for here may be asked for there: the same host, not less safely."""
    if here.host != there.host or (here.scheme, there.scheme) == ("https", "http"):
        return False
    return here.port == there.port or {here.port, there.port} <= USUAL_PORTS
