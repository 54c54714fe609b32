"""Golden logs: one folder a scenario, its log and its result byte for byte.

`pytest tests/test_golden.py --update-golden` rewrites them; read the difference before committing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.adapters.specfile import load_spec
from runner.app import Finished, RunOptions, World, run
from tests.fakes import FakeClock, counted_ids

GOLDEN = Path(__file__).parent / "golden"
SCENARIOS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
PAPERS = ("events.jsonl", "result.json")
STAGE = Path("/tmp/autopilot-golden")
"""Paths are facts of a log, so every scenario runs at the same place everywhere."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_gives_its_log_and_result_byte_for_byte(
    name: str, request: pytest.FixtureRequest
) -> None:
    """The log and the result equal the recorded ones when the world is the recorded one.

    What is in `files/` needs no record of its own: the log names each file by its content.
    """
    with _stage(name) as stage:
        finished = _play(stage)
        assert finished.folder is not None
        got = {paper: (finished.folder / paper).read_bytes() for paper in PAPERS}
        kept = {path.name: path.read_bytes() for path in (finished.folder / "files").iterdir()}
    if request.config.getoption("--update-golden"):
        for paper, content in got.items():
            (GOLDEN / name / paper).write_bytes(content)
    assert all(hashlib.sha256(content).hexdigest() == file for file, content in kept.items())
    assert kept.keys() == set(re.findall(r"files/([0-9a-f]{64})", got["events.jsonl"].decode()))
    wanted = {paper: (GOLDEN / name / paper).read_bytes() for paper in got}
    assert got == wanted
    assert json.loads(got["result.json"])["exit_code"] == finished.exit_code


def _play(stage: Path) -> Finished:
    world = World(
        clock=FakeClock(),
        new_id=counted_ids(),
        environ={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
        versions={},
    )
    options = RunOptions(home=stage / "home", session_id="golden")
    spec = load_spec(stage / "task.yaml", stdin=lambda: "")
    return run(spec, options, world=world)


@contextmanager
def _stage(name: str) -> Iterator[Path]:
    """The scenario at its fixed place; two test runs on one machine take turns."""
    STAGE.mkdir(exist_ok=True)
    with (STAGE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stage = STAGE / name
        shutil.rmtree(stage, ignore_errors=True)
        shutil.copytree(GOLDEN / name, stage)
        (stage / "task.yaml").chmod(0o644)  # its mode is in the log, and a checkout's differs
        yield stage
        shutil.rmtree(stage)
