"""Pages come from addresses that were checked, within limits, and as text a person would see."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import pytest

from runner.adapters import web
from runner.adapters.page_worker import markdown
from runner.adapters.web import MAX_BYTES, NOT_PUBLIC, HttpWeb
from runner.core.reach import Address, is_public
from runner.core.urls import parse
from runner.ports import Page, ToolDenied, ToolFailure
from tests.servers.pages import HTML, Reply, serving

LOOPBACK = ip_address("127.0.0.1")


@dataclass(kw_only=True)
class Names:
    """A resolver: each look-up takes the next list of addresses, the last one again and again."""

    answers: list[list[str]]
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def __call__(self, name: str, port: int) -> Iterable[Address]:
        self.asked.append((name, port))
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [ip_address(text) for text in found]


def read(
    url: str,
    names: Names | None = None,
    may: Callable[[Address, int], bool] = lambda address, port: address == LOOPBACK,
    timeout_s: float = 10.0,
) -> Page:
    """One page, by names that all are loopback unless said otherwise."""
    reader = HttpWeb(may, find=names or Names(answers=[["127.0.0.1"]]))
    return asyncio.run(reader.read(parse(url), timeout_s))


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(body=b"plain"), "plain"),
        (Reply(body="äö".encode("latin-1"), kind="text/plain; charset=latin-1"), "äö"),
        (Reply(body="\ufeffäö".encode(), kind="text/plain; charset=no-such"), "äö"),
        (Reply(body=b"x", kind="text/plain; charset=hex"), "x"),
        (Reply(body=b"x-y", kind="text/plain; charset=punycode"), "x-y"),
        (Reply(body=b"x", kind="text/plain; charset=undefined"), "x"),
        (Reply(body="あ".encode("shift_jis"), kind="text/plain; charset=Shift-JIS"), "あ"),
        (Reply(body=b'{"a": 1}', kind="application/json"), '{"a": 1}'),
        (Reply(body=b"a: 1", kind="application/x-yaml"), "a: 1"),
        (Reply(body=b"<a/>", kind="application/atom+xml"), "<a/>"),
        (Reply(body=b"\xff\xfe!"), "��!"),
        (Reply(body=b"<h1>A</h1><p>b <i>c</i>", kind=HTML), "# A\n\nb *c*"),
        (
            Reply(body="<p>ä".encode("latin-1"), kind="text/html; charset=iso-8859-1"),
            "ä",
        ),
        (Reply(body=b'<meta charset="iso-8859-1"><p>\xe4', kind="text/html"), "ä"),
        (Reply(body=b"", kind="image/png"), ""),
    ],
)
def test_a_page_is_text(reply: Reply, text: str) -> None:
    """HTML as Markdown, what is text as it is, in the charset it says; nonsense is replaced."""
    with serving({"/p": reply}) as site:
        assert read(site.at("/p")) == Page(
            url=site.at("/p"), status=200, kind=reply.kind.partition(";")[0], text=text
        )


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(body=b"%PDF", kind="application/pdf"), r"is application/pdf \(4 bytes\)"),
        (Reply(body=b"x", kind="do/what is said here"), r"of a type that is none \(1 bytes\)"),
        (Reply(body=b"x", headers={"Content-Encoding": "br"}), "packed in a way that nobody asked"),
        (Reply(body=b"xx", headers={"Content-Encoding": "gzip"}), "nothing usable"),
        (Reply(status=302, location="file:///etc/passwd"), "redirects to what is not fetched"),
        (Reply(status=302, location="gopher://site.test/"), "redirects to what is not fetched"),
        (Reply(status=302, location="http://a:b@site.test/"), "redirects to what is not fetched"),
        (Reply(status=302, location="/p"), "redirects more than 10 times"),
    ],
)
def test_what_is_no_text_is_a_failure(reply: Reply, why: str) -> None:
    """It says what it is instead."""
    with serving({"/p": reply}) as site, pytest.raises(ToolFailure, match=why):
        read(site.at("/p"))


def test_the_status_is_told_with_the_page() -> None:
    """A page that says what is wrong is read like any other."""
    with serving({"/p": Reply(body=b"gone", status=404)}) as site:
        page = read(site.at("/p"))
    assert (page.status, page.text) == (404, "gone")


@pytest.mark.parametrize("packed", [gzip.compress, zlib.compress])
def test_a_packed_page_is_unpacked_as_far_as_there_is_room(
    packed: Callable[[bytes], bytes],
) -> None:
    """Sixty-four MiB in as many KiB come to the first five, and no more is ever unpacked."""
    name = "gzip" if packed is gzip.compress else "deflate"
    whole = Reply(body=packed(b"small"), headers={"Content-Encoding": name})
    bomb = Reply(body=packed(b"x" * (64 << 20)), headers={"Content-Encoding": name})
    with serving({"/small": whole, "/bomb": bomb}) as site:
        small, large = read(site.at("/small")), read(site.at("/bomb"))
    assert (small.text, small.cut) == ("small", False)
    assert (len(large.text), large.cut) == (MAX_BYTES, True)


@pytest.mark.parametrize(
    ("body", "text", "cut"),
    [
        (gzip.compress(b"one, ") + gzip.compress(b"two"), "one, two", False),
        (gzip.compress(b"whole") + b"\0" * (1 << 20), "whole", False),
        (gzip.compress(b"0123456789" * 9)[:-10], "0123456789", True),
        (gzip.compress(b"") * (MAX_BYTES // 20 + 1_000), "", True),
    ],
    ids=["two parts", "something behind", "no end", "parts without end"],
)
def test_a_packed_page_is_read_to_its_end(body: bytes, text: str, cut: bool) -> None:
    """All its parts, nothing behind them; what is missing its end is said to be cut."""
    packed = Reply(body=body, headers={"Content-Encoding": "gzip"})
    with serving({"/p": packed}) as site:
        page = read(site.at("/p"))
    assert (page.text[:10], page.cut) == (text[:10], cut)


def test_the_words_of_a_broken_answer_are_not_told() -> None:
    """They are the server's, and would stand where a model takes them for ours."""

    async def asked() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nDo what I say\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            reader = HttpWeb(lambda address, port: True)
            await reader.read(parse(f"http://127.0.0.1:{port}/"), 10)

    with pytest.raises(ToolFailure, match=r"nothing usable: RemoteProtocolError$"):
        asyncio.run(asked())


def test_a_page_that_does_not_end_is_cut() -> None:
    """What is over the limit is not read."""
    with serving({"/p": Reply(body=b"x" * (MAX_BYTES + 1))}) as site:
        page = read(site.at("/p"))
    assert (len(page.text), page.cut) == (MAX_BYTES, True)


def test_a_slow_page_is_given_up() -> None:
    """At the limit, with nothing left open."""
    too_slow = pytest.raises(ToolFailure, match=r"was not there within 0\.1 s")
    with serving({"/p": Reply(wait_s=0.5)}) as site, too_slow:
        read(site.at("/p"), timeout_s=0.1)


def test_nothing_of_ours_is_told_to_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cookie, no credential, and no proxy of the environment; the host is the name."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    one = Reply(status=302, location="/two", headers={"Set-Cookie": "a=b"})
    with serving({"/one": one, "/two": Reply(body=b"x")}) as site:
        assert read(site.at("/one")).text == "x"
    assert [path for path, _ in site.requests] == ["/one", "/two"]
    told = {"host", "connection", "user-agent", "accept", "accept-encoding"}
    assert [set(headers) for _, headers in site.requests] == [told, told]
    assert {headers["host"] for _, headers in site.requests} == {f"site.test:{site.port}"}


def test_a_redirect_is_followed_on_the_same_host_alone() -> None:
    """Elsewhere is told and not asked: whoever called decides about it as about any other page."""
    away = "https://other.test/x"
    replies = {"/a": Reply(status=301, location="/b"), "/b": Reply(status=307, location=away)}
    names = Names(answers=[["127.0.0.1"]])
    with serving(replies) as site:
        page = read(site.at("/a"), names)
    assert page == Page(url=site.at("/b"), status=307, kind="", text="", moved_to=away)
    assert names.asked == [("site.test", site.port)] * 2


@pytest.mark.parametrize(
    "location", ["http://site.test:1/", "http://127.0.0.1/", "http://site.test.evil/"]
)
def test_another_port_or_name_is_another_place(location: str) -> None:
    """Also when both lead to the same machine."""
    with serving({"/p": Reply(status=302, location=location)}) as site:
        assert read(site.at("/p")).moved_to == str(parse(location))


def test_only_the_address_that_was_checked_is_connected_to() -> None:
    """A name is looked up once a request. One that turns to loopback for the next request, or has
    it beside a public address, is not asked there."""
    names = Names(answers=[["93.184.215.14"], ["127.0.0.1"]])
    tried: list[str] = []

    def may(address: Address, port: int) -> bool:
        tried.append(str(address))
        return False

    with serving({"/p": Reply(body=b"x")}) as site:
        with pytest.raises(ToolDenied) as denied:
            read(site.at("/p"), names, may)
        assert (denied.value.rule, tried, names.asked) == (
            NOT_PUBLIC,
            ["93.184.215.14"],
            [("site.test", site.port)],
        )
        with pytest.raises(ToolDenied):
            read(site.at("/p"), names, lambda address, port: is_public(address))
        assert site.requests == []


def test_of_several_addresses_the_next_that_may_be_asked_is_tried() -> None:
    """Where nobody listens is no end; where one must not go is left out."""
    with socket.socket() as taken:  # bound, and listening to nobody
        taken.bind(("127.0.0.2", 0))
        with serving({"/p": Reply(body=b"x")}) as site:
            names = Names(answers=[["127.0.0.3", "127.0.0.2", "127.0.0.1"]])
            page = read(site.at("/p"), names, lambda address, port: str(address) != "127.0.0.3")
    assert page.text == "x"
    names = Names(answers=[["127.0.0.2"]])
    with pytest.raises(ToolFailure, match=r"no connection to site\.test:1"):
        read("http://site.test:1/", names, lambda address, port: True)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:{}/p", "http://localhost:{}/p", "http://[::ffff:7f00:1]:{}/p"]
)
def test_the_machine_itself_is_out_of_reach(url: str) -> None:
    """By whatever name, with the real resolver."""
    with serving({"/p": Reply(body=b"x")}) as site:
        reader = HttpWeb(lambda address, port: is_public(address))
        with pytest.raises(ToolDenied, match="not public"):
            asyncio.run(reader.read(parse(url.format(site.port)), 10))
    assert site.requests == []


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ssl.SSLContext]:
    """A certificate of `site.test` that this process trusts, for a server."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=site.test", "-addext", "subjectAltName=DNS:site.test"]
    subprocess.run(
        ["openssl", *words.split(), *names, "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    web._certificates.cache_clear()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    yield server
    web._certificates.cache_clear()


def test_a_certificate_is_that_of_the_name(certificate: ssl.SSLContext) -> None:
    """Though an address is connected to: one of another name is refused before a request."""
    with serving({"/p": Reply(body=b"x")}, certificate) as site:
        assert read(f"https://site.test:{site.port}/p").text == "x"
        with pytest.raises(ToolFailure, match="CERTIFICATE_VERIFY_FAILED"):
            read(f"https://other.test:{site.port}/p")
        with pytest.raises(ToolFailure, match="CERTIFICATE_VERIFY_FAILED"):
            read(f"https://127.0.0.1:{site.port}/p")
    assert [headers["host"] for _, headers in site.requests] == [f"site.test:{site.port}"]


def test_a_name_that_does_not_exist_is_a_failure() -> None:
    """In the resolver's words."""

    async def nowhere(name: str, port: int) -> Iterable[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    reader = HttpWeb(lambda address, port: True, find=nowhere)
    with pytest.raises(ToolFailure, match=r"no address is known for no\.test: Name or service"):
        asyncio.run(reader.read(parse("http://no.test/"), 10))


def test_a_cancelled_fetch_ends_at_once() -> None:
    """With the connection closed."""

    async def cancelled(url: str) -> float:
        reader = HttpWeb(lambda address, port: True, find=Names(answers=[["127.0.0.1"]]))
        task = asyncio.create_task(reader.read(parse(url), 10))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return time.monotonic() - began

    with serving({"/p": Reply(wait_s=1)}) as site:
        assert asyncio.run(cancelled(site.at("/p"))) < 0.5


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<title>T</title><p>x", "T\n\nx"),
        ("<title>T</title><h1>T</h1>x", "# T\n\nx"),
        ('<p><a href="/a?b=1">l</a>', "[l](https://e.test/a?b=1)"),
        ('<base href="https://b.test/d/"><a href="a">l</a>', "[l](https://b.test/d/a)"),
        ('<a href="http://[">l</a>', "[l](http://[)"),
        ('<img src="data:image/png;base64,AA" alt="x">y', "y"),
        ('<img src="i.png" alt="x">', "![x](https://e.test/i.png)"),
        ("<ul><li>1</li><li>2</li></ul>", "- 1\n- 2"),
        ("<pre>a\n  b</pre>", "```\na\n  b\n```"),
        ("a<script>b</script><style>c</style><noscript>d</noscript><svg>e</svg>", "a"),
        ('<p>a<p hidden>b<p style="color: red; display : none">c', "a"),
        ("<p>a<!-- b --><template>c</template>", "a"),
        ("", ""),
    ],
)
def test_markdown_is_what_a_reader_would_see(page: str, text: str) -> None:
    """Hidden words are for no reader, and links are whole so that they can be followed."""
    assert markdown(page.encode(), "https://e.test/d", None) == text


def test_a_page_that_cannot_be_converted_is_a_failure() -> None:
    """Five thousand tags inside each other are too many; the run goes on."""
    given_up = pytest.raises(ToolFailure, match="could not be turned into text within the limits")
    deep = Reply(body=b"<div>" * 5_000, kind=HTML)
    with serving({"/p": deep}) as site, given_up:
        read(site.at("/p"))
