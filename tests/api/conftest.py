"""A desk for every test: a folder with a workspace, a home, a spec and a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Only its files are used: what is tested runs in this process."""
    return Desk(folder=tmp_path)
