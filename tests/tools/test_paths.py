"""File tools stay beneath their roots, whatever a path looks like or becomes."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from runner.ports import ToolDenied, ToolFailure
from runner.tools import paths
from runner.tools.files import read_whole, replace
from runner.tools.paths import Roots, locate, opened, relative, shown
from tests.tools.bench import Bench

AT_FDCWD, RENAME_EXCHANGE = -100, 2

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("Read", {}),
    ("Write", {"content": "x"}),
    ("Edit", {"old_string": "a", "new_string": "b"}),
]


@pytest.fixture(params=["openat2", "part by part"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to open a file: in one system call, and without it."""
    if request.param == "part by part":
        monkeypatch.setattr(paths, "OPENAT2", 9999)  # a call the kernel does not know
    return str(request.param)


def test_the_fallback_is_really_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Opening in one call says None, not an error, when the kernel lacks the call."""
    monkeypatch.setattr(paths, "OPENAT2", 9999)
    fd = os.open(tmp_path, os.O_RDONLY)
    assert paths._openat2(fd, "x", os.O_RDONLY) is None
    os.close(fd)


@pytest.mark.parametrize(("name", "rest"), CALLS)
@pytest.mark.parametrize(
    "path",
    [
        "../out/secret",
        "{out}/secret",
        "sub/../../out/secret",
        "link/secret",
        "file-link",
        "/",
        "..",
    ],
)
def test_outside_is_denied(
    bench: Bench, outside: Path, name: str, rest: dict[str, Any], path: str
) -> None:
    """The call is denied and changes nothing when a path leads outside, by dots or by links."""
    (bench.workspace / "sub").mkdir()
    (bench.workspace / "link").symlink_to(outside)
    (bench.workspace / "file-link").symlink_to(outside / "secret")
    failure = bench.failure(name, file_path=path.replace("{out}", str(outside)), **rest)
    assert isinstance(failure, ToolDenied)
    assert "outside the allowed directories" in str(failure)
    assert (outside / "secret").read_text() == "outside\n"


def test_a_new_file_below_a_link_to_the_outside_is_denied(bench: Bench, outside: Path) -> None:
    """Nothing is made outside when a directory on the way is a link to there."""
    (bench.workspace / "dir").symlink_to(outside)
    (bench.workspace / "dangling").symlink_to(outside / "new")
    for path in ("dir/new", "dir/a/b", "dangling"):
        assert isinstance(bench.failure("Write", file_path=path, content="x"), ToolDenied)
    assert [p.name for p in outside.iterdir()] == ["secret"]


def test_a_name_that_only_begins_like_a_root_is_outside(bench: Bench, tmp_path: Path) -> None:
    """`ws-evil` is not beneath `ws`."""
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "ws-evil" / "x").write_text("x")
    assert isinstance(bench.failure("Read", file_path="../ws-evil/x"), ToolDenied)


@pytest.mark.parametrize("path", ["/proc/self/environ", "/sys/kernel/notes", "/dev/null"])
def test_system_paths_are_denied_even_below_a_root(tmp_path: Path, path: str) -> None:
    """`/proc`, `/sys` and `/dev` are denied when `/` itself is a root, by a link too."""
    (tmp_path / "link").symlink_to(path)
    bench = Bench(workspace=tmp_path, spill_dir=tmp_path / "spill", others=(Path("/"),))
    for name in (path, f"//{path}", "link", f"/proc/self/root{tmp_path}/x"):
        assert isinstance(bench.failure("Read", file_path=name), ToolDenied)


def test_links_inside_lead_to_files_inside(bench: Bench, way: str) -> None:
    """Relative, absolute and chained links work when they stay in the workspace."""
    bench.put("real/a.txt", "one\n")
    (bench.workspace / "rel").symlink_to("real/a.txt")
    (bench.workspace / "abs").symlink_to(bench.workspace / "real")
    (bench.workspace / "chain").symlink_to("abs/a.txt")
    for path in ("rel", "abs/a.txt", "chain"):
        assert bench.text("Read", file_path=path) == "     1\tone"
    bench.text("Edit", file_path="chain", old_string="one", new_string="two")
    assert (bench.workspace / "real" / "a.txt").read_bytes() == b"two\n"
    assert (bench.workspace / "chain").is_symlink()


def test_a_root_that_is_a_link_works(bench: Bench, tmp_path: Path) -> None:
    """Relative and absolute paths work when the workspace is given by a link to it."""
    (tmp_path / "alias").symlink_to(bench.workspace)
    bench.put("a", "x")
    by_link = Bench(workspace=tmp_path / "alias", spill_dir=bench.spill_dir)
    assert by_link.text("Read", file_path="a") == "     1\tx"
    assert by_link.text("Read", file_path=str(tmp_path / "alias" / "a")) == "     1\tx"


def test_other_roots_are_open_too(bench: Bench, outside: Path) -> None:
    """A file beneath an added directory can be read by its absolute path."""
    more = Bench(workspace=bench.workspace, spill_dir=bench.spill_dir, others=(outside,))
    assert more.text("Read", file_path=str(outside / "secret")) == "     1\toutside"


@pytest.mark.parametrize(("name", "rest"), [*CALLS, ("Grep", {"pattern": "x"})])
def test_what_is_no_regular_file_is_refused_at_once(
    bench: Bench, way: str, name: str, rest: dict[str, Any]
) -> None:
    """A clear error, never a wait, when the path is a pipe, a socket or a directory."""
    os.mkfifo(bench.workspace / "pipe")
    (bench.workspace / "dir").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(bench.workspace, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{here}/sock")  # the path itself may be too long
        os.close(here)
        key = "path" if name == "Grep" else "file_path"
        kinds = {"pipe": "a named pipe", "sock": "a socket"}
        if name != "Grep":
            kinds["dir"] = "a directory"
        for path, kind in kinds.items():
            failure = bench.failure(name, **{key: path}, **rest)
            assert not isinstance(failure, ToolDenied)
            assert f"{bench.workspace / path} is {kind}" in str(failure)
            assert "not a regular file" in str(failure)


def test_devices_are_refused(bench: Bench) -> None:
    """A clear error when the path is a device node inside the workspace."""
    try:
        os.mknod(bench.workspace / "null", 0o20666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes device nodes")
    try:
        message = str(bench.failure("Read", file_path="null"))
    finally:
        (bench.workspace / "null").unlink()
    assert "a device" in message or "Permission denied" in message  # a nodev mount


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "the path is empty"),
        ("a\0b", "NUL"),
        ("\ud800", "does not encode"),
        ("x" * 256, "File name too long"),
        ("none", "does not exist"),
        ("file/below", "is not a directory"),
        ("loop", "loop of symbolic links"),
    ],
)
def test_a_path_that_is_none_fails_politely(
    bench: Bench, way: str, path: str, message: str
) -> None:
    """The failure says what is wrong when a path is malformed, missing or a loop."""
    bench.put("file", "x")
    (bench.workspace / "loop").symlink_to("loop")
    assert message in str(bench.failure("Read", file_path=path))


@pytest.mark.parametrize(
    "name", [b"a\nb", b"\x1b[31m", "\u202etxt".encode(), b"\xff\xfe", b"n" * 255]
)
def test_odd_names_can_be_read_and_listed(bench: Bench, name: bytes) -> None:
    """A file of any legal name is read, and listed as one clean line."""
    path = bench.workspace / os.fsdecode(name)
    path.write_text("x\n")
    if b"\xff" not in name:  # not expressible in a call
        assert bench.text("Read", file_path=os.fsdecode(name)) == "     1\tx"
    listed = bench.text("Glob", pattern="*")
    assert listed.isprintable()
    assert listed == shown(os.fsdecode(name))


@pytest.mark.parametrize("swapped", ["directory", "file"])
def test_a_race_with_a_link_never_leads_outside(bench: Bench, way: str, swapped: str) -> None:
    """Not one outside byte in 2,000 reads while a part of the path is swapped for a link."""
    (outside := bench.workspace.parent / "out2").mkdir()
    (outside / "file").write_bytes(b"SECRET")
    target = bench.workspace / ("dir" if swapped == "directory" else "dir/file")
    bench.put("dir/file", b"inside")
    link, good = bench.workspace / "link", bench.workspace / "good"
    link.symlink_to(outside if swapped == "directory" else outside / "file")
    roots, stop = Roots(workspace=bench.workspace), threading.Event()

    def swap() -> None:
        while not stop.is_set():
            target.rename(good)
            link.rename(target)
            target.rename(link)
            good.rename(target)

    thread = threading.Thread(target=swap)
    thread.start()
    seen: dict[str, int] = {}
    try:
        for _ in range(2000):
            try:
                result = read_whole(locate(roots, "dir/file")).raw.decode()
            except ToolFailure as failure:
                result = type(failure).__name__
            seen[result] = seen.get(result, 0) + 1
    finally:
        stop.set()
        thread.join()
    assert set(seen) <= {"inside", "ToolFailure", "ToolDenied"}
    assert seen["inside"] > 0
    assert len(seen) > 1, "the swap never got in between"


def test_a_race_with_a_link_never_writes_outside(bench: Bench) -> None:
    """Nothing is made or changed outside in 1,000 writes while a directory of the path is swapped
    for a link that leads there."""
    (outside := bench.workspace.parent / "out3").mkdir()
    (outside / "file").write_bytes(b"outside")
    bench.put("dir/file", b"inside")
    target, link = bench.workspace / "dir", bench.workspace / "link"
    link.symlink_to(outside)
    roots, stop = Roots(workspace=bench.workspace), threading.Event()
    libc = ctypes.CDLL(None)

    def swap() -> None:
        while not stop.is_set():  # in one step: a gap would be filled with a new directory
            libc.renameat2(AT_FDCWD, bytes(target), AT_FDCWD, bytes(link), RENAME_EXCHANGE)

    thread = threading.Thread(target=swap)
    thread.start()
    written = refused = 0
    try:
        for number in range(1000):
            try:
                replace(locate(roots, "dir/file", to_write=True), b"%d" % number, None)
                written += 1
            except ToolFailure:
                refused += 1
    finally:
        stop.set()
        thread.join()
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": b"outside"}
    assert written > 0
    assert refused > 0, "the swap never got in between"


def test_opening_follows_no_link_that_came_later(bench: Bench, outside: Path, way: str) -> None:
    """The opening fails when a directory became a link after the path was resolved."""
    bench.put("dir/secret", "inside")
    place = locate(Roots(workspace=bench.workspace), "dir/secret")
    (bench.workspace / "dir").rename(bench.workspace / "old")
    (bench.workspace / "dir").symlink_to(outside)
    with pytest.raises(ToolFailure) as caught, opened(place):
        pytest.fail("it opened")
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno in (errno.ELOOP, errno.ENOTDIR)


def test_paths_are_told_relative_to_the_workspace(tmp_path: Path) -> None:
    """A path is relative inside the workspace and absolute elsewhere, when it is shown."""
    roots = Roots(workspace=tmp_path, others=(Path("/usr"),))
    assert [relative(roots, p) for p in (tmp_path / "a/b", tmp_path, Path("/usr/x"))] == [
        "a/b",
        ".",
        "/usr/x",
    ]
