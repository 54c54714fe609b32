"""A desk for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder, a workspace in it, and a scripted model."""
    return Desk(folder=tmp_path)
