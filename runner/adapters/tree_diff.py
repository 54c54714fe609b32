"""What changed in a copy of a folder, told without git: a list of files and a patch git applies.

Rules of this file: `.git`, special files and what the original's `.gitignore` files name are left
out; nothing is followed or run; one file is in memory at a time.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pathspec import PathSpec

from runner.adapters.snapshot import FileChange, FileStatus, Skipped, WorkspaceDiff

MAX_COMPARED_LINES = 5_000
"""A longer file is shown as replaced whole: comparing takes the square of its length."""

_PROBE_BYTES = 8_000
_NO_NEWLINE = b"\\ No newline at end of file\n"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_LINK = "120000"
_ODD = re.compile(rb'[\x00-\x1f"\\\x7f]')


class Stopped(Exception):
    """The comparison was called off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A file, or a link as the text it is; `mode` is git's."""

    mode: str
    data: bytes


def changes(
    original: Path,
    copy: Path,
    patch: Path,
    *,
    excluded: Collection[Path] = (),
    is_stopped: Callable[[], bool] = lambda: False,
) -> WorkspaceDiff:
    """Compare a copy with its original and write the patch, by rename.

    Raises `OSError` when the patch cannot be written, `Stopped` as soon as it `is_stopped`.
    """
    ignored = _Ignored(original)
    names = sorted({*_names(original, excluded), *_names(copy, excluded)})
    wanted = (name for name in names if not ignored(name))
    skipped: list[Skipped] = []
    partial = patch.with_name(f".{patch.name}.partial")
    try:
        with os.fdopen(os.open(partial, _NEW, 0o600), "wb") as out:
            compared = _compared(wanted, original, copy, skipped, is_stopped)
            files = [_told(name, before, after, out) for name, before, after in compared]
        size = partial.stat().st_size
        partial.replace(patch)
    finally:
        partial.unlink(missing_ok=True)
    return WorkspaceDiff(
        files=tuple(files),
        lines_added=sum(file.lines_added for file in files),
        lines_removed=sum(file.lines_removed for file in files),
        skipped=tuple(skipped),
        patch_path=patch,
        patch_bytes=size,
    )


def _compared(
    names: Iterable[str],
    original: Path,
    copy: Path,
    skipped: list[Skipped],
    is_stopped: Callable[[], bool],
) -> Iterator[tuple[str, _Entry | None, _Entry | None]]:
    """Every file that differs, before and after; what cannot be read is noted as skipped."""
    for name in names:
        if is_stopped():
            raise Stopped
        try:
            before, after = _entry(original / name), _entry(copy / name)
        except OSError as error:
            skipped.append(Skipped(path=name, reason=error.strerror or str(error)))
            continue
        if before != after:
            yield name, before, after


# -- looking -------------------------------------------------------------------------------------


def _names(root: Path, excluded: Collection[Path]) -> Iterator[str]:
    left_out = {folder.resolve() for folder in excluded}
    waiting = [root.resolve()]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                children = list(entries)
        except OSError:
            continue
        for child in children:
            path = Path(child.path)
            if child.name == ".git" or path in left_out:
                continue
            if child.is_dir(follow_symlinks=False):
                waiting.append(path)
            else:
                yield str(path.relative_to(root.resolve()))


class _Ignored:
    """The ignore files of a folder, each for what is below it; the nearest one that speaks wins."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._specs: dict[str, PathSpec[Any] | None] = {}

    def __call__(self, name: str) -> bool:
        folder = name
        while folder:
            folder = folder.rpartition("/")[0]
            spec = self._spec(folder)
            below = name[len(folder) + 1 :] if folder else name
            verdict = None if spec is None else spec.check_file(below).include
            if verdict is not None:
                return verdict
        return False

    def _spec(self, folder: str) -> PathSpec[Any] | None:
        if folder not in self._specs:
            self._specs[folder] = self._read(folder)
        return self._specs[folder]

    def _read(self, folder: str) -> PathSpec[Any] | None:
        path = self._root / folder / ".gitignore"
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                return None
            lines = path.read_text("utf-8", "surrogateescape").splitlines()
            return PathSpec.from_lines("gitignore", lines)
        except (OSError, ValueError):
            return None


def _entry(path: Path) -> _Entry | None:
    try:
        state = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(state.st_mode):
        return _Entry(mode=_LINK, data=os.fsencode(path.readlink()))
    if not stat.S_ISREG(state.st_mode):
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return _Entry(mode="100755" if state.st_mode & 0o100 else "100644", data=file.read())


# -- telling -------------------------------------------------------------------------------------


def _told(name: str, before: _Entry | None, after: _Entry | None, out: BinaryIO) -> FileChange:
    """Write the patch of one file. A link in place of a file is told as removed and added."""
    added = removed = 0
    steps = [(before, after)]
    if before and after and (before.mode == _LINK) != (after.mode == _LINK):
        steps = [(before, None), (None, after)]
    for old, new in steps:
        more, less = _write(name, old, new, out)
        added, removed = added + more, removed + less
    status: FileStatus = "modified" if before and after else "added" if after else "deleted"
    return FileChange(
        path=name,
        old_path=None,
        status=status,
        lines_added=added,
        lines_removed=removed,
        binary=any(entry is not None and _is_binary(entry) for entry in (before, after)),
    )


def _write(name: str, old: _Entry | None, new: _Entry | None, out: BinaryIO) -> tuple[int, int]:
    a, b = _path(b"a/", name), _path(b"b/", name)
    out.write(b"diff --git %s %s\n" % (a, b))
    if old is None and new is not None:
        out.write(f"new file mode {new.mode}\n".encode())
    elif new is None and old is not None:
        out.write(f"deleted file mode {old.mode}\n".encode())
    elif old is not None and new is not None and old.mode != new.mode:
        out.write(f"old mode {old.mode}\nnew mode {new.mode}\n".encode())
    was, is_now = old.data if old else b"", new.data if new else b""
    if was == is_now and (old is None) == (new is None):
        return 0, 0
    out.write(f"index {_blob(old)}..{_blob(new)}\n".encode())
    if any(entry is not None and _is_binary(entry) for entry in (old, new)):
        out.write(b"GIT binary patch\n" + _literal(is_now) + b"\n" + _literal(was) + b"\n")
        return 0, 0
    hunks, added, removed = _hunks(_lines(was), _lines(is_now))
    if hunks:
        tab = b"\t" if " " in name else b""
        out.write(b"--- %s\n" % (b"/dev/null" if old is None else a + tab))
        out.write(b"+++ %s\n" % (b"/dev/null" if new is None else b + tab))
        out.writelines(hunks)
    return added, removed


def _path(prefix: bytes, name: str) -> bytes:
    raw = prefix + os.fsencode(name)
    if not _ODD.search(raw):
        return raw
    return b'"%s"' % _ODD.sub(lambda found: b"\\%03o" % found[0][0], raw)


def _blob(entry: _Entry | None) -> str:
    if entry is None:
        return "0" * 40
    header = b"blob %d\0" % len(entry.data)
    return hashlib.sha1(header + entry.data, usedforsecurity=False).hexdigest()


def _is_binary(entry: _Entry) -> bool:
    return b"\0" in entry.data[:_PROBE_BYTES]


def _literal(data: bytes) -> bytes:
    """A file whole, deflated and in base 85, at most 52 bytes a line after their number."""
    packed = zlib.compress(data)
    lines = [b"literal %d\n" % len(data)]
    for start in range(0, len(packed), 52):
        piece = packed[start : start + 52]
        count = len(piece)
        letter = chr(count + 64) if count <= 26 else chr(count + 70)
        padded = piece + b"\0" * (-count % 4)
        lines.append(letter.encode() + base64.b85encode(padded) + b"\n")
    return b"".join(lines)


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _hunks(old: list[bytes], new: list[bytes]) -> tuple[list[bytes], int, int]:
    if len(old) > MAX_COMPARED_LINES or len(new) > MAX_COMPARED_LINES:
        ops = [("replace", 0, len(old), 0, len(new))]
        groups: Iterable[Iterable[tuple[str, int, int, int, int]]] = [ops]
    else:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        groups = matcher.get_grouped_opcodes(3)
    told: list[bytes] = []
    added = removed = 0
    for group in map(list, groups):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        told.append(f"@@ -{_span(i1, i2)} +{_span(j1, j2)} @@\n".encode())
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                told += _marked(b" ", old[a1:a2])
                continue
            told += _marked(b"-", old[a1:a2])
            told += _marked(b"+", new[b1:b2])
            removed, added = removed + a2 - a1, added + b2 - b1
    return told, added, removed


def _marked(mark: bytes, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line if line.endswith(b"\n") else mark + line + b"\n" + _NO_NEWLINE


def _span(start: int, stop: int) -> str:
    count = stop - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"
