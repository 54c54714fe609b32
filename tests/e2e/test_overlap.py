"""The start-up does its work while litellm is imported, which takes longer than all of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.e2e.desk import REPOSITORY, Desk
from tests.servers import D

WAITING = '''
import json, os, sys, threading, time
from importlib.machinery import PathFinder

HOME, REPORT = os.environ["AUTOPILOT_HOME"], os.environ["OVERLAP_REPORT"]
THREAD = "import-litellm"
at_start = []


def on_the_log():
    """The types of the events that are in the log of the session, if there is one."""
    found = []
    for folder, _, names in os.walk(HOME):
        if "events.jsonl" in names:
            with open(os.path.join(folder, "events.jsonl")) as log:
                found += [json.loads(line)["type"] for line in log if line.endswith("\\n")]
    return found


def start(self):
    if self.name == THREAD:
        at_start.append(on_the_log())
    really_start(self)


class Held(PathFinder):
    """Lets the import go on once the checks and the workspace are on the log, not before."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "litellm":
            return None
        spec = PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: run(hold(module))
        return spec


def hold(module):
    ends_at = time.monotonic() + 30
    while "runner.preflight" not in (seen := on_the_log()) and time.monotonic() < ends_at:
        time.sleep(0.01)
    with open(REPORT, "w") as report:
        json.dump({"at_start": at_start, "meanwhile": seen}, report)
    return module


really_start, threading.Thread.start = threading.Thread.start, start
sys.meta_path.insert(0, Held)
'''


def test_the_import_goes_on_beside_the_start_up(tmp_path: Path) -> None:
    """It begins before there is a session; the checks are made, the workspace is copied, its first
    state kept and the prompts are made while it is held up; the first request waits for it."""
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "sitecustomize.py").write_text(WAITING)
    desk = Desk(
        folder=tmp_path / "desk",
        wire="openai",
        environ={
            "PYTHONPATH": f"{tmp_path / 'held'}{os.pathsep}{REPOSITORY}",
            "OVERLAP_REPORT": str(tmp_path / "report.json"),
        },
    )
    played = desk.play([D("done")], workspace={"path": "work", "isolation": "copy"})
    assert played.exit_code == 0, played.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["at_start"] == [[]]
    assert "runner.preflight" in report["meanwhile"]
    assert "assistant.turn_start" not in report["meanwhile"]
    assert (played.folder / "workspace" / "README.md").exists()
    assert len(played.requests) == 1
