"""What changed in a workspace, as it stands in a result."""

from __future__ import annotations

from typing import Any

from runner.adapters.snapshot import FileChange, WorkspaceDiff


def diff_json(found: WorkspaceDiff) -> dict[str, Any]:
    """The object `workspace_diff`; paths that are not UTF-8 have lone surrogates."""
    return {
        "files": [_file_change(file) for file in found.files],
        "lines_added": found.lines_added,
        "lines_removed": found.lines_removed,
        "skipped": [f"{skip.path}: {skip.reason}" for skip in found.skipped],
        "patch": str(found.patch_path),
    }


def _file_change(file: FileChange) -> dict[str, Any]:
    counts = {"lines_added": file.lines_added, "lines_removed": file.lines_removed}
    moved = {} if file.old_path is None else {"old_path": file.old_path}
    return {"path": file.path, "status": file.status, **moved, **counts, "binary": file.binary}
