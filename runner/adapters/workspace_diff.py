"""What changed in a workspace, as it stands in a result."""

from __future__ import annotations

from typing import Any

from pathspec import PathSpec

from runner.adapters.snapshot import FileChange, Unavailable, WorkspaceDiff
from runner.core.events import VerifyCheck
from runner.core.spec import EVERYTHING

MAX_FILES = 500
"""How many files a result names. A build may change tens of thousands: `patch.diff` has them."""

MAX_TOLD = 100


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


def gate_checks(
    found: WorkspaceDiff | Unavailable,
    require: tuple[str, ...],
    forbid: tuple[str, ...],
    *,
    duration_ms: int,
) -> tuple[VerifyCheck, ...]:
    """`require_changes` and `forbid_changes` as checks: patterns of gitignore, `!` excepts.

    Each required pattern needs a changed file of its own; no changed file may be forbidden. A
    renamed file counts by both names. Without a diff nothing is met.
    """
    checks = []
    for name, gate, lines in (
        ("require_changes", "required_changes_missing", require),
        ("forbid_changes", "forbidden_changes", forbid),
    ):
        if not lines:
            continue
        if isinstance(found, Unavailable):
            problem = f"what changed could not be told: {found.reason}"
        elif gate == "required_changes_missing":
            problem = _missing(_paths(found), lines)
        else:
            problem = _forbidden(_paths(found), lines)
        checks.append(
            VerifyCheck(
                name=name,
                passed=not problem,
                duration_ms=duration_ms,
                output=problem,
                gate="required_changes_missing" if lines is require else "forbidden_changes",
            )
        )
    return tuple(checks)


def _paths(found: WorkspaceDiff) -> list[str]:
    named = {path: None for file in found.files for path in (file.old_path, file.path) if path}
    return list(named)


def _missing(changed: list[str], lines: tuple[str, ...]) -> str:
    excepted = [line for line in lines if line.startswith("!")]
    lacking = [
        line
        for line in lines
        if not line.startswith("!")
        and not any(PathSpec.from_lines("gitignore", [line, *excepted]).match_files(changed))
    ]
    if lacking == [EVERYTHING]:
        return "nothing has changed in the workspace"
    return "".join(f"no changed file matches {line}\n" for line in lacking)


def _forbidden(changed: list[str], lines: tuple[str, ...]) -> str:
    found = list(PathSpec.from_lines("gitignore", lines).match_files(changed))
    told = [f"{path} must not change" for path in found[:MAX_TOLD]]
    if len(found) > MAX_TOLD:
        told.append(f"and {len(found) - MAX_TOLD} more")
    return "\n".join(told)


def _file_change(file: FileChange) -> dict[str, Any]:
    counts = {"lines_added": file.lines_added, "lines_removed": file.lines_removed}
    moved = {} if file.old_path is None else {"old_path": file.old_path}
    return {"path": file.path, "status": file.status, **moved, **counts, "binary": file.binary}
