"""What a result says of the changes stays small, however many there are."""

from __future__ import annotations

from pathlib import Path

from runner.adapters.snapshot import FileChange, Skipped, WorkspaceDiff
from runner.adapters.workspace_diff import MAX_FILES, diff_json


def changes(files: int, skipped: int) -> WorkspaceDiff:
    """A line was added to each of so many files."""
    return WorkspaceDiff(
        files=tuple(
            FileChange(
                path=f"f{number}",
                old_path=None,
                status="added",
                lines_added=1,
                lines_removed=0,
                binary=False,
            )
            for number in range(files)
        ),
        lines_added=files,
        lines_removed=0,
        skipped=tuple(Skipped(path=f"s{number}", reason="too big") for number in range(skipped)),
        patch_path=Path("patch.diff"),
        patch_bytes=1,
    )


def test_a_few_changes_are_all_named() -> None:
    """Nothing is cut at the limit itself."""
    told = diff_json(changes(MAX_FILES, 1))
    assert (len(told["files"]), told["files_total"], told["truncated"]) == (500, 500, False)
    assert (told["skipped"], told["skipped_total"]) == (["s0: too big"], 1)


def test_many_changes_are_counted_and_the_first_are_named() -> None:
    """The totals count all of them, and a mark says that the list is cut."""
    told = diff_json(changes(20_000, 0))
    assert (told["files_total"], told["lines_added"], told["truncated"]) == (20_000, 20_000, True)
    assert [file["path"] for file in told["files"]] == [f"f{n}" for n in range(MAX_FILES)]
    told = diff_json(changes(1, 700))
    assert (len(told["skipped"]), told["skipped_total"], told["truncated"]) == (500, 700, True)
