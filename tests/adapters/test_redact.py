"""What a mask finds, and what it leaves alone."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from runner.adapters.redact import NOTHING, Mask
from runner.adapters.redact_events import EventMask
from runner.adapters.redact_file import CHUNK_BYTES, copy_masked
from runner.core.events import (
    AssistantMessage,
    AssistantMessageDelta,
    AssistantReasoning,
    AssistantReasoningDelta,
    Reasoning,
    SessionInfo,
    ToolContent,
    ToolExecutionComplete,
    ToolExecutionPartialResult,
)

KEY = "sk-test/7Hq9+Zr4&Wm2=xY8vB3nK6pL"
MASK = Mask([KEY])
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        quote(KEY, safe=""),
        quote(KEY),
        quote_plus(KEY),
        re.sub("%..", lambda match: match[0].lower(), quote(KEY, safe="")),
        json.dumps(KEY)[1:-1].replace("/", r"\/"),
        html.escape(KEY),
        KEY.encode().hex(),
        KEY.encode().hex().upper(),
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        KEY[7:],
        KEY[:20],
        KEY[5:21],
        KEY[:9] + "\n" + KEY[9:],
        "\r\n".join(KEY),
    ],
)
def test_sec9_a_secret_is_found_in_every_form(form: str) -> None:
    """Plain, encoded, escaped, cut, and with line breaks in it."""
    assert MASK.text(f"a {form} z") == "a *** z"


@pytest.mark.parametrize("before", ["", "x", "xy", "user:"])
def test_sec9_a_secret_is_found_inside_base64(before: str) -> None:
    """Wherever it starts in what is encoded, at most two characters at its edges are left."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(f"{before}{KEY}@host".encode()).decode()
        first, masked, last = MASK.text(text).partition("***")
        assert masked
        assert len(first) <= len(before) * 4 / 3 + 2
        assert len(last) <= len("@host") * 4 / 3 + 4


def test_base64_that_is_wrapped_is_found() -> None:
    """The lines of `base64` end every 76 characters."""
    text = base64.encodebytes(b"q" * 50 + KEY.encode() + b"q" * 50).decode()
    masked = MASK.text(text)
    assert "***" in masked
    coded = base64.b64encode(KEY.encode()).decode()
    assert not [n for n in range(len(coded) - 16) if coded[n : n + 16] in masked.replace("\n", "")]


@pytest.mark.parametrize(
    "text", ["", "***", "sk-test", KEY[:15], KEY[1:16], "sk-test/7Hq9 +Zr4&Wm"]
)
def test_short_pieces_and_likenesses_are_left(text: str) -> None:
    """Fewer than 16 characters of a key are no piece of it."""
    assert MASK.text(text) is text


def test_each_line_of_a_key_file_is_a_secret() -> None:
    """And the whole of it, also in JSON; but not the armour, which every such file has."""
    mask = Mask([PEM])
    assert mask.text(f"<{PEM}>").startswith("<***")
    assert mask.text("     2\tMIIEvQIBADANBg") == "     2\t***"
    assert mask.text(json.dumps({"key": PEM})) == '{"key": "***\\n"}'
    assert mask.text("-----BEGIN PRIVATE KEY-----\nother") == "-----BEGIN PRIVATE KEY-----\nother"


def test_a_secret_that_is_not_ascii_is_found_in_bytes() -> None:
    """As UTF-8, also when it is cut in the middle of a character."""
    mask = Mask(["geheim-äöü-wort"])
    assert mask.data("x geheim-äöü-wort y".encode()) == b"x *** y"
    raw, stream = "geheim-äöü-wort".encode(), mask.byte_stream()
    assert stream.feed(raw[:8]) + stream.feed(raw[8:]) + stream.close() == b"***"


def test_many_hits_are_one_pass() -> None:
    """Touching secrets are as many, overlapping forms are one."""
    assert MASK.text(KEY * 3) == "*" * 9
    assert Mask(["abcdefgh", "efghijkl"]).text("abcdefghijkl") == "***"


def _token(length: int) -> str:
    return "".join(hashlib.sha512(b"%d" % n).hexdigest() for n in range(length // 128 + 1))[:length]


def test_pieces_of_a_long_token_are_masked_but_not_of_a_long_text() -> None:
    """A token is no text; a text such as JSON has pieces that stand elsewhere, too."""
    token = _token(2_000)
    assert Mask([token]).text(f"a {token[700:900]} z") == "a *** z"
    text = '{"type": "service_account", "auth_uri": "https://example.com/auth", ' + token + "}"
    assert Mask([text]).text(text[:66]) == text[:66]
    assert Mask([text]).text(f"a {text} z") == "a *** z"


def test_a_huge_secret_is_masked_however_a_stream_is_cut() -> None:
    """Also one that is longer than what usually waits."""
    token = _token(100_000)
    stream = Mask([token]).stream()
    text = f"before {token} after"
    pieces = [text[at : at + 4_096] for at in range(0, len(text), 4_096)]
    assert "".join([*map(stream.feed, pieces), stream.close()]) == "before *** after"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Thing:
    name: str
    number: int = 1
    inner: dict[str, Any] = field(default_factory=dict)


def test_values_are_masked_in_depth_keys_included() -> None:
    """And what holds no secret is the same object."""
    thing = _Thing(name="x", inner={KEY: [{"a": (KEY, 2)}], "b": None})
    assert MASK.value(thing) == _Thing(name="x", inner={"***": [{"a": ("***", 2)}], "b": None})
    innocent = _Thing(name="x", inner={"a": [1, "b"]})
    assert MASK.value(innocent) is innocent
    assert NOTHING.value(thing) is thing


def test_pieces_of_a_reply_wait_for_what_may_be_a_secret() -> None:
    """What waited is shown before the whole reply, which is masked itself."""
    events = EventMask(MASK)
    pieces = ["look: ", KEY[:5], KEY[5:20], KEY[20:], " sk-te"]
    shown = [
        one
        for piece in pieces
        for one in events.live(AssistantMessageDelta(message_id="m", delta_content=piece))
    ]
    whole = AssistantMessage(
        message_id="m",
        content="".join(pieces),
        model="x",
        turn_id="0",
        finish_reason="stop",
        reasoning=(Reasoning(text=KEY, signature="s"), Reasoning(text="fine", signature="t")),
    )
    shown += events.before(whole)
    texts = [one.delta_content for one in shown if isinstance(one, AssistantMessageDelta)]
    fact = events.fact(whole)
    assert isinstance(fact, AssistantMessage)
    assert "".join(texts) == fact.content == "look: *** sk-te"
    assert fact.reasoning == (
        Reasoning(text="***", signature=None),  # it does not vouch for this text
        Reasoning(text="fine", signature="t"),
    )


def test_pieces_of_reasoning_and_of_outputs_wait_too() -> None:
    """Each stream by itself; nothing waits when there are no secrets."""
    events = EventMask(MASK)
    thought = AssistantReasoningDelta(reasoning_id="m", delta_content=KEY[:9])
    printed = ToolExecutionPartialResult(tool_call_id="c", partial_output="a" + KEY[:9])
    assert events.live(thought) == ()
    assert events.live(printed) == (
        ToolExecutionPartialResult(tool_call_id="c", partial_output="a"),
    )
    assert events.before(AssistantReasoning(reasoning_id="m", content=KEY[:9])) == (thought,)
    done = ToolExecutionComplete(
        tool_call_id="c",
        tool_name="Bash",
        success=True,
        turn_id="0",
        result=ToolContent(content="a" + KEY[:9]),
    )
    rest = ToolExecutionPartialResult(tool_call_id="c", partial_output=KEY[:9])
    assert events.before(done) == (rest,)
    assert events.before(done) == events.before(SessionInfo(info_type="x", message="y")) == ()
    assert EventMask(NOTHING).live(printed) == (printed,)


def test_a_file_is_copied_without_its_secrets(tmp_path: Path) -> None:
    """Also where a piece that is read ends inside one; the original is as it was."""
    source, target = tmp_path / "raw", tmp_path / "masked"
    source.write_bytes(b"-" * (CHUNK_BYTES - 5) + KEY.encode() + b"\n")
    assert copy_masked(source, target, MASK)
    assert target.read_bytes() == b"-" * (CHUNK_BYTES - 5) + b"***\n"
    assert target.stat().st_mode & 0o777 == 0o600
    assert not copy_masked(target, tmp_path / "again", MASK)
