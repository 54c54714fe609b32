"""Where file tools may go: the roots, and the one way to a file beneath them.

Rules of this file:
* A path is resolved once, symlinks and all, and compared with the roots part by part. What is
  opened then is that resolved path, and no symlink is followed any more: a directory that is
  swapped for a link in between makes the opening fail and leads nowhere.
* `/proc`, `/sys` and `/dev` are refused, also when a root is above them.
* Only regular files are opened, and opening never blocks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runner.ports import ToolDenied, ToolFailure

SPECIAL = (Path("/proc"), Path("/sys"), Path("/dev"))
DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PLACE_ONLY = getattr(os, "O_PATH", os.O_RDONLY) | DIRECTORY
REGULAR = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

OPENAT2 = 437
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The directories file tools work in, made real paths here; relative paths mean `workspace`.

    `read_only` ones can be read but never written, also when they lie beneath another root.
    `protected` says why a path may not be written; None when it may.
    """

    workspace: Path
    others: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    protected: Callable[[Path], str | None] = lambda path: None

    def __post_init__(self) -> None:
        object.__setattr__(self, "workspace", self.workspace.resolve())
        object.__setattr__(self, "others", tuple(root.resolve() for root in self.others))
        object.__setattr__(self, "read_only", tuple(root.resolve() for root in self.read_only))

    @property
    def writable(self) -> tuple[Path, ...]:
        """The workspace first."""
        return (self.workspace, *self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A resolved path: names beneath a root, none of them a symlink or `..` when it was made."""

    root: Path
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The absolute path."""
        return self.root.joinpath(*self.parts)


def lexical(roots: Roots, text: str) -> str:
    """The absolute form of `text` without looking at the disk."""
    return os.path.normpath(roots.workspace / text)


def locate(roots: Roots, text: str, *, to_write: bool = False) -> Place:
    """Where `text` leads, beneath a root, and beneath a writable one `to_write`.

    Raises `ToolDenied` when that is outside, `ToolFailure` when it is no path at all.
    """
    named = _absolute(roots, text)
    real = _resolved(named)
    if any(p.is_relative_to(s) for s in SPECIAL for p in (Path(os.path.normpath(named)), real)):
        raise ToolDenied(f"{shown(text)} is a system path; /proc, /sys and /dev are never opened")
    if to_write and any(real.is_relative_to(root) for root in roots.read_only):
        raise ToolDenied(f"{shown(text)} can be read but not changed")
    if to_write:
        _refuse_protected(roots, text, (Path(os.path.normpath(named)), real))
    for root in (*roots.writable, *roots.read_only):
        if real.is_relative_to(root):
            return Place(root=root, parts=real.relative_to(root).parts)
    allowed = ", ".join(str(root) for root in roots.writable)
    link = "" if real == named else f" (it leads to {shown(str(real))})"
    raise ToolDenied(f"{shown(text)}{link} is outside the allowed directories: {allowed}")


def _refuse_protected(roots: Roots, text: str, ways: tuple[Path, ...]) -> None:
    for path in ways:
        if (why := roots.protected(path)) is not None:
            raise ToolDenied(
                f"{shown(text)} is protected ({why}): a run that changes it, by whatever means, "
                "ends as a policy violation",
                rule="protected_paths",
            )


def _absolute(roots: Roots, text: str) -> Path:
    if not text or "\0" in text:
        raise ToolFailure("the path is empty or holds a NUL character")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ToolFailure(f"{shown(text)} is not a valid path: it does not encode") from None
    return roots.workspace / text


def _resolved(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except OSError as error:  # a link that stopped being one between two looks at it
        raise ToolFailure(f"{shown(str(path))}: {error.strerror}; it is being changed") from error


def shown(path: str) -> str:
    """A path as one line of clean text: control, direction and undecodable characters escaped."""
    safe = path.encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in safe)


def relative(roots: Roots, path: Path) -> str:
    """A path for the model: relative inside the workspace, absolute elsewhere."""
    inside = path.is_relative_to(roots.workspace)
    return shown(str(path.relative_to(roots.workspace) if inside else path))


@contextmanager
def opened(place: Place, flags: int = os.O_RDONLY) -> Iterator[tuple[int, os.stat_result]]:
    """The open regular file and its state. Raises `ToolFailure` for anything else."""
    with errors_of(place):
        fd = _open(place, flags | REGULAR)
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            kind = KINDS.get(stat.S_IFMT(state.st_mode), "something else")
            raise ToolFailure(f"{shown(str(place.path))} is {kind}, not a regular file")
        with errors_of(place):
            yield fd, state
    finally:
        os.close(fd)


@contextmanager
def opened_directory(place: Place) -> Iterator[int]:
    """The open directory, to be listed. Raises `OSError`."""
    fd = _open(place, os.O_RDONLY | DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def opened_parent(place: Place) -> Iterator[int]:
    """The directory that holds `place`, made if need be. Raises `OSError`."""
    fd = os.open(place.root, PLACE_ONLY)
    try:
        for part in place.parts[:-1]:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=fd)
            fd = _step(fd, part, PLACE_ONLY)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def errors_of(place: Place) -> Iterator[None]:
    """Turn an `OSError` into the `ToolFailure` that says what is wrong with `place`."""
    try:
        yield
    except OSError as error:
        name = shown(str(place.path))
        match error.errno:
            case errno.ENOENT:
                message = f"{name} does not exist"
            case errno.ENOTDIR:
                message = f"{name}, or a part of it, is not a directory"
            case errno.ELOOP | errno.EXDEV:
                message = f"{name} is a loop of symbolic links, or became one just now"
            case errno.ENXIO:
                message = f"{name} is a socket or a device, not a regular file"
            case _:
                message = f"{name}: {error.strerror}"
        raise ToolFailure(message) from error


def _open(place: Place, flags: int) -> int:
    root_fd = os.open(place.root, PLACE_ONLY)
    try:
        if not place.parts:
            return os.open(".", flags, dir_fd=root_fd)
        fd = _openat2(root_fd, "/".join(place.parts), flags)
        return _walk(root_fd, place.parts, flags) if fd is None else fd
    finally:
        os.close(root_fd)


def _walk(root_fd: int, parts: tuple[str, ...], flags: int) -> int:
    """Part by part, each beneath the last and none of them a symlink."""
    fd = os.dup(root_fd)
    try:
        for part in parts[:-1]:
            fd = _step(fd, part, PLACE_ONLY)
        return os.open(parts[-1], flags, dir_fd=fd)
    finally:
        os.close(fd)


def _step(fd: int, part: str, flags: int) -> int:
    """From one directory to the next; closes the old one only when the new one is open."""
    deeper = os.open(part, flags, dir_fd=fd)
    os.close(fd)
    return deeper


def _openat2(root_fd: int, path: str, flags: int) -> int | None:
    """Open in one step that the kernel keeps beneath `root_fd`; None where it cannot."""
    libc = _libc()
    if libc is None:
        return None
    resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
    how = struct.pack("=QQQ", flags, 0, resolve)
    fd: int = libc.syscall(OPENAT2, root_fd, os.fsencode(path), how, len(how))
    if fd >= 0:
        return fd
    code = ctypes.get_errno()
    # No such call, a filter that knows it not, or the tree moved meanwhile: part by part, then.
    if code in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
        return None
    raise OSError(code, os.strerror(code), path)


@cache
def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
