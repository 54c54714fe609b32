"""Folders are removed whole, and nothing but them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from runner.adapters import workspace
from runner.adapters.trees import copy_tree, remove_tree
from runner.adapters.workspace import WorkspaceError

DEEP = sys.getrecursionlimit() + 100


def nest(folder: Path, levels: int) -> None:
    """Folders in folders, further down than a path can name, each with a file and a link."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deep", dir_fd=here)
        os.symlink("/", "link", dir_fd=here)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.mark.parametrize("levels", [0, 3, DEEP])
def test_a_folder_is_removed_however_deep_it_is(tmp_path: Path, levels: int) -> None:
    """It is gone, and what a link in it points to is not."""
    (tmp_path / "kept").write_text("x")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    nest(folder, levels)
    remove_tree(folder)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("kept", "x")]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Nobody is told that something was removed that never was."""
    with pytest.raises(FileNotFoundError):
        remove_tree(tmp_path / "none")


def test_a_folder_is_copied_deeper_than_a_call_may_call_itself(tmp_path: Path) -> None:
    """Files, links and modes are the same at the bottom; a FIFO is left out and named."""
    source, target = tmp_path / "a", tmp_path / "b"
    bottom = Path(*["d"] * 1500)
    source.mkdir()
    here = source
    for _ in range(1500):
        here /= "d"
        here.mkdir()
    (here / "file").write_text("x")
    (here / "file").chmod(0o640)
    (here / "link").symlink_to("nowhere")
    os.mkfifo(here / "pipe")
    here.chmod(0o500)
    skipped: list[Path] = []
    try:
        copy_tree(source, target, on_skip=skipped.append)
        copied = target / bottom
        assert (skipped, sorted(p.name for p in copied.iterdir())) == (
            [here / "pipe"],
            ["file", "link"],
        )
        assert (copied / "link").readlink() == Path("nowhere")
        assert [p.stat().st_mode & 0o777 for p in (copied, copied / "file")] == [0o500, 0o640]
    finally:
        for folder in (source, target):
            (folder / bottom).chmod(0o700)
            remove_tree(folder)  # pytest could not


def test_a_workspace_that_is_too_deep_to_be_copied_says_so(tmp_path: Path) -> None:
    """The copy is refused with the reason, and nothing of it stays."""
    source = tmp_path / "source"
    source.mkdir()
    nest(source, DEEP)
    try:
        with pytest.raises(WorkspaceError, match="cannot be copied"):
            workspace.prepare(source, "copy", tmp_path / "copy")
        assert list(tmp_path.iterdir()) == [source]
    finally:
        remove_tree(source)  # pytest could not
