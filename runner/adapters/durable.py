"""Whole files that survive a crash: temp, sync, rename, sync of the folder; mode 0600."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` at `path`, whole or not at all. Raises `OSError`."""
    write_pieces(path, (content,))


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Put the pieces at `path`, one after the other, whole or not at all. Raises `OSError`."""
    draft = path.with_name(f"{path.name}.part")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)  # a umask may have taken some of it
            file.writelines(pieces)
            file.flush()
            os.fsync(descriptor)
        draft.replace(path)
    except OSError:
        with suppress(OSError):  # the first error is the one to tell
            draft.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
