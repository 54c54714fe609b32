"""Copies of a session's papers, for a pipeline that keeps them."""

from __future__ import annotations

import shutil
from pathlib import Path

PAPERS = ("events.jsonl", "result.json", "patch.diff")


def copy_papers(folder: Path, target: Path) -> str | None:
    """Copy what a pipeline wants to keep; the problem, if there is one."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in PAPERS:
            if (folder / name).exists():
                shutil.copyfile(folder / name, target / name)
    except OSError as error:
        return f"the artifacts were not copied to {target}: {error.strerror}"
    return None
