"""Masking holds for every text and every way of cutting it."""

from __future__ import annotations

import base64
import itertools
import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from runner.adapters.redact import MASKED, Mask

KEY = "sk-test/7Hq9+Zr4&Wm2=xY8vB3nK6pL"
OTHER = 'pa"ss wörd'
MASK = Mask([KEY, OTHER])


def coded(prefix: bytes, secret: str) -> str:
    """Base64 of something with the secret in it."""
    return base64.b64encode(prefix + secret.encode() + b"!").decode()


FORMS = [
    *(form for s in (KEY, OTHER) for form in (s, quote(s, safe=""), json.dumps(s)[1:-1])),
    *(s.encode().hex() for s in (KEY, OTHER)),
    *(coded(b"x" * n, s) for s in (KEY, OTHER) for n in range(3)),
]
PIECES = st.builds(
    lambda form, start, size: form[start : start + size],
    st.sampled_from(FORMS),
    st.integers(0, 30),
    st.integers(0, 40),
)
TEXTS = st.lists(
    st.sampled_from(FORMS) | PIECES | st.text("sk-7 \n\r*=/", max_size=5), max_size=8
).map("".join)


def cut(text: str, places: list[int]) -> list[str]:
    """The text in pieces, cut at these places."""
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@given(TEXTS, st.lists(st.integers(0, 500), max_size=9))
def test_a_stream_gives_what_the_whole_gives(text: str, places: list[int]) -> None:
    """However a text is cut, its pieces masked one after the other are the text masked."""
    stream = MASK.stream()
    shown = [stream.feed(piece) for piece in cut(text, places)]
    assert "".join([*shown, stream.close()]) == MASK.text(text)


@given(TEXTS, st.lists(st.integers(0, 500), max_size=9))
def test_a_stream_of_bytes_gives_what_the_whole_gives(text: str, places: list[int]) -> None:
    """The same for bytes, cut inside characters too."""
    stream, raw = MASK.byte_stream(), text.encode()
    edges = [0, *sorted(place % (len(raw) + 1) for place in places), len(raw)]
    shown = [stream.feed(raw[a:b]) for a, b in itertools.pairwise(edges)]
    assert b"".join([*shown, stream.close()]).decode() == MASK.text(text)


@given(TEXTS)
def test_no_form_is_left(text: str) -> None:
    """Neither in the masked text nor in it without its line breaks is any form of a secret."""
    masked = MASK.text(text)
    bare = masked.replace("\n", "").replace("\r", "")
    assert not [form for form in FORMS[:8] if form in masked or form in bare]
    assert not [start for start in range(len(KEY) - 16) if KEY[start : start + 16] in bare]


@given(TEXTS)
def test_masked_text_stays_as_it_is(text: str) -> None:
    """There is nothing to mask any more."""
    assert MASK.text(MASK.text(text)) == MASK.text(text)


@given(st.text())
def test_innocent_text_stays_as_it_is(text: str) -> None:
    """What is no secret comes through, as the same object."""
    if MASKED not in MASK.text(text):
        assert MASK.text(text) is text
