"""Whatever ends a run, no process of it is alive afterwards."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.adapters.leftovers import MARK
from tests.e2e.desk import Desk
from tests.servers import D, Step, T, Usage, X

DAEMONS = (
    "Bash",
    {"command": "setsid sleep 300 & (setsid nohup sleep 300 >/dev/null 2>&1 &) ; trap '' TERM; :"},
)
BUSY = ("Bash", {"command": "setsid sleep 300 & sleep 300"})

Play = Callable[[Desk], int]


def carrying_the_mark(session: str) -> list[int]:
    """Processes whose environment says that they belong to this session."""
    wanted = f"{MARK}={session}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def _played(*steps: Step, **keys: Any) -> Play:
    return lambda desk: desk.play(steps, "--session-id", desk.folder.name, **keys).exit_code


ENDINGS = {
    "success": (0, _played(X(DAEMONS), D("done"))),
    "turn cap": (3, _played(X(DAEMONS), X(DAEMONS), max_turns=1)),
    "budget": (
        4,
        _played(
            X(DAEMONS, usage=Usage(input_tokens=1000, output_tokens=500)),
            max_budget_usd=0.015,
            max_output_tokens=600,
            pricing={"input_per_mtok": 1, "output_per_mtok": 20},
        ),
    ),
    "timeout": (9, _played(X(BUSY), timeout="1s")),
    "continues": (6, _played(X(DAEMONS), T("a"), T("b"), max_autopilot_continues=1)),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_no_process_outlives_an_ending(desk: Desk, name: str) -> None:
    """Daemons of every kind are gone when the command returns, however the run ended."""
    code, play = ENDINGS[name]
    assert play(desk) == code
    assert carrying_the_mark(desk.folder.name) == []


def test_no_process_outlives_a_sigterm(desk: Desk) -> None:
    """The command and its daemon are gone when the runner has ended."""
    with desk.started([X(BUSY)], "--session-id", desk.folder.name) as running:
        running.wait_until(lambda: len(carrying_the_mark(desk.folder.name)) >= 2, "children")
        running.send(signal.SIGTERM)
        assert running.finish_checked().exit_code == 143
    assert carrying_the_mark(desk.folder.name) == []


def test_what_outlives_a_sigkill_is_ended_by_the_resumed_run(desk: Desk) -> None:
    """Without a sandbox a killed runner leaves its command; the next run ends and names it."""
    session = desk.folder.name
    with desk.started([X(BUSY), D("done")], "--session-id", session) as running:
        running.wait_until(lambda: len(carrying_the_mark(session)) >= 2, "children")
        running.send(signal.SIGKILL)
        running.finish()
    assert carrying_the_mark(session) != []
    played = desk.play([X(BUSY), D("done")], "--resume", session)
    assert played.exit_code == 0
    assert carrying_the_mark(session) == []
    assert any("sleep 300" in survivor for survivor in played.result["survivors"])


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_as_the_first_process_of_a_container_it_stops_and_reaps(desk: Desk) -> None:
    """PID 1 of its own namespace: SIGTERM ends the run with 143, and no zombie is left before."""
    namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    probe = subprocess.run([*namespace, "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("this machine has no pid namespaces for us")
    zombies = "sleep 0.2; grep -h '^State' /proc/[0-9]*/status | grep -c zombie > zombies; touch up"
    orphans = ("Bash", {"command": "for i in 1 2 3; do (setsid sleep 0.05 &) ; done"})
    wait = ("Bash", {"command": f"{zombies}; sleep 300"})
    desk.script([X(orphans), X(wait)])
    command = [*namespace, "--kill-child=SIGTERM", *desk.command("run", str(desk.spec()))]
    process = subprocess.Popen(command, cwd=desk.folder, env=desk.environment())
    try:
        while not (desk.workspace / "up").exists():
            assert process.poll() is None
        first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
        subprocess.run(["kill", "-TERM", first], check=True)
        assert process.wait(timeout=30) == 143
    finally:
        process.kill()
        process.wait()
    assert desk.read("zombies") == "0\n"
