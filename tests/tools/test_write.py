"""Write: whole files; what exists is read first and keeps its nature."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.bench import Bench


def test_a_new_file_comes_with_its_directories(bench: Bench) -> None:
    """File and parents are made, with the usual modes, when they do not exist."""
    umask = os.umask(0o022)
    try:
        output = bench.call("Write", file_path="a/b/c.txt", content="one\ntwo")
    finally:
        os.umask(umask)
    assert output.content == "Created a/b/c.txt (7 bytes)."
    assert output.details == "--- /dev/null\n+++ b/a/b/c.txt\n@@ -0,0 +1,2 @@\n+one\n+two"
    path = bench.workspace / "a/b/c.txt"
    assert path.read_bytes() == b"one\ntwo"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in path.parent.iterdir()] == ["c.txt"]


def test_an_existing_file_must_be_read_first(bench: Bench) -> None:
    """The write fails, and the file stays, when it was not read in this run."""
    path = bench.put("a", "old")
    assert "has not been read yet" in str(bench.failure("Write", file_path="a", content="new"))
    assert path.read_text() == "old"


def test_a_file_that_changed_since_is_read_again_first(bench: Bench) -> None:
    """The write fails when somebody else changed the file after it was read."""
    path = bench.put("a", "old")
    bench.text("Read", file_path="a")
    path.write_text("changed")
    assert "has changed since" in str(bench.failure("Write", file_path="a", content="new"))
    assert path.read_text() == "changed"


def test_own_writes_need_no_new_read(bench: Bench) -> None:
    """A second write goes through when the first one was the last to touch the file."""
    bench.text("Write", file_path="a", content="one")
    output = bench.call("Write", file_path="a", content="two")
    assert output.content == "Replaced a (3 bytes)."
    assert output.details == "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two"
    assert (bench.workspace / "a").read_text() == "two"


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o4711, 0o444])
def test_the_mode_stays(bench: Bench, mode: int) -> None:
    """The mode of an existing file is kept, whatever it is."""
    path = bench.put("a", "x")
    path.chmod(mode)
    bench.text("Read", file_path="a")
    bench.text("Write", file_path="a", content="y")
    assert path.stat().st_mode & 0o7777 == mode


def test_a_hard_link_outside_keeps_the_old_content(bench: Bench, outside: Path) -> None:
    """The other name of a file is not written through."""
    os.link(outside / "secret", bench.workspace / "a")
    bench.text("Read", file_path="a")
    bench.text("Write", file_path="a", content="mine")
    assert (outside / "secret").read_text() == "outside\n"
    assert (bench.workspace / "a").read_text() == "mine"


def test_a_write_that_fails_leaves_nothing_behind(bench: Bench) -> None:
    """No temporary file stays when the new file cannot be put in its place."""
    (bench.workspace / "dir").mkdir()
    assert "is a directory" in str(bench.failure("Write", file_path="dir", content="x"))
    bench.put("file", "x")
    failure = bench.failure("Write", file_path="file/below", content="x")
    assert "is not a directory" in str(failure)
    assert sorted(p.name for p in bench.workspace.iterdir()) == ["dir", "file"]


def test_a_file_that_is_not_utf8_is_not_rewritten(bench: Bench) -> None:
    """The write is refused when it would change the encoding of a file."""
    path = bench.put("a", b"caf\xe9")
    bench.text("Read", file_path="a")
    assert "is not UTF-8" in str(bench.failure("Write", file_path="a", content="café"))
    assert path.read_bytes() == b"caf\xe9"


def test_half_a_character_is_no_content(bench: Bench) -> None:
    """The write fails when the content holds a lone surrogate."""
    assert "surrogate" in str(bench.failure("Write", file_path="a", content="\ud800"))
    assert not (bench.workspace / "a").exists()


ENDS = st.sampled_from(["\n", "\r\n", "\r"])
LINES = st.lists(st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"), max_size=5))


@given(old=LINES, new=LINES, end=ENDS, bom=st.booleans(), last=st.booleans())
def test_line_ends_and_byte_order_mark_stay(
    old: list[str], new: list[str], end: str, bom: bool, last: bool
) -> None:
    """The new lines have the old kind of line end, and the mark stays if there was one."""
    mark = b"\xef\xbb\xbf" * bom
    old_text = end.join(old) + end * last
    expected_end = end if end in old_text else "\n"
    content = "\n".join(new)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(workspace=Path(folder), spill_dir=Path(folder) / "spill")
        path = bench.put("a", mark + old_text.encode())
        bench.text("Read", file_path="a")
        bench.text("Write", file_path="a", content=content)
        body = expected_end.join(new).encode()
        assert path.read_bytes() == (body if body.startswith(mark) else mark + body)
