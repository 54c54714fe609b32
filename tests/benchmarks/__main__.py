"""Measure start-up and own time per turn against a bare litellm loop, side by side.

    python -m tests.benchmarks [--turns 200] [--repeat 3]

Prints figures and ratios next to the budgets of the design. The numbers are for people: they
depend on the machine, so nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.servers import D, ModelServer, Step, X

BARE = Path(__file__).with_name("bare_loop.py")
ROOT = Path(__file__).parents[2]
MODEL = "openai/gpt-4o-mini"
ENVIRONMENT = {**os.environ, "OPENAI_API_KEY": "none", "CI": "true"}

AS_IT_COMES: Mapping[str, Any] = {}
OPEN: Mapping[str, Any] = {"sandbox": {"mode": "off", "reason": "compared with a bare loop"}}

Function = tuple[str, int, str]
"""A function as the profiler names it: file (`~` for a builtin), line, name."""


def main() -> None:
    """Run every measurement and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{'what':<52}{'ours':>10}{'yardstick':>11}{'ratio':>8}  budget")
    cold_start(options.repeat)
    with tempfile.TemporaryDirectory() as folder:
        per_turn(Path(folder), options.turns, options.repeat)
        where_time_goes(Path(folder), options.turns)


def cold_start(repeat: int) -> None:
    """Commands that need no model, against importing click and yaml."""
    yardstick = wall_s([sys.executable, "-c", "import click, yaml"], repeat)
    task = "configs/tasks/quickstart.yaml"
    for words in (["--help"], ["exit-codes"], ["sessions"], ["validate", task]):
        ours = wall_s([sys.executable, "-m", "runner", *words], repeat)
        row(f"autopilot {' '.join(words)}, s", ours, yardstick, "2.5x")


def per_turn(folder: Path, turns: int, repeat: int) -> None:
    """The same script of Bash calls through both loops; times are the server's.

    The yardstick puts no walls around its commands, so the budget is for ours without them; what
    they cost stands in a row of its own.
    """
    ours, walled, bare = [], [], []
    command = [sys.executable, "-m", "runner", "run"]
    for number in range(repeat):
        bare.append(requests_at([sys.executable, str(BARE)], turns, folder / f"bare{number}"))
        ours.append(requests_at(command, turns, folder / f"ours{number}", OPEN))
        walled.append(requests_at(command, turns, folder / f"walled{number}"))
    row("exec to first request, s", first(walled), first(bare), "1.1x")
    for turn in (30, turns):
        mine, behind, theirs = (around(runs, turn) * 1000 for runs in (ours, walled, bare))
        row(f"time per turn around turn {turn}, ms", mine, theirs, "1.5x")
        row(f"  with commands in the sandbox, around turn {turn}, ms", behind, theirs, "none")


def where_time_goes(folder: Path, turns: int) -> None:
    """Whose code the main thread of a profiled run is in, start-up included; litellm's import and
    its logging are in other threads. The profiler makes calls dearer, so only shares count."""
    profile = folder / "profile"
    command = [sys.executable, "-m", "cProfile", "-o", str(profile), "-m", "runner", "run"]
    requests_at(command, turns, folder / "profiled")
    seconds = seconds_by_owner(profile)
    waiting, busy = seconds.pop("waiting", 0.0), sum(seconds.values())
    print(f"where {turns} turns spend {busy:.1f} s of the main thread, {waiting:.1f} s of waiting")
    for owner, took in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"  {owner:<50}{took / turns * 1000:>10.3f} ms a turn{took / busy:>8.0%}")


def seconds_by_owner(profile: Path) -> dict[str, float]:
    """Own time of all functions by who they belong to; a builtin's time is its callers'."""
    seconds: dict[str, float] = defaultdict(float)
    stats: dict[Function, Any] = vars(pstats.Stats(str(profile)))["stats"]
    for function, (_, _, own_s, _, callers) in stats.items():
        if function[0] != "~" or not callers or owner_of(function) != "standard library":
            seconds[owner_of(function)] += own_s
            continue
        for caller, (_, _, from_there_s, _) in callers.items():
            seconds[owner_of(caller)] += from_there_s
    return dict(seconds)


def owner_of(function: Function) -> str:
    """Ours, litellm with what it is built on, the standard library, or waiting."""
    path, _, name = function
    if "'poll' of 'select." in name:
        return "waiting"
    if "posix.fdatasync" in name or "posix.fsync" in name:
        return "syncing the log"
    if path.startswith(str(ROOT / "runner")):
        return "ours"
    return "litellm and other libraries" if "site-packages" in path else "standard library"


def requests_at(
    command: Sequence[str], turns: int, folder: Path, more: Mapping[str, Any] = AS_IT_COMES
) -> list[float]:
    """Seconds from exec to each request, as the server saw them."""
    folder.mkdir()
    steps: list[Step] = [X(("Bash", {"command": "echo hello"})) for _ in range(turns)]
    with ModelServer(wire="openai", steps=[*steps, D("done")]) as server:
        if command[-1] == "run":
            arguments = [
                str(write_spec(folder, server.base_url, more)),
                "--home",
                str(folder / "home"),
            ]
        else:
            arguments = [MODEL, server.base_url]
        started = time.monotonic()
        subprocess.run([*command, *arguments], check=True, capture_output=True, env=ENVIRONMENT)
        return [request.received_at - started for request in server.requests]


def write_spec(folder: Path, api_base: str, more: Mapping[str, Any]) -> Path:
    """A task that allows Bash and runs against the loopback server."""
    workspace = folder / "workspace"
    workspace.mkdir()
    spec = {
        "name": "benchmark",
        "prompt": "Go on until done.",
        "model": MODEL,
        "api_base": api_base,
        "max_output_tokens": 1024,
        "workspace": str(workspace),
        "allowed_tools": ["Bash"],
        **more,
    }
    path = folder / "task.yaml"
    path.write_text(json.dumps(spec))
    return path


def wall_s(command: Sequence[str], repeat: int) -> float:
    """Median wall time of a command, one warm-up first."""
    times = []
    for _ in range(repeat + 1):
        started = time.monotonic()
        subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)
        times.append(time.monotonic() - started)
    return statistics.median(times[1:])


def around(runs: list[list[float]], turn: int) -> float:
    """The median seconds from request to request over the ten before this turn."""
    pairs = [pairwise(times[turn - 11 : turn]) for times in runs]
    return statistics.median(later - earlier for gaps in pairs for earlier, later in gaps)


def first(runs: list[list[float]]) -> float:
    """The median seconds from exec to the first request."""
    return statistics.median(times[0] for times in runs)


def row(label: str, ours: float, yardstick: float, budget: str) -> None:
    """One line of the table."""
    print(f"{label:<52}{ours:>10.3f}{yardstick:>11.3f}{ours / yardstick:>8.2f}  {budget}")


main()
