"""What changed in a workspace, as it stands in a result."""

from __future__ import annotations

from typing import Any

from runner.adapters.snapshot import FileChange, WorkspaceDiff

MAX_FILES = 500
"""How many files a result names. A build may change tens of thousands: `patch.diff` has them."""


def diff_json(found: WorkspaceDiff) -> dict[str, Any]:
    """The object `workspace_diff`; paths that are not UTF-8 have lone surrogates.

    `files` and `skipped` hold the first 500 each; `truncated` says that one of them is cut. The
    totals count everything.
    """
    named, skipped = found.files[:MAX_FILES], found.skipped[:MAX_FILES]
    return {
        "files": [_file_change(file) for file in named],
        "files_total": len(found.files),
        "truncated": len(named) < len(found.files) or len(skipped) < len(found.skipped),
        "lines_added": found.lines_added,
        "lines_removed": found.lines_removed,
        "skipped": [f"{skip.path}: {skip.reason}" for skip in skipped],
        "skipped_total": len(found.skipped),
        "patch": str(found.patch_path),
    }


def _file_change(file: FileChange) -> dict[str, Any]:
    counts = {"lines_added": file.lines_added, "lines_removed": file.lines_removed}
    moved = {} if file.old_path is None else {"old_path": file.old_path}
    return {"path": file.path, "status": file.status, **moved, **counts, "binary": file.binary}
