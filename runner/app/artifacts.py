"""Copies of a session's papers, for a pipeline that keeps them."""

from __future__ import annotations

from pathlib import Path

from runner.adapters.report_files import copy_report

PAPERS = ("events.jsonl", "result.json", "patch.diff")


def copy_papers(folder: Path, target: Path) -> list[str]:
    """Copy what a pipeline wants to keep into `target`, a path without links; the problems."""
    found = [name for name in PAPERS if (folder / name).exists()]
    copied = (copy_report(folder / name, target / name) for name in found)
    return [f"artifact {problem}" for problem in copied if problem]
