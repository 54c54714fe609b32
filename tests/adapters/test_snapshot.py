"""The snapshot tells every change byte for byte, and runs and writes nothing of the user's git."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.adapters import snapshot
from runner.adapters.snapshot import FileChange, Skipped, Snapshot, Unavailable, WorkspaceDiff

NOBODY = 65534
CLEAN_GIT = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}
Content = tuple[str, bytes]


def git(cwd: Path, *arguments: str, check: bool = True) -> bytes:
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, env=CLEAN_GIT, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def write(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def files_of(root: Path) -> dict[bytes, Content]:
    """Every file below a folder as git can know it: kind and bytes; `.git` entries left out."""
    found: dict[bytes, Content] = {}
    for folder, folders, names in os.walk(os.fsencode(root)):
        folders[:] = [name for name in folders if name != b".git"]
        links = [name for name in folders if Path(os.fsdecode(folder + b"/" + name)).is_symlink()]
        for name in [*names, *links]:
            path = folder + b"/" + name
            relative = os.path.relpath(path, os.fsencode(root))
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[relative] = ("symlink", os.fsencode(Path(os.fsdecode(path)).readlink()))
            elif stat.S_ISREG(mode) and name != b".git":
                kind = "executable" if mode & stat.S_IXUSR else "file"
                found[relative] = (kind, Path(os.fsdecode(path)).read_bytes())
    return found


def all_bytes(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every regular file below a folder with mode, time of change and bytes, `.git` included."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes(),
        )
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


class Place:
    """A workspace beside a git directory of the runner, and what the two calls say about it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self.patch = root / "patch.diff"
        self.original = root / "original"
        self.taken: Snapshot | None = None

    def take(self) -> Snapshot:
        shutil.copytree(self.workspace, self.original, symlinks=True)
        taken = asyncio.run(snapshot.take(self.root / "git", self.workspace))
        assert isinstance(taken, Snapshot), taken
        self.taken = taken
        return taken

    def changes(self) -> WorkspaceDiff:
        assert self.taken is not None
        diff = asyncio.run(snapshot.changes(self.taken, self.patch))
        assert isinstance(diff, WorkspaceDiff), diff
        return diff

    def statuses(self) -> dict[str, str]:
        return {file.path: file.status for file in self.changes().files}

    def apply(self) -> dict[bytes, Content]:
        """The files of the original after the patch."""
        shutil.rmtree(self.original / ".git", ignore_errors=True)
        if self.patch.stat().st_size:
            git(self.original, "apply", "--whitespace=nowarn", str(self.patch))
        return files_of(self.original)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def change(
    path: str,
    status: snapshot.FileStatus,
    added: int = 0,
    removed: int = 0,
    *,
    binary: bool = False,
    old_path: str | None = None,
) -> FileChange:
    return FileChange(
        path=path,
        old_path=old_path,
        status=status,
        lines_added=added,
        lines_removed=removed,
        binary=binary,
    )


# --- what is said ----------------------------------------------------------------------------


def test_every_kind_of_change_is_told_and_counted(place: Place) -> None:
    """One change of each kind is one entry of its status with its lines."""
    long = "".join(f"line {number}\n" for number in range(50))
    write(place.workspace, {"edit": "a\nb\n", "gone": "x\ny\n", "old name": long, "bin": b"\0\1"})
    write(place.workspace, {"mode": "#!/bin/sh\n", "kind": "text\n", "same": "same\n"})
    place.take()
    write(place.workspace, {"edit": "a\nc\nd", "new/file": "1\n2\n3\n", "bin": b"\0\2"})
    (place.workspace / "gone").unlink()
    (place.workspace / "old name").rename(place.workspace / "new name")
    (place.workspace / "mode").chmod(0o755)
    (place.workspace / "kind").unlink()
    (place.workspace / "kind").symlink_to("target")
    diff = place.changes()
    assert {file.path: file for file in diff.files} == {
        "bin": change("bin", "modified", binary=True),
        "edit": change("edit", "modified", 2, 1),
        "gone": change("gone", "deleted", 0, 2),
        "kind": change("kind", "modified", 1, 1),
        "mode": change("mode", "modified"),
        "new name": change("new name", "renamed", old_path="old name"),
        "new/file": change("new/file", "added", 3, 0),
    }
    assert (diff.lines_added, diff.lines_removed, diff.skipped) == (6, 4, ())
    assert place.apply() == files_of(place.workspace)


def test_nothing_changed_is_an_empty_patch(place: Place) -> None:
    """Files with a new time and the same bytes are no change; the patch is there and empty."""
    write(place.workspace, {"a": "a\n"})
    place.take()
    write(place.workspace, {"a": "a\n"})
    assert place.changes() == WorkspaceDiff(
        files=(),
        lines_added=0,
        lines_removed=0,
        skipped=(),
        patch_path=place.patch,
        patch_bytes=0,
    )
    assert stat.S_IMODE(place.patch.stat().st_mode) == 0o600


def test_an_empty_workspace_has_a_snapshot(place: Place) -> None:
    """A first file in an empty folder is told."""
    place.take()
    write(place.workspace, {"first": "1\n"})
    assert place.statuses() == {"first": "added"}


def test_a_removed_workspace_is_all_deleted(place: Place) -> None:
    """A workspace that is gone at the end has lost every file."""
    write(place.workspace, {"a": "1\n", "b/c": "2\n"})
    place.take()
    shutil.rmtree(place.workspace)
    assert place.statuses() == {"a": "deleted", "b/c": "deleted"}


def test_a_workspace_turned_into_a_symlink_is_not_followed(place: Place) -> None:
    """A symlink in place of the workspace brings no file from elsewhere into the patch."""
    write(place.workspace, {"a": "1\n"})
    place.take()
    shutil.rmtree(place.workspace)
    write(place.root, {"elsewhere/a": "secret\n"})
    place.workspace.symlink_to("elsewhere")
    assert place.statuses() == {"a": "deleted"}
    assert b"secret" not in place.patch.read_bytes()


def test_a_folder_turned_into_a_symlink_is_not_followed(place: Place) -> None:
    """A symlink in place of a folder is one new symlink, and the files below are deleted."""
    write(place.workspace, {"d/a": "1\n"})
    place.take()
    shutil.rmtree(place.workspace / "d")
    write(place.root, {"elsewhere/a": "secret\n"})
    (place.workspace / "d").symlink_to(place.root / "elsewhere")
    assert place.statuses() == {"d": "added", "d/a": "deleted"}
    assert b"secret" not in place.patch.read_bytes()
    assert place.apply() == files_of(place.workspace)


def test_changes_may_be_asked_again(place: Place) -> None:
    """Each answer is about the snapshot, not about the answer before; nothing is left behind."""
    write(place.workspace, {"a": "1\n"})
    place.take()
    write(place.workspace, {"b": "2\n"})
    assert place.statuses() == {"b": "added"}
    (place.workspace / "b").unlink()
    write(place.workspace, {".gitignore": "a\n", "a": "3\n"})
    assert place.statuses() == {".gitignore": "added", "a": "modified"}
    assert sorted(path.name for path in place.root.iterdir()) == [
        "git",
        "original",
        "patch.diff",
        "workspace",
    ]
    assert not list((place.root / "git").glob("end-*"))


def test_a_later_process_finds_the_snapshot(place: Place) -> None:
    """A snapshot reopened from disk is equal to the one that was taken, and works."""
    write(place.workspace, {"a": "1\n"})
    taken = place.take()
    write(place.workspace, {"a": "2\n"})
    place.taken = None
    reopened = snapshot.reopen(place.root / "git")
    assert reopened == taken
    place.taken = taken
    assert place.statuses() == {"a": "modified"}


def test_a_change_of_the_same_size_at_once_is_seen(place: Place) -> None:
    """Bytes changed right after the snapshot, size and time of change kept, are a change."""
    names = [f"f{number}" for number in range(30)]
    write(place.workspace, dict.fromkeys(names, "old\n"))
    times = {name: (place.workspace / name).stat() for name in names}
    place.take()
    for name in names:
        write(place.workspace, {name: "new\n"})
        os.utime(place.workspace / name, ns=(times[name].st_atime_ns, times[name].st_mtime_ns))
    assert place.statuses() == dict.fromkeys(names, "modified")


# --- bytes and names -------------------------------------------------------------------------


def test_bytes_are_exact_against_every_attribute(place: Place) -> None:
    """Line ends, keywords, encodings and binary marks of .gitattributes change nothing."""
    attributes = (
        "* text=auto eol=crlf ident working-tree-encoding=UTF-16 diff=evil\n"
        "*.c text eol=lf\n*.py -diff\n[attr]mine binary\n*.txt mine\n"
    )
    files: dict[str, str | bytes] = {
        ".gitattributes": attributes,
        "sub/.gitattributes": "* text eol=crlf -diff\n",
        "crlf.c": "a\r\nb\r\n",
        "mixed.txt": "a\r\nb\nc\rd",
        "id.py": "$Id$\n$Id: 123 $\n",
        "sub/latin": "é\n".encode("latin-1"),
        "sub/bom": b"\xef\xbb\xbfx\r\n",
        "utf16": "hé\r\n".encode("utf-16"),
    }
    write(place.workspace, files)
    place.take()
    ends = {f"new-{name}": b"+" + os.fsencode(str(data)) for name, data in files.items()}
    write(
        place.workspace,
        {
            name: Path(place.workspace / name).read_bytes() + b"\r\nend"
            for name in files
            if not name.endswith(".gitattributes")
        },
    )
    write(place.workspace, dict(ends))
    diff = place.changes()
    lines = {file.path: (file.lines_added, file.binary) for file in diff.files}
    assert lines["id.py"] == (2, False), "a file declared binary still shows its lines"
    assert place.apply() == files_of(place.workspace)


ODD_NAMES = [
    "new\nline", "tab\tname", 'quo"te', "back\\slash", "ünï", "日本", " lead", "trail ", "-dash",
    ":(top)magic", ":colon", "*?[x]", "#hash", "!bang", "~", "a'b", "\x1b[31m",
    "\u202ebidi", "..dots", ".gitmodules", "con", "x" * 255, "\udcff\udcfe",
]  # fmt: skip


def test_odd_names_are_told_and_applied(place: Place) -> None:
    """Names with newlines, quotes, magic, escapes and bytes that are not UTF-8 are names."""
    assert len(set(ODD_NAMES)) == len(ODD_NAMES)
    write(place.workspace, dict.fromkeys(ODD_NAMES[::2], "1\n"))
    write(place.workspace, {f"{name[:200]}.d/{name}": "1\n" for name in ODD_NAMES})
    place.take()
    write(place.workspace, dict.fromkeys(ODD_NAMES, "2\n"))
    for name in ODD_NAMES[::3]:
        (place.workspace / f"{name[:200]}.d" / name).unlink()
    expected = dict.fromkeys(ODD_NAMES, "added") | dict.fromkeys(ODD_NAMES[::2], "modified")
    expected |= {f"{name[:200]}.d/{name}": "deleted" for name in ODD_NAMES[::3]}
    told = place.changes().files
    assert {file.path for file in told} | {file.old_path for file in told} - {None} == set(expected)
    assert place.apply() == files_of(place.workspace)


def test_names_that_some_system_takes_for_dot_git_are_skipped(place: Place) -> None:
    """Names that git refuses in a patch are reported, and the rest of the patch applies."""
    write(place.workspace, {"git~1": "1\n"})
    place.take()
    write(
        place.workspace,
        {".GIT/config": "x\n", ".g\u200cit/x": "x\n", "git~1": "2\n", "real": "1\n"},
    )
    (place.workspace / ".gitmodules").symlink_to("real")
    diff = place.changes()
    assert [file.path for file in diff.files] == ["real"]
    assert {entry.path for entry in diff.skipped} == {
        ".GIT/config",
        ".g\u200cit/x",
        ".gitmodules",
        "git~1",
    }
    place.apply()


def edit_at_random(root: Path, chance: random.Random) -> None:
    """Add, change, delete, move, link and swap files and folders."""
    names = ["a", "b", "dir", "dir/a", "dir/b", "dir/sub/c", "e\nf", "ünï/g", "x/y/z", "h"]
    contents = [b"", b"one\n", b"one\r\ntwo", b"\0\xff" * 40, b"same\n" * 30, b"\n\n", b"x"]
    for _ in range(12):
        path = root / chance.choice(names)
        for parent in reversed(path.relative_to(root).parents[:-1]):
            if not (root / parent).is_dir() or (root / parent).is_symlink():
                (root / parent).unlink(missing_ok=True)
                (root / parent).mkdir()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        action = chance.random()
        if action < 0.2:
            continue
        if action < 0.35:
            path.symlink_to(chance.choice(["a", "x", "nowhere", "../out\n"]))
        else:
            path.write_bytes(chance.choice(contents) + chance.choice(contents))
            path.chmod(chance.choice([0o644, 0o755]))


@pytest.mark.parametrize("seed", range(8))
def test_the_patch_makes_the_end_from_the_start(place: Place, seed: int) -> None:
    """Whatever was done to the files, the patch on a copy of the original gives the end."""
    chance = random.Random(seed)
    edit_at_random(place.workspace, chance)
    place.take()
    for _ in range(2):
        edit_at_random(place.workspace, chance)
        place.changes()
    assert place.apply() == files_of(place.workspace)


# --- what is left out ------------------------------------------------------------------------


def test_ignored_files_are_left_out_unless_they_are_tracked(place: Place) -> None:
    """New ignored files are no change; ignored files of the user's index are."""
    git(place.workspace, "init", "-q")
    write(place.workspace, {".gitignore": "*.log\nout/\n", "sub/.gitignore": "local\n"})
    write(place.workspace, {"kept.log": "1\n", "out/kept": "1\n", "out/not": "1\n", "a.log": "1\n"})
    git(place.workspace, "add", "-f", ".gitignore", "kept.log", "out/kept")
    place.take()
    write(place.workspace, {"kept.log": "2\n", "out/kept": "2\n", "out/not": "2\n", "a.log": "2\n"})
    write(place.workspace, {"new.log": "1\n", "sub/local": "1\n", "sub/seen": "1\n"})
    assert place.statuses() == {
        "kept.log": "modified",
        "out/kept": "modified",
        "sub/seen": "added",
    }


def test_an_index_that_cannot_be_read_is_as_none(place: Place) -> None:
    """A broken or foreign index of the user only costs the tracked files that are ignored."""
    git(place.workspace, "init", "-q")
    write(place.workspace, {".gitignore": "*.log\n", "kept.log": "1\n", "a": "1\n"})
    git(place.workspace, "add", "-f", ".")
    write(place.workspace, {".git/index": "broken"})
    place.take()
    write(place.workspace, {"kept.log": "2\n", "a": "2\n"})
    assert place.statuses() == {"a": "modified"}


def test_a_linked_worktree_is_read_like_a_checkout(place: Place) -> None:
    """The index of a linked worktree, which is elsewhere, tells what is tracked."""
    git(place.root, "init", "-q", "main")
    git(place.root / "main", "commit", "-q", "--allow-empty", "-m", "x")
    git(place.root / "main", "worktree", "add", "-q", str(place.workspace))
    write(place.workspace, {".gitignore": "*.log\n", "kept.log": "1\n"})
    git(place.workspace, "add", "-f", ".")
    place.take()
    write(place.workspace, {"kept.log": "2\n", "new.log": "1\n"})
    assert place.statuses() == {"kept.log": "modified"}


def test_a_new_ignore_rule_hides_no_recorded_file(place: Place) -> None:
    """A file of the snapshot stays in the diff when it is ignored later, also when deleted."""
    write(place.workspace, {"a": "1\n", "b": "1\n", "d/c": "1\n"})
    place.take()
    write(place.workspace, {".gitignore": "*\n", "a": "2\n", "d/c": "2\n", "new": "1\n"})
    (place.workspace / "b").unlink()
    assert place.statuses() == {"a": "modified", "b": "deleted", "d/c": "modified"}


def test_a_change_within_the_second_of_the_snapshot_is_seen(place: Place) -> None:
    """Git keeps times in seconds; a file rewritten at once has the old size and the old time."""
    time.sleep(1 - time.time() % 1)
    write(place.workspace, {"a": "1\n", "b": "1\n"})
    place.take()
    write(place.workspace, {"a": "2\n"})
    (place.workspace / "b").unlink()
    time.sleep(1 - time.time() % 1)
    assert place.statuses() == {"a": "modified", "b": "deleted"}


def test_a_dropped_ignore_rule_does_not_make_old_files_new(place: Place) -> None:
    """What was there and ignored is skipped by name, so a secret does not enter the patch."""
    write(place.workspace, {".gitignore": ".env\nout/\n", ".env": "KEY=secret\n", "out/a": "old\n"})
    place.take()
    (place.workspace / ".gitignore").unlink()
    write(place.workspace, {"out/b": "new\n"})
    diff = place.changes()
    assert {file.path: file.status for file in diff.files} == {
        ".gitignore": "deleted",
        "out/b": "added",
    }
    assert [entry.path for entry in diff.skipped] == [".env", "out/a"]
    assert b"secret" not in place.patch.read_bytes()


def test_rules_of_a_parent_folder_count(place: Place) -> None:
    """A workspace below the root of a checkout obeys the root's ignore file."""
    git(place.root, "init", "-q")
    write(place.root, {".gitignore": "*.log\n/workspace/build/\n"})
    place.take()
    write(place.workspace, {"a.log": "1\n", "build/x": "1\n", "deep/a": "1\n"})
    assert place.statuses() == {"deep/a": "added"}


def test_rules_that_ignore_the_workspace_itself_do_not_count(place: Place) -> None:
    """A workspace that its parent ignores still has its changes told."""
    git(place.root, "init", "-q")
    write(place.root, {".gitignore": "workspace/\n"})
    place.take()
    write(place.workspace, {"a": "1\n"})
    assert place.statuses() == {"a": "added"}


def test_repositories_inside_are_files(place: Place) -> None:
    """Inner repositories, with or without commits, there or new, give content, not commit ids."""
    git(place.workspace, "init", "-q")
    for name in ("committed", "committed/deeper", "empty"):
        write(place.workspace, {f"{name}/file": "1\n", f"{name}/.gitignore": "*.log\n"})
        git(place.workspace / name, "init", "-q")
    git(place.workspace / "committed", "add", "file")
    git(place.workspace / "committed", "commit", "-qm", "x")
    place.take()
    write(place.workspace, {"committed/file": "2\n", "committed/deeper/file": "2\n"})
    write(place.workspace, {"committed/a.log": "1\n", "empty/more": "1\n", "made/file": "1\n"})
    git(place.workspace / "made", "init", "-q")
    git(place.workspace / "made", "add", ".")
    git(place.workspace / "made", "commit", "-qm", "x")
    assert place.statuses() == {
        "committed/file": "modified",
        "committed/deeper/file": "modified",
        "empty/more": "added",
        "made/file": "added",
    }
    assert b"160000" not in place.patch.read_bytes()
    assert b".git/" not in place.patch.read_bytes()


def test_a_file_turned_into_a_repository(place: Place) -> None:
    """A repository in place of a file is a deleted file and new files."""
    write(place.workspace, {"thing": "1\n2\n"})
    place.take()
    (place.workspace / "thing").unlink()
    write(place.workspace, {"thing/x": "another text\n"})
    git(place.workspace / "thing", "init", "-q")
    git(place.workspace / "thing", "add", ".")
    git(place.workspace / "thing", "commit", "-qm", "x")
    assert place.statuses() == {"thing": "deleted", "thing/x": "added"}
    assert place.apply() == files_of(place.workspace)


def test_special_files_are_left_out(place: Place) -> None:
    """FIFOs neither block nor appear; a file replaced by one is deleted."""
    write(place.workspace, {"was": "1\n"})
    place.take()
    (place.workspace / "was").unlink()
    os.mkfifo(place.workspace / "was")
    os.mkfifo(place.workspace / "pipe")
    assert place.statuses() == {"was": "deleted"}


def test_folders_of_the_runner_are_left_out(tmp_path: Path) -> None:
    """A git directory and a home inside the workspace are no part of it."""
    workspace, home = tmp_path / "w", tmp_path / "w" / "home"
    write(workspace, {"a": "1\n", "home/log": "1\n"})
    taken = asyncio.run(snapshot.take(workspace / "state" / "git", workspace, excluded=[home]))
    assert isinstance(taken, Snapshot)
    write(workspace, {"home/log": "2\n", "home/new": "1\n", "homely": "1\n"})
    diff = asyncio.run(snapshot.changes(taken, home / "patch.diff"))
    assert isinstance(diff, WorkspaceDiff)
    assert [file.path for file in diff.files] == ["homely"]


@contextlib.contextmanager
def without_root(folder: Path) -> Iterator[None]:
    """Give up root, which reads everything, for a while."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_what_cannot_be_read_is_said_and_the_rest_is_told() -> None:
    """An unreadable file or folder is skipped by name; it is neither deleted nor later new."""
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name).resolve())
        write(place.workspace, {"seen": "1\n", "shut later": "1\n", "shut": "1\n", "d/x": "1\n"})
        write(place.workspace, {"f/x": "1\n"})
        with without_root(place.root):
            (place.workspace / "shut").chmod(0)
            (place.workspace / "d").chmod(0)
            taken = asyncio.run(snapshot.take(place.root / "git", place.workspace))
            assert isinstance(taken, Snapshot), taken
            place.taken = taken
            (place.workspace / "shut").chmod(0o600)
            (place.workspace / "d").chmod(0o700)
            (place.workspace / "shut later").chmod(0)
            write(place.workspace, {"seen": "2\n", "new": "1\n", "shut new": "1\n", "e/x": "1\n"})
            (place.workspace / "shut new").chmod(0)
            for folder in ("e", "f"):
                (place.workspace / folder).chmod(0)
            diff = place.changes()
            for folder in ("e", "f"):
                (place.workspace / folder).chmod(0o700)
    assert {file.path: file.status for file in diff.files} == {"new": "added", "seen": "modified"}
    before = "was there at the start, ignored or unreadable: its old content is unknown"
    assert diff.skipped == (
        Skipped(path="e/", reason="cannot be read"),
        Skipped(path="f/", reason="cannot be read"),
        Skipped(path="f/x", reason="cannot be read"),
        Skipped(path="shut later", reason="cannot be read"),
        Skipped(path="d/x", reason=before),
        Skipped(path="shut", reason=before),
        Skipped(path="shut new", reason="cannot be read"),
    )


# --- what is not run and not written ---------------------------------------------------------


def make_hostile(repository: Path, canary: Path) -> None:
    """Set every known way for git to run a command, each to one that leaves a mark."""
    mark = repository / ".git" / "mark"
    mark.write_text(f'#!/bin/sh\necho "$0 $*" >> {canary}\ncat\n')
    mark.chmod(0o755)
    hooks = repository / ".git" / "hooks"
    shutil.rmtree(hooks, ignore_errors=True)
    hooks.mkdir()
    for name in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction"):
        shutil.copy(mark, hooks / name)
    write(
        repository,
        {
            ".gitattributes": "* filter=evil diff=evil merge=evil\n",
            "included.cfg": f'[core]\n\tfsmonitor = {mark}\n[diff "evil"]\n\ttextconv = {mark}\n',
        },
    )
    settings = {
        "core.fsmonitor": mark,
        "core.hooksPath": hooks,
        "core.pager": mark,
        "core.sshCommand": mark,
        "core.alternateRefsCommand": mark,
        "core.attributesFile": repository / ".gitattributes",
        "attr.tree": "HEAD",
        "diff.external": mark,
        "diff.evil.command": mark,
        "diff.evil.textconv": mark,
        "filter.evil.clean": mark,
        "filter.evil.smudge": mark,
        "filter.evil.process": mark,
        "filter.evil.required": "true",
        "include.path": "../included.cfg",
    }
    with (repository / ".git" / "config").open("a") as config:
        for key, value in settings.items():
            section, _, name = key.rpartition(".")
            first, _, rest = section.partition(".")
            head = f'{first} "{rest}"' if rest else first
            config.write(f"[{head}]\n\t{name} = {value}\n")


def hostile_workspace(place: Place, canary: Path) -> None:
    write(place.workspace, {"a.txt": "1\n", "b.txt": "1\n", "inner/c.txt": "1\n"})
    for repository in (place.workspace / "inner", place.workspace):
        git(repository, "init", "-q")
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", "start")
        make_hostile(repository, canary)


def test_the_canaries_do_sing_for_plain_git(place: Place, tmp_path: Path) -> None:
    """Plain git in the hostile checkout runs the marks: the next tests are not vacuous."""
    canary = tmp_path / "canary"
    hostile_workspace(place, canary)
    write(place.workspace, {"a.txt": "2\n"})
    for command in (["status"], ["diff"], ["add", "-A"]):
        canary.unlink(missing_ok=True)
        git(place.workspace, *command, check=False)
        assert canary.exists(), command


def test_nothing_of_a_hostile_checkout_is_run_or_written(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No mark is left by either call, every file of the checkout stays as it was, patch exact."""
    canary = tmp_path / "canary"
    hostile_workspace(place, canary)
    home = tmp_path / "home"
    write(home, {".gitconfig": (place.workspace / ".git" / "config").read_bytes()})
    mark = str(place.workspace / ".git" / "mark")
    for name, value in {
        "HOME": str(home),
        "GIT_EXTERNAL_DIFF": mark,
        "GIT_DIR": str(place.workspace / ".git"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": mark,
        "GIT_TRACE": str(tmp_path / "trace"),
    }.items():
        monkeypatch.setenv(name, value)
    before = all_bytes(place.workspace)
    place.take()
    assert all_bytes(place.workspace) == before
    write(place.workspace, {"a.txt": "2\n", "new.txt": "3\n", "inner/c.txt": "2\n"})
    (place.workspace / "b.txt").unlink()
    before = all_bytes(place.workspace)
    assert place.statuses() == {
        "a.txt": "modified",
        "b.txt": "deleted",
        "inner/c.txt": "modified",
        "new.txt": "added",
    }
    assert all_bytes(place.workspace) == before
    assert not canary.exists(), canary.read_text()
    assert not (tmp_path / "trace").exists()
    monkeypatch.undo()
    assert place.apply() == files_of(place.workspace)


def test_hostile_setup_made_during_the_run(place: Place, tmp_path: Path) -> None:
    """Config, attributes and hooks that appear after the snapshot are not run either."""
    canary = tmp_path / "canary"
    write(place.workspace, {"a.txt": "1\r\n"})
    git(place.workspace, "init", "-q")
    place.take()
    write(place.workspace, {"a.txt": "2\r\n"})
    make_hostile(place.workspace, canary)
    ours = place.root / "git"
    with (ours / "config").open("a") as config:
        config.write((place.workspace / ".git" / "config").read_text())
    (ours / "info" / "attributes").write_text("* filter=evil diff=evil\n")
    assert place.statuses() == {
        ".gitattributes": "added",
        "a.txt": "modified",
        "included.cfg": "added",
    }
    assert not canary.exists(), canary.read_text()
    assert place.apply() == files_of(place.workspace)


def test_git_from_the_workspace_is_not_used(place: Place, tmp_path: Path) -> None:
    """A program named git inside the workspace, or on a relative entry, is passed over."""
    write(place.workspace, {"bin/git": f"#!/bin/sh\necho ran >> {tmp_path}/canary\n"})
    (place.workspace / "bin" / "git").chmod(0o755)
    search_path = os.pathsep.join([str(place.workspace / "bin"), ".", "", os.defpath])
    taken = asyncio.run(snapshot.take(place.root / "git", place.workspace, search_path=search_path))
    assert isinstance(taken, Snapshot)
    assert not (tmp_path / "canary").exists()


# --- failures are values ---------------------------------------------------------------------


def test_without_git_the_reason_is_a_value(place: Place) -> None:
    """Where git is not installed, both calls say so, and no patch appears."""
    place.take()
    nowhere = str(place.root / "nowhere")
    reason = Unavailable(reason="git is not installed, or not on the search path")
    assert place.taken is not None
    assert asyncio.run(snapshot.changes(place.taken, place.patch, search_path=nowhere)) == reason
    again = snapshot.take(place.root / "git", place.workspace, search_path=nowhere)
    assert asyncio.run(again) == reason
    assert isinstance(snapshot.reopen(place.root / "git"), Unavailable), "the old one is withdrawn"
    assert not place.patch.exists()


def test_a_missing_workspace_is_a_value(tmp_path: Path) -> None:
    """A workspace that is not there has no snapshot."""
    taken = asyncio.run(snapshot.take(tmp_path / "git", tmp_path / "nowhere"))
    assert isinstance(taken, Unavailable)


def test_the_time_limit_ends_a_git_that_hangs(place: Place) -> None:
    """An ignore file that is a FIFO blocks git; at the limit it is killed, and nothing remains."""
    write(place.workspace, {"a": "1\n"})
    place.take()
    os.mkfifo(place.workspace / ".gitignore")
    assert place.taken is not None
    started = time.monotonic()
    diff = asyncio.run(snapshot.changes(place.taken, place.patch, timeout_s=0.5))
    assert diff == Unavailable(reason="not done within 0.5 s")
    assert time.monotonic() - started < 5
    assert not place.patch.exists()
    assert not list((place.root / "git").glob("end-*"))
    assert not processes_in(place.root)


def test_cancellation_leaves_no_process(place: Place) -> None:
    """A cancelled call raises the cancellation, with git killed and reaped."""
    os.mkfifo(place.workspace / ".gitignore")

    async def cancel() -> None:
        async with asyncio.timeout(0.3):
            await snapshot.take(place.root / "git", place.workspace)

    with pytest.raises(TimeoutError):
        asyncio.run(cancel())
    assert not processes_in(place.root)


def processes_in(folder: Path) -> list[str]:
    """Processes that work in a folder: git here always does."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(entry.name)
    return found
