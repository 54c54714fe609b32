"""A URL is taken apart in one way, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.urls import MAX_CHARS, UrlError, follow, parse


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("https://example.com", "https://example.com/"),
        (" http://EXAMPLE.com.:80/a b?q=ä#top ", "http://example.com/a%20b?q=%C3%A4"),
        ("https://example.com:443/%2e%2e/x", "https://example.com/%2e%2e/x"),
        ("https://example.com:8443?q=1?2", "https://example.com:8443/?q=1?2"),
        ("http://[::1]:81/", "http://[::1]:81/"),
        ("http://127.0.0.1/a//b", "http://127.0.0.1/a//b"),
        ("HTTPS://xn--nxasmq6b.example/", "https://xn--nxasmq6b.example/"),
    ],
)
def test_a_url_has_one_plain_form(text: str, plain: str) -> None:
    """Case, the usual port, the last dot and what is not sent are gone; nothing else is."""
    assert str(parse(text)) == plain
    assert str(parse(plain)) == plain


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("file:///etc/passwd", "only http:// and https://"),
        ("gopher://example.com/", "only http:// and https://"),
        ("//example.com/", "only http:// and https://"),
        ("example.com/x", "only http:// and https://"),
        ("", "only http:// and https://"),
        ("https://user@example.com/", "a user or a password"),
        ("https://example.com@evil.example/", "a user or a password"),
        ("https://evil.example#@example.com/x\\y", "a backslash"),
        ("https://exa\tmple.com/", "cannot be seen"),
        ("https://example.com\r\nHost: evil", "cannot be seen"),
        ("https://example.com/\0", "cannot be seen"),
        ("https://example.com%00.evil/", "no plain name"),
        ("https://example.com%2f@evil/", "a user or a password"),
        ("https://example.com:99999/", "cannot be read"),
        ("https://example.com:0/", "no plain name"),
        ("https://[::1/", "cannot be read"),
        ("https://2130706433/", "no plain name"),
        ("https://0x7f.1/", "no plain name"),
        ("https://0177.0.0.1/", "no plain name"),
        ("https://127.1/", "no plain name"),
        ("https://127。0。0。1/", "no plain name"),
        ("https://①②⑦.0.0.1/", "no plain name"),
        ("https://ex\u0430mple.com/", "no plain name"),
        ("https://[::1]evil.example/", "no plain name"),
        ("https://[fe80::1%25eth0]/", "no plain name"),
        ('https://[2606:4700::1111%"> go on]/', "no plain name"),
        ("https://\u212aube.example/", "no plain name"),
        ("https:///x", "no plain name"),
        ("https://" + "a" * MAX_CHARS, "longer than"),
    ],
)
def test_what_two_readers_could_take_for_two_things_is_none(text: str, why: str) -> None:
    """Each is refused with what is wrong: nothing of it is ever looked up."""
    with pytest.raises(UrlError, match=why):
        parse(text)


@pytest.mark.parametrize(
    ("location", "leads"),
    [
        ("/x?y", "https://a.example/x?y"),
        ("x", "https://a.example/d/x"),
        ("//b.example", "https://b.example/"),
        ("http://b.example:81/z", "http://b.example:81/z"),
        ("?q", "https://a.example/d/p?q"),
    ],
)
def test_a_redirect_is_read_from_where_it_stands(location: str, leads: str) -> None:
    """Relative ones are completed, whole ones stand."""
    assert str(follow(parse("https://a.example/d/p"), location)) == leads


@pytest.mark.parametrize("location", ["file:///x", "http://[", "http://a@b/", "javascript:1"])
def test_a_redirect_to_what_is_no_page_is_an_error(location: str) -> None:
    """It is one even where it cannot be read at all."""
    with pytest.raises(UrlError):
        follow(parse("https://a.example/"), location)


@given(st.text(alphabet="htps:/@#?%.[]\\0a17\t\r\n-xé。", max_size=40))
def test_whatever_is_read_reads_the_same_again(text: str) -> None:
    """The plain form of a URL is its own plain form, so that what was checked is what is sent."""
    try:
        parts = parse(f"http://{text}")
    except UrlError:
        return
    assert parse(str(parts)) == parts
