"""Where programs are looked for when no rule is asked: never where the work is done."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from runner.tools.paths import Roots


def trusted(search_path: str, roots: Roots) -> str:
    """The search path without what is relative or below a root that may be written."""
    entries = search_path.split(os.pathsep)
    strange = set(strange_entries(search_path, roots))
    return os.pathsep.join(entry for entry in entries if entry not in strange)


def strange_entries(search_path: str, roots: Roots) -> Iterator[str]:
    """The entries that lead to where the work is."""
    for entry in search_path.split(os.pathsep):
        real = Path(os.path.realpath(entry))
        if not entry.startswith("/") or any(real.is_relative_to(root) for root in roots.writable):
            yield entry


def is_brought(names: Iterable[str], search_path: str, roots: Roots, cwd: Path) -> bool:
    """Whether the work holds a program of one of these names where it would be found first."""
    strange = set(strange_entries(search_path, roots))
    for name in names:
        for entry in search_path.split(os.pathsep):
            if os.path.lexists(cwd / entry / name):
                if entry in strange:
                    return True
                break
    return False


def found(name: str, search_path: str, roots: Roots) -> str | None:
    """The program, from where the work cannot have put it."""
    return shutil.which(name, path=trusted(search_path, roots))
