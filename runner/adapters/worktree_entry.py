"""The entry of a worktree in the list that its repository keeps: found, and taken out."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path


def admin_of(target: Path) -> Path:
    """The worktree's own folder in the repository. Raises `OSError`."""
    pointer = (target / ".git").read_text().removeprefix("gitdir:").strip()
    return Path(pointer)


def unregister(target: Path) -> None:
    """Take the worktree at this resolved path out of the list; its files stay."""
    with suppress(OSError):
        admin = admin_of(target)
        # A tool could have made the pointer lead anywhere: only what leads back here is removed.
        back = (admin / "gitdir").read_text().strip()
        if admin.parent.name == "worktrees" and Path(back) == target / ".git":
            shutil.rmtree(admin)
