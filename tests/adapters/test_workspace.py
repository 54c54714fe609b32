"""The tools work in the user's folder, or in a whole copy of it that leaves the original alone."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from runner.adapters.workspace import Isolation, WorkspaceError, prepare

Entry = tuple[str, int, int, bytes]


def entries_of(root: Path) -> dict[str, Entry]:
    """Every entry below a folder: kind, mode, time of change and bytes or target."""
    found: dict[str, Entry] = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        mode, content = stat.S_IMODE(status.st_mode), b""
        if stat.S_ISLNK(status.st_mode):
            kind, content = "symlink", os.fsencode(path.readlink())
        elif stat.S_ISDIR(status.st_mode):
            kind = "folder"
        elif stat.S_ISREG(status.st_mode):
            kind, content = "file", path.read_bytes()
        else:
            kind = "special"
        found[str(path.relative_to(root))] = (kind, mode, status.st_mtime_ns, content)
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A workspace with a bit of everything that can be copied."""
    root = tmp_path / "source"
    (root / "sub" / "empty").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "data").write_bytes(b"\0\xff\r\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "private").write_text("x")
    (root / "private").chmod(0o400)
    (root / "new\nline \udcff").write_text("x")
    (root / "to-file").symlink_to("data")
    (root / "to-folder").symlink_to("sub")
    (root / "dangling").symlink_to("nowhere")
    (root / "absolute").symlink_to("/etc/hostname")
    (root / "sub").chmod(0o750)
    return root


def test_without_isolation_the_folder_itself_is_used(source: Path, tmp_path: Path) -> None:
    """`none` gives the resolved path and makes nothing."""
    link = tmp_path / "link"
    link.symlink_to("source")
    assert prepare(link, "none", tmp_path / "copy") == source.resolve()
    assert not (tmp_path / "copy").exists()


def test_a_copy_is_the_same_and_the_original_is_as_before(source: Path, tmp_path: Path) -> None:
    """Kinds, modes, times, bytes and targets are equal; the original is not touched."""
    before = entries_of(source)
    copy = prepare(source, "copy", tmp_path / "deep" / "copy")
    assert copy == (tmp_path / "deep" / "copy").resolve()
    assert entries_of(copy) == before
    assert entries_of(source) == before
    assert sorted(path.name for path in copy.parent.iterdir()) == ["copy"]


def test_writing_in_the_copy_leaves_the_original(source: Path, tmp_path: Path) -> None:
    """Files of a copy are files of their own, hard links of the original included."""
    os.link(source / "data", source / "hard")
    copy = prepare(source, "copy", tmp_path / "copy")
    before = entries_of(source)
    (copy / "data").write_bytes(b"other")
    (copy / "hard").write_bytes(b"another")
    (copy / "to-file").unlink()
    assert entries_of(source) == before


def test_special_files_are_left_out_and_reported(source: Path, tmp_path: Path) -> None:
    """Sockets and FIFOs are not in the copy, do not block it, and are named."""
    os.mkfifo(source / "sub" / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(source / "sock"))
        skipped: list[Path] = []
        copy = prepare(source, "copy", tmp_path / "copy", on_skip=skipped.append)
    assert sorted(skipped) == [source / "sock", source / "sub" / "pipe"]
    assert not {"sock", "sub/pipe"} & entries_of(copy).keys()


def test_a_copy_below_the_workspace_does_not_copy_itself(source: Path) -> None:
    """A copy inside the original holds neither itself nor the excluded folders."""
    home = source / "home"
    (home / "session").mkdir(parents=True)
    (source / "other").mkdir()
    inside = prepare(source, "copy", source / "other" / "copy", excluded=[home])
    assert "home" not in entries_of(inside)
    assert entries_of(inside / "other").keys() == {"."}


def test_what_a_killed_copy_left_is_replaced(source: Path, tmp_path: Path) -> None:
    """A half-made copy is never taken for a whole one."""
    (tmp_path / "copy.partial").mkdir()
    (tmp_path / "copy.partial" / "stale").write_text("x")
    copy = prepare(source, "copy", tmp_path / "copy")
    assert entries_of(copy) == entries_of(source)
    assert not (tmp_path / "copy.partial").exists()


def test_an_existing_target_is_refused(source: Path, tmp_path: Path) -> None:
    """A copy is made once: what stands at the target is not written over."""
    (tmp_path / "copy").mkdir()
    with pytest.raises(WorkspaceError, match=r"workspace copy already exists: .*/copy"):
        prepare(source, "copy", tmp_path / "copy")


@pytest.mark.parametrize("isolation", ["none", "copy"])
def test_a_path_that_is_no_folder_is_refused(tmp_path: Path, isolation: Isolation) -> None:
    """Missing paths, files and loops of symlinks are refused, each in clear words."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name, message in {
        "nowhere": "workspace does not exist: ",
        "dangling": "workspace does not exist: ",
        "file": "workspace is not a folder: ",
        "loop": "workspace cannot be resolved: ",
    }.items():
        with pytest.raises(WorkspaceError, match=message + ".*/" + name):
            prepare(tmp_path / name, isolation, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_failed_copy_leaves_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file that failed is named with the reason; no part of a copy remains."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkspaceError, match=r"workspace cannot be copied: .*/file"):
        prepare(source, "copy", tmp_path / "file" / "copy")

    def no_space(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "sendfile", no_space)
    monkeypatch.setattr("shutil._USE_CP_SENDFILE", False)
    monkeypatch.setattr("shutil.copyfileobj", no_space)
    with pytest.raises(WorkspaceError, match=r"No space left on device \(and \d more\)"):
        prepare(source, "copy", tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "source"]


def test_a_checkout_whose_repository_is_elsewhere_is_not_copied(tmp_path: Path) -> None:
    """A linked worktree or a linked `.git` would share history with its copy: refused."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    main, linked = tmp_path / "main", tmp_path / "linked"
    subprocess.run([*git, "init", "-q", str(main)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=main, check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(linked)], cwd=main, check=True)
    symlinked = tmp_path / "symlinked"
    symlinked.mkdir()
    (symlinked / ".git").symlink_to(main / ".git")
    for path in (linked, symlinked):
        with pytest.raises(WorkspaceError, match="which the copy would share"):
            prepare(path, "copy", tmp_path / "copy")
        assert prepare(path, "none", tmp_path / "copy") == path.resolve()
