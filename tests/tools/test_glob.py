"""Glob: names below a directory, newest first, whatever the tree looks like."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.ports import ToolDenied
from runner.tools import glob
from runner.tools.globbing import parse
from tests.tools.bench import Bench

TREE = ["a.py", "b.txt", ".hidden.py", "src/c.py", "src/deep/er/d.py", "src/deep/e.ts", "[x].py"]


@pytest.fixture
def tree(bench: Bench) -> Bench:
    """A bench with a small tree; each file is a second older than the one before."""
    for age, name in enumerate([*TREE, ".git/config", ".git/objects/aa/bb"]):
        path = bench.put(name, "x")
        os.utime(path, ns=(0, (1000 - age) * 10**9))
    return bench


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py", ".hidden.py", "[x].py"]),
        ("**/*.py", ["a.py", ".hidden.py", "src/c.py", "src/deep/er/d.py", "[x].py"]),
        ("**", TREE),
        ("**/**/**/*", TREE),
        ("src/**", ["src/c.py", "src/deep/er/d.py", "src/deep/e.ts"]),
        ("src/**/*.{ts,py}", ["src/c.py", "src/deep/er/d.py", "src/deep/e.ts"]),
        ("src/*/e.ts", ["src/deep/e.ts"]),
        ("./src//c.py", ["src/c.py"]),
        ("?.py", ["a.py"]),
        ("[ab].*", ["a.py", "b.txt"]),
        ("[[]x].py", ["[x].py"]),
        ("{a,{b,c}}.{py,txt}", ["a.py", "b.txt"]),
        ("src", []),
        ("*.PY", []),
        (".git/*", [".git/config"]),
        ("{.git,src}/*", ["src/c.py", ".git/config"]),
    ],
)
def test_patterns_match_names(tree: Bench, pattern: str, found: list[str]) -> None:
    """The files that match are listed, newest first, and nothing else."""
    assert tree.text("Glob", pattern=pattern) == ("\n".join(found) or "No files found.")


def test_a_path_and_an_absolute_pattern_say_where(tree: Bench) -> None:
    """The search begins at the path, or at the root that an absolute pattern begins with."""
    here = tree.workspace
    assert tree.text("Glob", pattern="*.py", path="src") == "src/c.py"
    assert tree.text("Glob", pattern=f"{here}/src/*.py") == "src/c.py"
    assert tree.text("Glob", pattern="*.py", path=str(here / "src")) == "src/c.py"


@pytest.mark.parametrize(
    ("arguments", "denied", "message"),
    [
        ({"pattern": "*", "path": "../out"}, True, "outside"),
        ({"pattern": "/etc/*"}, True, "does not begin with an allowed directory"),
        ({"pattern": "../*"}, False, "`..`"),
        ({"pattern": "./"}, False, "empty"),
        ({"pattern": "{a,b}" * 7}, False, "more than 64"),
        ({"pattern": "*", "path": "none"}, False, "does not exist"),
        ({"pattern": "*", "path": "a.py"}, False, "is not a directory"),
    ],
)
def test_a_search_that_cannot_be_made_says_why(
    tree: Bench, arguments: dict[str, str], denied: bool, message: str
) -> None:
    """It fails, as a denial when it reaches outside, and names the reason."""
    failure = tree.failure("Glob", **arguments)
    assert (isinstance(failure, ToolDenied), message in str(failure)) == (denied, True)


def test_no_link_is_followed(tree: Bench, outside: Path) -> None:
    """Links to directories, loops among them, are not entered; links to files are listed."""
    (tree.workspace / "src/loop").symlink_to(tree.workspace)
    (tree.workspace / "out").symlink_to(outside)
    (tree.workspace / "one.py").symlink_to("a.py")
    listed = tree.text("Glob", pattern="**").split("\n")
    assert sorted(listed) == sorted([*TREE, "src/loop", "out", "one.py"])


def test_a_hundred_are_listed_at_most(bench: Bench) -> None:
    """The newest hundred are listed, ties by name, and the note says how many there are."""
    for number in range(101):
        os.utime(bench.put(f"f{number:03}"), ns=(0, 0))
    os.utime(bench.put("f100"), ns=(0, 1))
    expected = ["f100", *(f"f{n:03}" for n in range(99))]
    note = "[the newest 100 of 101; narrow the pattern]"
    assert bench.text("Glob", pattern="*").split("\n") == [*expected, note]


def test_a_walk_has_an_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer says that it is not complete when the tree has too many entries."""
    monkeypatch.setattr(glob, "MAX_ENTRIES", 10)
    for number in range(30):
        bench.put(f"d{number:02}/x")
    assert "stopped after" in bench.text("Glob", pattern="**/x")


def test_a_deep_tree_is_left_at_some_depth(bench: Bench) -> None:
    """500 levels of directories do no harm, and the answer says that some were left out."""
    fd = os.open(bench.workspace, os.O_RDONLY)
    for _ in range(500):
        os.mkdir("d", dir_fd=fd)
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    text = bench.text("Glob", pattern="**/x")
    assert text.startswith("No files found.\n[directories deeper than 100 levels were left out")


def test_an_unreadable_directory_does_not_hide_the_others(bench: Bench) -> None:
    """What can be listed is listed when a directory vanishes or is closed."""
    bench.put("a/x")
    bench.put("b/x")
    (bench.workspace / "a").chmod(0)
    try:
        assert "b/x" in bench.text("Glob", pattern="**/x").split("\n")
    finally:
        (bench.workspace / "a").chmod(0o755)


PARTS = st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "?"]), min_size=1, max_size=4)
NAMES = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4)


@given(parts=PARTS, names=NAMES)
def test_the_match_is_what_pathlib_finds(parts: list[str], names: list[str]) -> None:
    """For every pattern that does not end in `**`, the match agrees with `Path.glob`."""
    if parts[-1] == "**":
        parts = [*parts, "*"]
    pattern = parse("/".join(parts))
    state = pattern.start
    for name in names:
        state = pattern.after(state, name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, *names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        assert pattern.matches(state) == (path in set(Path(folder).glob("/".join(parts))))
