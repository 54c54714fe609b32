"""Measure the log: cost of an append, time of a fold, memory of reading and of a flood of output.

    python -m tests.benchmarks.log [--lines 100000] [--flood-mib 1024]

Prints figures and ratios next to the budgets of the design. The numbers are for people: they
depend on the machine and its disk, so nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, count, cycle, islice
from pathlib import Path

from runner.adapters.journal import LOG, FileJournal
from runner.adapters.log_reader import LogReader
from runner.core.events import Persisted
from runner.core.fold import fold
from runner.core.spec import Durability
from tests.fakes import FakeClock, counted_ids
from tests.sample_run import end, ok, reply, start

EARLY = 100
SAMPLE = 300
MIB = 1024 * 1024
READ_ALL = """
import sys
from pathlib import Path
from runner.adapters.log_reader import LogReader
for record in LogReader(Path(sys.argv[1])):
    pass
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def main() -> None:
    """Run every measurement and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--flood-mib", type=int, default=1024)
    options = parser.parse_args()
    print(f"{'what':<58}{'ours':>10}{'yardstick':>11}{'ratio':>8}  yardstick; budget")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        appends(folder, options.lines)
        folds(folder, options.lines)
        reading(folder, options.lines)
        flood(folder, options.flood_mib)


def appends(folder: Path, lines: int) -> None:
    """One append early and late in a log, with and without its sync, against a bare write."""
    for durability in ("off", "event"):
        early = filled(folder / f"early-{durability}", EARLY, durability)
        late = filled(folder / f"late-{durability}", lines, durability)
        bare = bare_append(folder / f"bare-{durability}", sync=durability == "event")
        took: list[tuple[float, ...]] = [
            (timed(partial(early.append, event)), timed(partial(late.append, event)), timed(bare))
            for event in islice(cycle(islice(events(), EARLY)), SAMPLE)
        ]  # in turn, so that all three meet the same machine
        first, last, floor = (statistics.median(times) * 1000 for times in zip(*took, strict=True))
        label = f"append, durability {durability}"
        row(f"{label}, at line {EARLY:,}, ms", first, floor, "bare write; none")
        row(f"{label}, at line {lines:,}, ms", last, first, "at line 100; about 1")
        early.close()
        late.close()


def folds(folder: Path, lines: int) -> None:
    """Reading and folding a tenth of the log and all of it."""
    few, many = folder / "few", folder / "late-off"
    filled(few, lines // 10, "off").close()
    read_few, whole_few = best_s(exhaust, few), best_s(fold, few)
    read_many, whole_many = best_s(exhaust, many), best_s(fold, many)
    row(f"read and fold {lines // 10:,} events, CPU s", whole_few, 1.0, "the budget: under 1 s")
    row(f"read and fold {lines:,} events, CPU s", whole_many, whole_few, "a tenth; about 10")
    row(f"read {lines:,} events without folding, CPU s", read_many, read_few, "a tenth; about 10")


def reading(folder: Path, lines: int) -> None:
    """Peak memory of a process that reads a short log and a long one."""
    filled(folder / "short", EARLY, "off").close()
    short, long = (peak_of_reading_mib(folder / name) for name in ("short", "late-off"))
    size = (folder / "late-off" / LOG).stat().st_size / MIB
    label = f"peak memory, reading {lines:,} events ({size:.0f} MiB), MiB"
    row(label, long, short, f"{EARLY} events; about 1")


def flood(folder: Path, mib: int) -> None:
    """Peak memory of a run whose command prints a lot, against one whose command does not."""
    quiet = peak_of_run_mib(folder / "quiet", "echo hello")
    loud = peak_of_run_mib(folder / "loud", f"yes 0123456789abcdef | head -c {mib * MIB}")
    row(f"peak memory, a command that prints {mib} MiB, MiB", loud, quiet, "one word; below")
    row("  the difference, MiB", loud - quiet, 32, "the budget: under 32 MiB")


def events() -> Iterable[Persisted]:
    """What a long run records: its start, then turns of one call each, without end."""
    call = {"command": "make test"}
    turns = (
        (*reply(n, "word " * 20, (f"c{n}", "Bash", call)), *ok(f"c{n}", "Bash", call, "x" * 200, n))
        for n in count()
    )
    ended = ((*turn, end(n)) for n, turn in enumerate(turns))
    together = chain(start(), chain.from_iterable(ended))
    return (event for event in together if isinstance(event, Persisted))


def filled(folder: Path, lines: int, durability: Durability) -> FileJournal:
    """A journal at that line; the way there is never synced."""
    journal = opened(folder, "off", reopen=False)
    for event in islice(events(), lines):
        journal.append(event)
    if durability == "off":
        return journal
    journal.close()
    journal = opened(folder, durability, reopen=True)
    exhaust(journal.replay())
    os.sync()  # so that the first sync to be measured has nothing of this to write
    return journal


def opened(folder: Path, durability: Durability, *, reopen: bool) -> FileJournal:
    """A journal on this folder."""
    return FileJournal(
        folder, clock=FakeClock(), new_id=counted_ids(), durability=durability, reopen=reopen
    )


def bare_append(path: Path, *, sync: bool) -> Callable[[], None]:
    """A write of as many bytes and nothing else, with a sync or without."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    line = b"x" * 450

    def append() -> None:
        os.write(descriptor, line)
        if sync:
            os.fdatasync(descriptor)

    return append


def timed(work: Callable[[], object]) -> float:
    """The seconds it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def best_s(work: Callable[[LogReader], object], folder: Path) -> float:
    """The seconds of CPU that the fastest of three goes at this log took."""
    took = []
    for _ in range(3):
        started = time.process_time()
        work(LogReader(folder))
        took.append(time.process_time() - started)
    return min(took)


def exhaust(things: Iterable[object]) -> None:
    """Take all of them, keep none."""
    for _ in things:
        pass


def peak_of_reading_mib(folder: Path) -> float:
    """The peak resident memory of a process that reads this log."""
    command = [sys.executable, "-c", READ_ALL, str(folder)]
    return int(subprocess.run(command, check=True, capture_output=True).stdout) / 1024


def peak_of_run_mib(folder: Path, command: str) -> float:
    """The peak resident memory of a run with one call of Bash; that of its children not counted."""
    folder.mkdir()
    calls = [("Bash", {"command": command}), ("task_complete", {"summary": "Done."})]
    replies = [{"tools": [{"name": name, "arguments": given}]} for name, given in calls]
    spec = {"name": "flood", "prompt": "Go.", "model": "scripted:replies.yaml", "workspace": "work"}
    (folder / "work").mkdir()
    (folder / "replies.yaml").write_text(json.dumps({"replies": replies}))
    (folder / "task.yaml").write_text(json.dumps({**spec, "allowed_tools": ["Bash"]}))
    words = ["run", str(folder / "task.yaml"), "--home", str(folder / "home"), "--quiet"]
    running = subprocess.Popen(
        [sys.executable, "-m", "runner", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak = 0.0
    while running.poll() is None:
        peak = max(peak, peak_so_far_mib(running.pid))
        time.sleep(0.01)
    if running.returncode != 0:
        raise SystemExit(f"the run with `{command}` ended with code {running.returncode}")
    return peak


def peak_so_far_mib(pid: int) -> float:
    """The highest its resident memory was, 0 when it has just ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(s.split()[1]) / 1024 for s in status.splitlines() if "VmHWM" in s), 0.0)


def row(label: str, ours: float, yardstick: float, budget: str) -> None:
    """One line of the table."""
    print(f"{label:<58}{ours:>10.3f}{yardstick:>11.3f}{ours / yardstick:>8.2f}  {budget}")


main()
