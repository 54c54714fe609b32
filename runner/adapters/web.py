"""Reads pages of the web: GET, on addresses that were checked, within limits of size and time.

Rules of this file: a name is looked up once a request, every address is checked, and what was
checked is what is connected to. No cookie, no credential, no proxy of the environment. A redirect
is followed on the same host alone; to go elsewhere is a decision for whoever asked.
"""

from __future__ import annotations

import asyncio
import codecs
import re
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

_CHARSETS = re.compile(
    r"ascii|utf-8|utf-16(-[bl]e)?|iso8859-\d+|cp(125\d|866|874|932|949|950)|koi8-[ru]|mac-roman"
    r"|shift_jis|euc_(jp|kr)|iso2022_jp|gb2312|gbk|gb18030|big5|big5hkscs|tis-620"
)
_KIND = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
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
                why = type(error).__name__  # its words may be the server's
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
    """At most `MAX_BYTES` of the body, and whether there is more. Raises `zlib.error`."""
    unpack = _unpacking(response.headers.get("Content-Encoding", "identity").strip().lower())
    body, read = bytearray(), 0
    async for chunk in response.aiter_raw(CHUNK_BYTES):
        read += len(chunk)
        body += unpack.some(chunk, MAX_BYTES - len(body))
        if len(body) >= MAX_BYTES or read > MAX_BYTES:
            return bytes(body), True
    return bytes(body), not unpack.is_whole


class _AsItIs:
    """A body that is not packed."""

    is_whole = True

    def some(self, chunk: bytes, room: int) -> bytes:
        """At most `room` bytes of what this piece holds."""
        return chunk[:room]


class _Unzipped:
    """A body that is packed, one part or several; unpacked piece by piece, since a small one may
    unpack to a huge one. What stands behind the last part is nothing."""

    def __init__(self) -> None:
        self._part = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._is_first = True
        self._is_over = False

    @property
    def is_whole(self) -> bool:
        """No part of it is missing its end."""
        return self._is_over or self._part.eof

    def some(self, chunk: bytes, room: int) -> bytes:
        """At most `room` bytes of what this piece holds. Raises `zlib.error`."""
        made = b""
        while chunk and not self._is_over and len(made) < room:
            if self._part.eof:
                self._part, self._is_first = zlib.decompressobj(zlib.MAX_WBITS | 32), False
            try:
                made += self._part.decompress(chunk, room - len(made))
            except zlib.error:
                if self._is_first:
                    raise
                self._is_over = True
            chunk = self._part.unused_data
        return made


def _unpacking(encoding: str) -> _AsItIs | _Unzipped:
    if encoding in ("", "identity"):
        return _AsItIs()
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ToolFailure("the page is packed in a way that nobody asked for")
    return _Unzipped()


async def _page(url: WebUrl, answer: _Answer) -> Page:
    text = await _text(url, answer)
    return Page(url=str(url), status=answer.status, kind=answer.kind, text=text, cut=answer.cut)


async def _text(url: WebUrl, answer: _Answer) -> str:
    if answer.kind in _HTML:
        charset = _charset(answer.charset)
        made = await work(PAGE_WORKER, str(url), charset or "", feed=answer.body, limit_s=CONVERT_S)
        if made is None:
            raise ToolFailure(f"{url} could not be turned into text within the limits")
        return made.decode("utf-8", "replace")
    if not answer.body or _is_text(answer.kind):
        return answer.body.decode(_charset(answer.charset) or "utf-8-sig", "replace")
    kind = answer.kind if _KIND.fullmatch(answer.kind) else "of a type that is none"
    size = f"{len(answer.body)} bytes{' and more' if answer.cut else ''}"
    raise ToolFailure(f"{url} is {kind} ({size}), and only text is read")


def _is_text(kind: str) -> bool:
    subtype = kind.partition("/")[2]
    return kind.startswith("text/") or any(
        subtype == name or subtype.endswith((f"+{name}", f"-{name}")) for name in _TEXT
    )


def _charset(name: str | None) -> str | None:
    """The charset of this name, if it is one of the web's: Python knows some that take hours."""
    try:
        known = codecs.lookup(name or "").name
    except LookupError:
        return None
    return known if _CHARSETS.fullmatch(known) else None


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
