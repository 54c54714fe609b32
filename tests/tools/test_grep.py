"""Grep: the same answers from ripgrep and from the script that stands in for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from runner.ports import ToolDenied
from runner.tools import grep
from tests.tools.bench import ENV, Bench

FILES: dict[str, bytes] = {
    ".gitignore": b"*.log\nbuild/\n!keep.log\n/only-top.txt\n",
    "a.py": b"import os\n\ndef needle():\n    return 1\n\n\n\n# needle again\n",
    "b.txt": b"Needle here\r\nno\r\nneedle end\r\n",
    "x.log": b"needle\n",
    "keep.log": b"needle\n",
    "only-top.txt": b"needle\n",
    "build/c.py": b"needle\n",
    "sub/.gitignore": b"!x.log\nlocal.md\n",
    "sub/x.log": b"needle\n",
    "sub/local.md": b"needle\n",
    "sub/only-top.txt": b"needle\n",
    "sub/deep/d.ts": b"const needle = 1\nconst b = 2\n",
    ".hidden/e.py": b"needle\n",
    "bin.dat": b"needle\0\n",
    "latin.txt": b"caf\xe9 needle\n",
    "bom.txt": b"\xef\xbb\xbfneedle first\n",
    "long.txt": b"needle " + b"x" * 600 + b"\n",
    "empty.txt": b"",
}
VISIBLE = [
    "a.py",
    "b.txt",
    "bom.txt",
    "keep.log",
    "latin.txt",
    "long.txt",
    "sub/deep/d.ts",
    "sub/only-top.txt",
    "sub/x.log",
]


@pytest.fixture(params=["ripgrep", "worker"])
def tree(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path) -> Bench:
    """One tree, searched both ways."""
    if request.param == "worker":
        bench.env = {**ENV, "PATH": str(tmp_path / "nowhere")}
        bench.__post_init__()
    elif shutil.which("rg") is None:
        pytest.skip("no ripgrep here")
    (bench.workspace / ".git").mkdir()
    for name, content in FILES.items():
        bench.put(name, content)
    return bench


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "needle"}, VISIBLE),
        ({"pattern": "^needle"}, ["b.txt", "bom.txt", "keep.log", "long.txt", *VISIBLE[-2:]]),
        ({"pattern": "end$"}, ["b.txt"]),
        ({"pattern": "NEEDLE", "-i": True, "glob": "*.py"}, ["a.py"]),
        ({"pattern": "needle", "glob": "*.log"}, ["keep.log", "sub/x.log", "x.log"]),
        ({"pattern": "needle", "glob": "sub/**"}, ["sub/deep/d.ts", "sub/local.md", *VISIBLE[-2:]]),
        ({"pattern": "needle", "glob": "*.{py,ts}"}, ["a.py", "sub/deep/d.ts"]),
        (
            {"pattern": "needle", "glob": "!*.txt"},
            ["a.py", "keep.log", "sub/deep/d.ts", "sub/x.log"],
        ),
        ({"pattern": "needle", "type": "py"}, ["a.py"]),
        ({"pattern": "needle", "type": "ts", "path": "sub"}, ["sub/deep/d.ts"]),
        ({"pattern": "needle", "path": "sub"}, VISIBLE[-3:]),
        ({"pattern": "needle", "path": "x.log"}, ["x.log"]),
        ({"pattern": "needle", "path": ".hidden/e.py"}, [".hidden/e.py"]),
        (
            {"pattern": "needle", "head_limit": 2},
            ["a.py", "b.txt", "[the first 2 of 9 lines; see head_limit]"],
        ),
        ({"pattern": "absent"}, ["No matches found."]),
        ({"pattern": "needle", "output_mode": "count", "path": "a.py"}, ["a.py:2"]),
        (
            {"pattern": "needle", "output_mode": "count", "type": "txt"},
            ["b.txt:1", "bom.txt:1", "latin.txt:1", "long.txt:1", "sub/only-top.txt:1"],
        ),
        (
            {"pattern": "needle", "output_mode": "content", "glob": "[ab].*"},
            ["a.py:3:def needle():", "a.py:8:# needle again", "b.txt:3:needle end"],
        ),
        (
            {"pattern": "needle", "output_mode": "content", "glob": "[ab].*", "-n": False},
            ["a.py:def needle():", "a.py:# needle again", "b.txt:needle end"],
        ),
        (
            {"pattern": "needle", "output_mode": "content", "glob": "[ab].*", "-C": 1},
            [
                "a.py-2-",
                "a.py:3:def needle():",
                "a.py-4-    return 1",
                "--",
                "a.py-7-",
                "a.py:8:# needle again",
                "--",
                "b.txt-2-no",
                "b.txt:3:needle end",
            ],
        ),
        (
            {"pattern": "needle", "output_mode": "content", "path": "a.py", "-B": 1, "-A": 0},
            ["a.py-2-", "a.py:3:def needle():", "--", "a.py-7-", "a.py:8:# needle again"],
        ),
        (
            {"pattern": "needle", "output_mode": "content", "path": "latin.txt"},
            ["latin.txt:1:caf\ufffd needle"],
        ),
        (
            {"pattern": "needle", "output_mode": "content", "path": "long.txt"},
            ["long.txt:1:needle " + "x" * 493 + " [line cut at 500 characters]"],
        ),
        (
            {"pattern": r"needle.*return", "output_mode": "content", "multiline": True},
            ["a.py:3:def needle():", "a.py:4:    return 1"],
        ),
        ({"pattern": "needle.*const", "multiline": True}, ["sub/deep/d.ts"]),
        ({"pattern": "needle.*return"}, ["No matches found."]),
    ],
)
def test_both_ways_find_the_same(tree: Bench, arguments: dict[str, Any], lines: list[str]) -> None:
    """The answer is this, from ripgrep and from the worker alike."""
    assert tree.text("Grep", **arguments).split("\n") == lines


def test_no_ignore_file_counts_outside_of_git(tree: Bench) -> None:
    """Ignored files are searched too when there is no git repository around."""
    (tree.workspace / ".git").rmdir()
    everything = sorted([*VISIBLE, "build/c.py", "only-top.txt", "sub/local.md", "x.log"])
    assert tree.text("Grep", pattern="needle").split("\n") == everything


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pattern": "(open"}, "unclosed group|unterminated subpattern"),
        ({"pattern": "a{1,99999999999}"}, "exceeds|too large|invalid|number"),
        ({"pattern": "needle", "type": "nope"}, "unrecognized file type: nope"),
        ({"pattern": "needle", "path": "bin.dat"}, "binary file"),
        ({"pattern": "needle", "path": "none"}, "does not exist"),
        ({"pattern": "a\0"}, "NUL"),
        ({"pattern": "\ud800"}, "surrogate"),
        ({"pattern": "a", "glob": "\ud800"}, "surrogate"),
    ],
)
def test_a_search_that_cannot_be_made_says_why(
    tree: Bench, arguments: dict[str, Any], message: str
) -> None:
    """It fails with the reason in words when pattern, type or path are no good."""
    failure = tree.failure("Grep", **arguments)
    assert not isinstance(failure, ToolDenied)
    assert any(part in str(failure) for part in message.split("|")), str(failure)


def test_nothing_outside_is_searched(tree: Bench, outside: Path) -> None:
    """Links are not followed, and a path outside is denied."""
    (tree.workspace / "link").symlink_to(outside)
    (tree.workspace / "file").symlink_to(outside / "secret")
    assert tree.text("Grep", pattern="^outside$") == "No matches found."
    for path in ("link", "file", str(outside), "/proc/self"):
        assert isinstance(tree.failure("Grep", pattern="x", path=path), ToolDenied)


def test_pipes_on_the_way_are_passed_by(tree: Bench) -> None:
    """The search ends when there is a named pipe in the tree."""
    os.mkfifo(tree.workspace / "pipe")
    assert tree.text("Grep", pattern="needle").split("\n") == VISIBLE


@pytest.mark.parametrize("name", ["--pre=touch x", "-e", "a b\tc"])
def test_patterns_and_names_are_never_options(tree: Bench, name: str) -> None:
    """A pattern, glob or file that looks like an option is searched for as it is."""
    tree.put(name, f"{name}\n")
    assert tree.text("Grep", pattern=name).split("\n") == [name.replace("\t", r"\t")]
    assert tree.text("Grep", pattern=name, path=name) == name.replace("\t", r"\t")
    assert tree.text("Grep", pattern="needle", glob=name) == "No matches found."


def test_a_configuration_file_of_ripgrep_counts_for_nothing(tree: Bench) -> None:
    """The answer is the same when the environment names a configuration for ripgrep."""
    config = tree.put("sub/config", "--hidden\n--no-ignore\n")
    tree.env = {**tree.env, "RIPGREP_CONFIG_PATH": str(config)}
    tree.__post_init__()
    assert tree.text("Grep", pattern="needle").split("\n") == VISIBLE


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(x+x+)+y", "a" * 10_000])
def test_no_pattern_hangs_the_run(
    tree: Bench, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer or a clear error at the limit, and the loop stays awake meanwhile."""
    monkeypatch.setattr(grep, "WORKER_S", 1.0)
    for name in FILES:
        (tree.workspace / name).unlink()
    tree.put("evil.txt", "a" * 40 + "!\n" + "x" * 40 + "\n")
    beats = 0

    async def search() -> str:
        nonlocal beats
        async with asyncio.TaskGroup() as group:
            task = group.create_task(tree.start("Grep", pattern=pattern))
            while not task.done():
                await asyncio.sleep(0.01)
                beats += 1
        return task.result().content

    began = time.monotonic()
    try:
        text = asyncio.run(search())
    except* Exception as failures:
        text = str(failures.exceptions[0])
    seconds = time.monotonic() - began
    assert text == "No matches found." or "nested repetition" in text
    assert seconds < 5
    assert beats >= (seconds - 0.3) / 0.05  # a busy machine is no fault
