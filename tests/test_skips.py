"""In CI no test is skipped for a reason nobody expected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import EXPECTED_SKIPS

TESTS = """
import pytest

def test_a():
    pytest.skip({reason!r})

@pytest.mark.xfail
def test_b():
    assert False
"""


@pytest.mark.parametrize(
    ("ci", "reason", "code"),
    [("true", "gone", 1), ("true", EXPECTED_SKIPS[0] + ": x", 0), ("", "gone", 0)],
)
def test_an_unexpected_skip_fails_in_ci(tmp_path: Path, ci: str, reason: str, code: int) -> None:
    """The reason is told; expected skips, expected failures and other machines stay as they are."""
    (tmp_path / "test_it.py").write_text(TESTS.format(reason=reason))
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "CI": ci, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert ("CI does not accept: gone" in done.stdout) == (code == 1)
