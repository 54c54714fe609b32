"""The diff that a write shows: it applies, and it takes no time that anybody would notice."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.diff import unified

LINES = st.lists(st.sampled_from(["a", "b", "@@ -1 +1 @@"]), max_size=20)


def text(lines: list[str]) -> str:
    """A file of these lines."""
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diff")
@given(before=LINES, after=LINES, around=st.integers(0, 8))
def test_a_diff_turns_the_old_text_into_the_new(
    before: list[str], after: list[str], around: int
) -> None:
    """git makes the new file of the old one with it, and it is empty when they are the same."""
    ends = [f"line {number}" for number in range(around)]
    old, new = text([*ends, *before, *ends]), text([*ends, *after, *ends])
    diff = unified(old, new, "f")
    assert (diff == "") == (old == new)
    if not old or not new or old == new:
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "f").write_text(old)
        subprocess.run(["git", "apply", "-"], cwd=folder, input=f"{diff}\n", text=True, check=True)
        assert (Path(folder) / "f").read_text() == new


def test_a_new_file_is_all_added() -> None:
    """There is no old file to name."""
    assert unified(None, "a\nb\n", "f") == "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b"


def test_a_small_change_of_a_large_file_is_a_small_diff() -> None:
    """Only what lies between the common ends is compared, and the lines keep their numbers."""
    before = [str(number % 101) for number in range(100_000)]
    after = [*before[:70_000], "new", *before[70_000:]]
    assert unified(text(before), text(after), "f").split("\n") == [
        "--- a/f",
        "+++ b/f",
        "@@ -69998,6 +69998,7 @@",
        *(f" {line}" for line in before[69_997:70_000]),
        "+new",
        *(f" {line}" for line in before[70_000:70_003]),
    ]


def test_texts_that_would_take_minutes_are_not_compared() -> None:
    """One word stands for the diff when far too many lines are far too much alike."""
    lines = [str(number % 101) for number in range(30_000)]
    diff = unified(text(lines), text(lines[::-1]), "f")
    assert diff == "f: changed; too much of it for a diff"
