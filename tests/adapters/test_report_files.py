"""Reports are written whole, and never through a link that somebody put in their way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from runner.adapters.report_files import (
    append_line_file,
    copy_report,
    remove_report,
    write_report,
)


def test_a_report_is_written_whole_with_its_folders(tmp_path: Path) -> None:
    """Folders are made, an older report is replaced, and nothing else is left."""
    path = tmp_path / "out" / "deep" / "report.md"
    assert write_report(path, [b"old"]) is None
    assert write_report(path, [b"new ", b"text"]) is None
    assert path.read_bytes() == b"new text"
    assert [entry.name for entry in path.parent.iterdir()] == ["report.md"]


def test_a_link_in_the_place_of_a_report_is_replaced(tmp_path: Path) -> None:
    """What it pointed to stays as it is; so does what a link of the draft's name pointed to."""
    victim = tmp_path / "profile"
    victim.write_text("mine")
    path = tmp_path / "report.md"
    path.symlink_to(victim)
    (tmp_path / ".report.md.part").symlink_to(victim)
    assert write_report(path, [b"report"]) is None
    assert (victim.read_text(), path.read_text()) == ("mine", "report")
    assert not path.is_symlink()


def test_a_link_in_the_way_to_a_report_is_refused(tmp_path: Path) -> None:
    """A folder that became a link leads nowhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "out").symlink_to(elsewhere)
    path = tmp_path / "out" / "report.md"
    wanted = f"{path} was not written: a link was put in its way"
    assert write_report(path, [b"report"]) == wanted
    remove_report(path)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["taken", "file/report.md", "x" * 300])
def test_what_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    """A folder in its place, a file in the way, a name too long: a sentence each."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    problem = write_report(tmp_path / name, [b"report"])
    assert problem is not None
    assert problem.startswith(f"{tmp_path / name} was not written: ")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_device_is_never_replaced(tmp_path: Path) -> None:
    """As root a report to `/dev/null` would take it from the whole machine."""
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes device nodes")
    assert write_report(device, [b"x"]) == f"{device} was not written: a device, and not a file"
    remove_report(device)
    assert device.is_char_device()


def test_a_copy_that_breaks_off_is_no_copy(tmp_path: Path) -> None:
    """The source cannot be read: nothing stands at the target."""
    assert copy_report(tmp_path / "gone", tmp_path / "copy") is not None
    assert list(tmp_path.iterdir()) == []


def test_appending_leaves_what_is_there(tmp_path: Path) -> None:
    """Earlier steps wrote to the same file; halves of characters are written out."""
    path = tmp_path / "summary"
    path.write_text("before\n")
    assert append_line_file(path, "after\ud800\n") is None
    assert path.read_text() == "before\nafter\\ud800\n"
    assert append_line_file(path, "x" * 100, max_bytes=50) == (
        f"{path} was not written: it would be longer than 50 bytes"
    )
    assert path.read_text() == "before\nafter\\ud800\n"


def test_only_a_file_is_appended_to(tmp_path: Path) -> None:
    """A link, a pipe without a reader and a folder are refused, and none of them hangs."""
    target = tmp_path / "target"
    target.write_text("")
    (tmp_path / "link").symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "link", tmp_path / "pipe", tmp_path):
        assert append_line_file(path, "x\n") is not None
    assert append_line_file(Path(os.devnull), "x\n") == f"{os.devnull} was not written: not a file"
    assert target.read_text() == ""
