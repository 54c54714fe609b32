"""Edit: the replaced text changes, and not one byte beside it."""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner.tools.edit import MAX_PLACES
from runner.tools.lines import decode, find, splice
from tests.tools.bench import Bench


def edited(bench: Bench, content: bytes | str, old: str, new: str, **more: bool) -> bytes:
    """The bytes of a file after one edit."""
    path = bench.put("a", content)
    bench.text("Read", file_path="a")
    bench.text("Edit", file_path="a", old_string=old, new_string=new, **more)
    return path.read_bytes()


def test_an_exact_text_is_replaced(bench: Bench) -> None:
    """The text is replaced, and a diff is there for people, when it occurs once."""
    bench.put("a.py", "def f():\n    return 1\n")
    bench.text("Read", file_path="a.py")
    output = bench.call("Edit", file_path="a.py", old_string="return 1", new_string="return 2")
    assert output.content == "Edited a.py: 1 replaced, at line 2."
    assert output.details == (
        "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2"
    )
    assert (bench.workspace / "a.py").read_bytes() == b"def f():\n    return 2\n"


def test_a_second_edit_needs_no_new_read(bench: Bench) -> None:
    """Edits follow one another when nobody else touched the file."""
    edited(bench, "one two\n", "one", "1")
    bench.text("Edit", file_path="a", old_string="two", new_string="2")
    assert (bench.workspace / "a").read_bytes() == b"1 2\n"


@pytest.mark.parametrize(
    ("content", "old", "new", "message"),
    [
        ("a\n", "b", "c", "old_string is not in a."),
        ("x\nx\n", "x", "y", "more than once (lines 1, 2)"),
        ("x\n" * 12, "x", "y", "more than once (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)"),
        ("ababa\n", "aba", "c", "more than once (lines 1, 1)"),
        ("a\n", "", "c", "old_string is empty"),
        ("a\n", "a", "a", "nothing would change"),
        ("a\n", "a", "\udc00", "surrogate"),
        (b"caf\xe9\n", "caf", "x", "is not UTF-8 (byte 3)"),
    ],
)
def test_an_edit_that_cannot_be_meant_changes_nothing(
    bench: Bench, content: bytes | str, old: str, new: str, message: str
) -> None:
    """The failure says why, and the file stays, when the edit is not clear."""
    path = bench.put("a", content)
    before = path.read_bytes()
    bench.text("Read", file_path="a")
    failure = bench.failure("Edit", file_path="a", old_string=old, new_string=new)
    assert message in str(failure)
    assert path.read_bytes() == before


def test_a_file_must_be_read_first(bench: Bench) -> None:
    """The edit fails when the file was not read in this run, or changed since."""
    path = bench.put("a", "old")
    arguments = {"file_path": "a", "old_string": "old", "new_string": "new"}
    assert "has not been read yet" in str(bench.failure("Edit", **arguments))
    bench.text("Read", file_path="a")
    path.write_text("old and more")
    assert "has changed since" in str(bench.failure("Edit", **arguments))
    assert path.read_text() == "old and more"


def test_replace_all_replaces_every_one(bench: Bench) -> None:
    """Every occurrence is replaced, from the left and without overlap, when asked to."""
    assert edited(bench, "aaa b aa\r\naaaa", "aa", "x", replace_all=True) == b"xa b x\r\nxx"


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("1," * 50_000, ",", ";"),
        ("1," * 50_000, ",", ",\n"),
        ("a b\n" * 50_000, "a", "c"),
        ("a\n" * 50_000, "a\n", "a\nx\n"),
    ],
    ids=["one line", "one line to many", "in lines", "whole lines"],
)
def test_the_time_of_many_replacements_grows_no_faster_than_their_number(
    bench: Bench, text: str, old: str, new: str
) -> None:
    """A large generated file is changed at once; nothing else gets a turn before that is done."""
    place = bench.workspace / "f"
    place.write_text(text)
    bench.text("Read", file_path="f")
    began = time.process_time()
    bench.text("Edit", file_path="f", old_string=old, new_string=new, replace_all=True)
    assert time.process_time() - began < 20  # a second or two; minutes when it grows as a square
    assert place.read_text() == text.replace(old, new)


def test_more_places_than_anybody_means_are_refused(bench: Bench) -> None:
    """Nothing is changed when a text stands almost everywhere in a large file."""
    (bench.workspace / "f").write_text("z" * (MAX_PLACES + 1))
    bench.text("Read", file_path="f")
    call = {"file_path": "f", "old_string": "z", "new_string": "y", "replace_all": True}
    assert "more than 100000 times" in str(bench.failure("Edit", **call))
    assert (bench.workspace / "f").read_text() == "z" * (MAX_PLACES + 1)


def test_the_mode_stays(bench: Bench) -> None:
    """An executable file is one after the edit too."""
    path = bench.put("a", "x")
    path.chmod(0o755)
    bench.text("Read", file_path="a")
    bench.text("Edit", file_path="a", old_string="x", new_string="y")
    assert path.stat().st_mode & 0o7777 == 0o755


def test_a_hard_link_outside_keeps_the_old_content(bench: Bench, outside: Path) -> None:
    """The other name of a file is not written through."""
    os.link(outside / "secret", bench.workspace / "a")
    bench.text("Read", file_path="a")
    bench.text("Edit", file_path="a", old_string="outside", new_string="mine")
    assert (outside / "secret").read_text() == "outside\n"


@pytest.mark.parametrize(
    ("content", "old", "new", "result"),
    [
        (b"a\r\nb\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\n"),
        (b"a\rb\r", "a\nb", "a\nx\nb", b"a\rx\rb\r"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"a\r\nb\nc\n", "b", "b\nx", b"a\r\nb\nx\nc\n"),
        (b"a\r\nb\nc\n", "a", "a\nx", b"a\r\nx\r\nb\nc\n"),
        (b"a\r\nb\nc\rd", "a\nb\nc\nd", "a\nb\nc\ne", b"a\r\nb\nc\re"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"a\r\nb", "a\n", "", b"b"),
        (b"one", "one", "one\ntwo", b"one\ntwo"),
        ("é→ü\r\n".encode(), "→", "\n", "é\r\nü\r\n".encode()),
        (b"a\rb\n", "b", "", b"a\r\n\n"),
        (b"a\r\nb\r\n", "a\r\nb", "c\r\nd", b"c\r\nd\r\n"),
    ],
)
def test_new_lines_end_like_their_neighbours(
    bench: Bench, content: bytes, old: str, new: str, result: bytes
) -> None:
    """Line ends, byte order mark and a missing last line end stay as they are around an edit."""
    assert edited(bench, content, old, new) == result


WORDS = st.text(st.sampled_from("abé "), max_size=3)
PIECES = st.lists(st.tuples(WORDS, st.sampled_from(["\n", "\r\n", "\r", ""])), max_size=8)
NEW = st.text(st.sampled_from("abéx\n"), max_size=6)


@given(pieces=PIECES, new=NEW, bom=st.booleans(), data=st.data())
def test_bytes_outside_the_edit_are_unchanged(
    pieces: list[tuple[str, str]], new: str, bom: bool, data: st.DataObject
) -> None:
    """For any mix of line ends, only the match changes and the model sees what it asked for."""
    raw = b"\xef\xbb\xbf" * bom + "".join(w + e for w, e in pieces).encode()
    seen = decode(raw)
    start = data.draw(st.integers(0, len(seen)))
    old = seen[start : data.draw(st.integers(start, len(seen)))]
    assume(old and old != new and len(re.findall(f"(?={re.escape(old)})", seen)) == 1)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(workspace=Path(folder), spill_dir=Path(folder) / "spill")
        after = edited(bench, raw, old, new)
    assert decode(after) == seen.replace(old, new)
    (match,) = find(raw, old, overlapping=True)
    assert after.startswith(raw[: match.start])
    assert after.endswith(raw[match.end :])


@given(pieces=PIECES, old=st.text(st.sampled_from("ab\n"), min_size=1, max_size=3), new=NEW)
def test_replacing_every_one_is_what_the_model_sees_replaced(
    pieces: list[tuple[str, str]], old: str, new: str
) -> None:
    """For any mix of line ends, the text with all replaced is the text Python would make."""
    raw = "".join(w + e for w, e in pieces).encode()
    matches = list(find(raw, old, overlapping=False))
    assert decode(splice(raw, matches, old, new)) == decode(raw).replace(old, new)
    lines = [match.line for match in matches]
    assert lines == sorted(lines)
