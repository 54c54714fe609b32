"""Run a task in forked children that are killed at some moment, and resume it until it is done.

    python -m tests.crash.at_random FOLDER KILLS SEED

Sessions follow each other until KILLS children were killed and the last session is finished. One
JSON line a child tells how it ended; what it printed before is in `FOLDER/shown-N.jsonl`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from runner import app
from runner.adapters.journal import RESULT
from runner.adapters.outlet import Outlet
from runner.adapters.specfile import load_spec
from runner.adapters.streams import format_sink
from tests.crash.task import make_long_task

PATIENCE = 5
"""At most this many children for each kill: the others came to their end before it."""


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill and resume until enough were killed."""
    moments = random.Random(seed)
    killed, usual_s, session = 0, 5.0, 0
    task = make_long_task(folder)
    for number in range(PATIENCE * kills):
        enough = killed >= kills
        wait_s = None if number == 0 or enough else moments.uniform(0, usual_s)
        started = time.monotonic()
        status = _child(task, f"session-{session}", folder / f"shown-{number}.jsonl", wait_s)
        print(json.dumps({"session": f"session-{session}", "status": status}), flush=True)
        if status == -signal.SIGKILL:
            killed += 1
            if not (folder / "home" / "session-state" / f"session-{session}" / RESULT).exists():
                continue  # else: the kill came after the last word, and there is nothing to resume
        else:
            usual_s = min(usual_s, time.monotonic() - started)
        session += 1
        (folder / "counter").rename(folder / f"counter-{session - 1}")
        if enough:
            return


def _child(task: Path, session: str, shown: Path, wait_s: float | None) -> int:
    """Run or resume the session; its exit code, negative when it was killed after `wait_s`."""
    child = os.fork()
    if child == 0:
        os._exit(_run(task, session, shown))
    if wait_s is not None:
        time.sleep(wait_s)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _run(task: Path, session: str, shown: Path) -> int:
    home = task.parent / "home"
    there = (home / "session-state" / session / "events.jsonl").exists()
    options = app.RunOptions(
        home=home, session_id=None if there else session, resume=session if there else None
    )
    outlet = Outlet(os.open(shown, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    sink = format_sink("events", outlet, partial=True, clean=str)
    finished = app.run(load_spec(task, stdin=lambda: ""), options, (sink,))
    outlet.close()
    return finished.exit_code


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
