"""Run a task in forked children that die at their N-th log write, and resume each of them.

    python -m tests.crash.driver FOLDER MODE FIRST STEP [agents]

Imports the runner once and forks, so that a kill point costs a fraction of a second. For every
N = FIRST, FIRST + STEP, ... until a run survives, one JSON line tells what the resumed run left.
MODE is where the N-th write dies: `before` it, half way through it (`torn`), or `after` it. With
`agents` the work is done by sub-agents.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from runner import app
from runner.adapters import journal
from runner.adapters.specfile import load_spec
from tests.crash.task import make_task

SESSION = "crash"


def main(folder: Path, mode: str, first: int, step: int, *, by_agents: bool) -> None:
    """Every kill point of this mode, one after the other."""
    number = first
    while True:
        task = make_task(folder / f"{mode}{number}", by_agents=by_agents)
        if not _died(lambda: _die_at(number, mode), task):  # noqa: B023  # called before it changes
            return
        print(json.dumps({"kill": number, **_resume(task)}), flush=True)
        number += step


def _died(prepare: Callable[[], None], task: Path) -> bool:
    """Run the task in a child that dies as prepared; False when it lived to its end."""
    child = os.fork()
    if child == 0:
        prepare()
        _run(task, app.RunOptions(home=task.parent / "home", session_id=SESSION))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _resume(task: Path) -> dict[str, object]:
    """Resume the session in another child; what the world looks like afterwards."""
    options = app.RunOptions(home=task.parent / "home", resume=SESSION)
    if not (options.home / "session-state" / SESSION / "events.jsonl").exists():
        options = app.RunOptions(home=options.home, session_id=SESSION + "2")
    child = os.fork()
    if child == 0:
        os._exit(_run(task, options))
    _, status = os.waitpid(child, 0)
    counter, greeting = task.parent / "counter", task.parent / "work" / "greeting.txt"
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "bash_runs": len(counter.read_text().split()) if counter.exists() else 0,
        "greeting": greeting.read_text() if greeting.exists() else None,
        "home": str(options.home),
    }


def _run(task: Path, options: app.RunOptions) -> int:
    return app.run(load_spec(task, stdin=lambda: ""), options).exit_code


def _die_at(number: int, mode: str) -> None:
    """From now on the N-th write of a log line is the last thing this process does."""
    real, written = os.write, 0

    def write(descriptor: int, data: bytes | memoryview) -> int:
        nonlocal written
        if bytes(data[:6]) == b'{"id":':
            written += 1
            if written == number:
                if mode != "before":
                    real(descriptor, data if mode == "after" else data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
        return real(descriptor, data)

    journal.os.write = write  # type: ignore[attr-defined]  # the border to the kernel


if __name__ == "__main__":
    words = sys.argv[1:]
    main(Path(words[0]), words[1], int(words[2]), int(words[3]), by_agents="agents" in words[4:])
