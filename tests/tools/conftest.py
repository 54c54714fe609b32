"""A fresh bench for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """The tools in `ws`; `out` beside it is outside of the roots."""
    for name in ("ws", "spill", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "out" / "secret").write_text("outside\n")
    return Bench(workspace=tmp_path / "ws", spill_dir=tmp_path / "spill")


@pytest.fixture
def outside(tmp_path: Path, bench: Bench) -> Path:
    """A directory beside the workspace with a file `secret` in it."""
    return tmp_path / "out"
