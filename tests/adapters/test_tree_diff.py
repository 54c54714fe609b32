"""A patch made without git: git itself applies it, and the copy comes out byte for byte."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from runner.adapters import tree_diff
from runner.adapters.tree_diff import Stopped, changes

LONG = b"".join(b"line %d\n" % number for number in range(50))


def build(root: Path, files: Mapping[str, bytes]) -> Path:
    root.mkdir()
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def content(root: Path) -> dict[str, tuple[str, bytes]]:
    found = {}
    for path in root.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(root))] = ("link", os.fsencode(path.readlink()))
        elif path.is_file():
            kind = "x" if path.stat().st_mode & 0o100 else "f"
            found[str(path.relative_to(root))] = (kind, path.read_bytes())
    return found


BEFORE = {
    "edited": LONG,
    "gone": b"one\n",
    "no newline": b"a\nb",
    "emptied": b"x\n",
    "binary": bytes(range(256)) * 3,
    "mode": b"#!/bin/sh\n",
    "to link": b"text\n",
    'odd "name"\t\\': b"1\n",
    "same": b"same\n",
    "cr": b"a\r\nb\r\n",
}
AFTER = {
    "edited": LONG.replace(b"line 3\n", b"").replace(b"line 40\n", b"line forty\nand\n"),
    "no newline": b"a\nb\nc",
    "emptied": b"",
    "binary": bytes(range(255, -1, -1)) * 7,
    "mode": b"#!/bin/sh\n",
    'odd "name"\t\\': b"2\n",
    "same": b"same\n",
    "cr": b"a\r\nc\r\n",
    "new/deep/file": b"new\n",
    "new empty": b"",
    "new binary": b"\0\1",
    "\u00e4 b": b"umlaut\n",
}


def test_git_applies_the_patch_and_gets_the_copy(tmp_path: Path) -> None:
    """Edits, new and removed files, binaries, modes, links, empty files, odd names, no newline."""
    original, copy = build(tmp_path / "a", BEFORE), build(tmp_path / "b", AFTER)
    (copy / "mode").chmod(0o755)
    (copy / "to link").symlink_to("same")
    patch = tmp_path / "patch.diff"
    found = changes(original, copy, patch)
    shutil.copytree(original, tmp_path / "c", symlinks=True)
    subprocess.run(["git", "apply", str(patch)], cwd=tmp_path / "c", check=True)
    assert content(tmp_path / "c") == content(copy)
    told = {file.path: file.status for file in found.files}
    assert told == {
        **dict.fromkeys(("edited", "no newline", "emptied", "binary", "mode"), "modified"),
        **dict.fromkeys(("to link", "cr", 'odd "name"\t\\'), "modified"),
        **dict.fromkeys(("new/deep/file", "new empty", "new binary", "\u00e4 b"), "added"),
        "gone": "deleted",
    }
    edited = next(file for file in found.files if file.path == "edited")
    assert (edited.lines_added, edited.lines_removed, edited.binary) == (2, 2, False)
    assert (patch.stat().st_mode & 0o777, found.patch_bytes) == (0o600, patch.stat().st_size)


def test_a_long_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing its lines would take too long; the patch is right all the same."""
    monkeypatch.setattr(tree_diff, "MAX_COMPARED_LINES", 10)
    original, copy = build(tmp_path / "a", {"f": LONG}), build(tmp_path / "b", {"f": LONG + b"x"})
    found = changes(original, copy, tmp_path / "p")
    assert (found.lines_added, found.lines_removed) == (51, 50)
    subprocess.run(["git", "apply", str(tmp_path / "p")], cwd=original, check=True)
    assert content(original) == content(copy)


def test_what_is_ignored_or_no_file_is_left_out(tmp_path: Path) -> None:
    """By the ignore files of the original, the nearest first; `.git`; the runner's own folders."""
    ignore = {".gitignore": b"*.log\nbuild/\n", "sub/.gitignore": b"!keep.log\n"}
    original = build(tmp_path / "a", ignore)
    more = dict.fromkeys(
        (".git/x", "a.log", "build/x", "sub/keep.log", "sub/b.log", "home/x"), b"1"
    )
    copy = build(tmp_path / "b", {**ignore, **more})
    os.mkfifo(copy / "fifo")
    found = changes(original, copy, tmp_path / "p", excluded=(copy / "home",))
    assert [file.path for file in found.files] == ["sub/keep.log"]


def test_a_comparison_that_is_called_off_leaves_nothing(tmp_path: Path) -> None:
    """No patch, and no piece of one."""
    original, copy = build(tmp_path / "a", {}), build(tmp_path / "b", {"f": b"1"})
    (tmp_path / "out").mkdir()
    with pytest.raises(Stopped):
        changes(original, copy, tmp_path / "out" / "p", is_stopped=lambda: True)
    assert list((tmp_path / "out").iterdir()) == []
