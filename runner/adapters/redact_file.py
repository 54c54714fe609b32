"""Makes a masked copy of a file that holds what is not to be shown, such as a patch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from runner.adapters import snapshot
from runner.adapters.durable import write_pieces
from runner.adapters.redact import Mask

CHUNK_BYTES = 1024 * 1024
RAW = "raw.diff"


def copy_masked(source: Path, target: Path, mask: Mask) -> bool:
    """Copy a file, read in pieces, with its secrets masked; whether it held any.

    Raises `OSError`; then there is no new `target`.
    """
    before, after = hashlib.sha256(), hashlib.sha256()

    def masked() -> Iterator[bytes]:
        stream = mask.byte_stream()
        with source.open("rb") as file:
            for piece in iter(partial(file.read, CHUNK_BYTES), b""):
                before.update(piece)
                yield stream.feed(piece)
        yield stream.close()

    def noted() -> Iterator[bytes]:
        for piece in masked():
            after.update(piece)
            yield piece

    write_pieces(target, noted())
    return before.digest() != after.digest()


async def masked_changes(
    baseline: snapshot.Snapshot,
    patch: Path,
    mask: Mask,
    *,
    timeout_s: float,
    search_path: str,
) -> tuple[snapshot.WorkspaceDiff | snapshot.Unavailable, bool]:
    """`snapshot.changes` with the secrets in the patch masked, and whether there were any.

    What is not masked yet lies where the snapshot keeps the files themselves, and is removed.
    """
    raw = baseline.git_dir / RAW if mask else patch
    found = await snapshot.changes(baseline, raw, timeout_s=timeout_s, search_path=search_path)
    return (found, False) if raw == patch else masked(found, raw, patch, mask)


def masked(
    found: snapshot.WorkspaceDiff | snapshot.Unavailable, raw: Path, patch: Path, mask: Mask
) -> tuple[snapshot.WorkspaceDiff | snapshot.Unavailable, bool]:
    """What changed, its patch moved to `patch` with secrets masked, and whether it held any."""
    if isinstance(found, snapshot.Unavailable):
        return found, False
    try:
        held_some = copy_masked(raw, patch, mask)
    except OSError as error:
        return snapshot.Unavailable(reason=f"cannot write {patch}: {error.strerror}"), False
    finally:
        raw.unlink(missing_ok=True)
    return replace(found, patch_path=patch), held_some
