"""What the README shows for programs works: its Python blocks are run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.test_session import LOOK, done
from tests.e2e.desk import CENT, REPOSITORY, Desk
from tests.servers import Step

SECTIONS = ("## From Python", "## From Claude's Agent SDK")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[str]:
    """The code of both sections."""
    text = (REPOSITORY / "README.md").read_text()
    parts = [text.split(f"\n{title}\n")[1].split("\n## ")[0] for title in SECTIONS]
    return [code for part in parts for code in BLOCK.findall(part)]


SAID = ("done 0.0", "tool task_complete", "success\n", "success\n", "success 1")
"""What each block prints, or the beginning of a line of it."""


def test_each_block_has_its_expectation() -> None:
    """A new block needs a line here."""
    assert len(blocks()) == len(SAID)


@pytest.mark.parametrize(("code", "said"), list(zip(blocks(), SAID, strict=False)))
def test_a_block_of_the_readme_runs(desk: Desk, code: str, said: str) -> None:
    """In a folder with a `task.yaml`, in a process of its own, with nothing on stderr."""
    desk.script([LOOK, done(), done(), Step(text="more")] if "Session" in code else [done()] * 2)
    desk.spec(pricing=CENT)
    environment = desk.environment()
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=desk.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert said in ran.stdout
