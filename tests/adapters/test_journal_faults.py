"""A disk that fails: the run ends at once, says so, pays for nothing more, and its log is whole.

The failures are injected where the operating system begins: in `os.write` and `os.fdatasync` of
this process, by strace in another one, by a limit on file sizes, and by a file system that is full.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.adapters.journal import BARRIERS, LOG, FileJournal
from runner.adapters.log_reader import LogDamaged, LogReader
from runner.adapters.spill import MAX_LINE_BYTES
from runner.cli import main
from runner.core.events import (
    AssistantTurnStart,
    Persisted,
    Record,
    SessionInfo,
    ToolExecutionStart,
)
from runner.core.fold import fold
from runner.core.spec import Durability
from runner.core.words import usd
from runner.ports import JournalError
from tests.sample_run import tidy_run
from tests.written import lines_of, open_journal

BASH = {"name": "Bash", "arguments": {"command": "printf x >> count"}}
DONE = {"name": "task_complete", "arguments": {"summary": "Done."}}
USAGE = {"input_tokens": 1000, "output_tokens": 100}
REPLIES = [
    {"text": "reply 0", "tools": [BASH, BASH], "usage": USAGE},
    {"text": "reply 1", "tools": [BASH], "usage": USAGE},
    {"text": "reply 2", "tools": [DONE], "usage": USAGE},
]
OPTIONS = ("--session-id", "s1", "--output-format", "events", "--include-partial-messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A task, and where its session and its effects are."""

    spec: Path
    home: Path
    count: Path

    @property
    def session(self) -> Path:
        """The session's folder."""
        return self.home / "session-state" / "s1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run that is over."""

    code: int
    out: str
    err: str


def make_site(folder: Path) -> Site:
    """A short task: three model calls, three times the effect of appending a byte."""
    (folder / "work").mkdir(parents=True)
    (folder / "replies.yaml").write_text(json.dumps({"replies": REPLIES}))
    spec = {
        "name": "x",
        "prompt": "y",
        "model": "scripted:replies.yaml",
        "workspace": "work",
        "allowed_tools": ["Bash"],
        "pricing": {"input_per_mtok": 3, "output_per_mtok": 15},
    }
    (folder / "task.yaml").write_text(json.dumps(spec))
    return Site(spec=folder / "task.yaml", home=folder / "home", count=folder / "work" / "count")


@pytest.fixture
def run_here(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Site], Ran]:
    """Runs the task in this process; without git, because its start is most of such a run."""
    (tmp_path / "bin").mkdir()
    for name in ("bash", "sh", "printf"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD"):
        monkeypatch.delenv(name, raising=False)

    def run(site: Site) -> Ran:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["run", str(site.spec), "--home", str(site.home), *OPTIONS])
        captured = capfd.readouterr()
        return Ran(code=int(ended.value.code or 0), out=captured.out, err=captured.err)

    return run


def check_stopped(site: Site, ran: Ran) -> LogReader:
    """What must hold whenever the log could not be written, whatever the reason."""
    reader = LogReader(site.session)
    records = list(reader)
    shown = [json.loads(line) for line in ran.out.splitlines()]
    acknowledged = [line["seq"] for line in shown if "seq" in line]
    replies = {line["data"]["messageId"] for line in shown if line["type"].endswith("_delta")}
    state = fold(records[: len(acknowledged)])
    assert ran.code == 74
    assert "error_during_execution: log_write, exit code 74\n" in ran.err
    assert acknowledged == list(range(len(acknowledged)))
    assert len(acknowledged) in (len(records), len(records) - 1)  # written whole, sync failed
    assert len(replies) <= made(records[: len(acknowledged)], AssistantTurnStart)
    assert effects(site) <= made(records[: len(acknowledged)], ToolExecutionStart)
    assert not (site.session / "result.json").exists()
    if acknowledged:
        assert f"\n  cost       {usd(state.ledger.spent_usd)}" in ran.err
        assert f" {state.main.replies} model call" in ran.err
    return reader


def made(records: list[Record], cls: type) -> int:
    """How many events of this class are there."""
    return sum(isinstance(record.event, cls) for record in records)


def effects(site: Site) -> int:
    """How often the command was run."""
    return len(site.count.read_text()) if site.count.exists() else 0


# -- in this process -----------------------------------------------------------------------------


@dataclass(slots=True)
class Fault:
    """Lets the call of number `at` on a log fail; `calls` are all that were made."""

    name: str
    at: int
    fail: Callable[[int, bytes], int]
    calls: list[str] = field(default_factory=list)
    failed_after: int | None = None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put it between this process and the system."""
        for name in ("write", "fdatasync"):
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, *arguments: Any) -> Any:
            if opened_as(descriptor) != LOG:
                return real(descriptor, *arguments)
            self.calls.append(name)
            if name == self.name and self.calls.count(name) == self.at:
                self.failed_after = len(self.calls)
                return self.fail(descriptor, arguments[0] if arguments else b"")
            return real(descriptor, *arguments)

        return call


def opened_as(descriptor: int) -> str:
    """The name of the file behind a descriptor."""
    return Path(f"/proc/self/fd/{descriptor}").readlink().name


def error(number: int) -> Callable[[int, bytes], int]:
    """A call that does nothing but fail with this error."""

    def fail(descriptor: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    return fail


REAL_WRITE = os.write


def half(descriptor: int, data: bytes) -> int:
    """A write that writes half of it, and says so."""
    return REAL_WRITE(descriptor, data[: len(data) // 2])


def nothing(descriptor: int, data: bytes) -> int:
    """A call that only claims to be done."""
    return 0


FAULTS: dict[str, tuple[str, Callable[[int, bytes], int]]] = {
    "short write": ("write", half),
    "ENOSPC on write": ("write", error(errno.ENOSPC)),
    "EFBIG on write": ("write", error(errno.EFBIG)),
    "EIO on write": ("write", error(errno.EIO)),
    "EIO on fdatasync": ("fdatasync", error(errno.EIO)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_failure_at_any_call_ends_the_run(
    tmp_path: Path,
    run_here: Callable[[Site], Ran],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """For every write and every sync of a run: code 74, no call after it, no reply, no effect."""
    call, fail = FAULTS[name]
    healthy = Fault("no call", 0, nothing)
    with monkeypatch.context() as patched:
        healthy.install(patched)
        site = make_site(tmp_path / "healthy")
        assert (run_here(site).code, effects(site)) == (0, 3)
    total = healthy.calls.count(call)
    assert total == healthy.calls.count("write") == len(list(LogReader(site.session)))
    for number in range(1, total + 1):
        fault = Fault(call, number, fail)
        site = make_site(tmp_path / str(number))
        with monkeypatch.context() as patched:
            fault.install(patched)
            ran = run_here(site)
        reader = check_stopped(site, ran)
        assert len(fault.calls) == fault.failed_after
        assert reader.seq == (number if call == "fdatasync" else number - 1)
        assert (reader.torn_bytes > 0) == (fail is half)


def test_a_moved_text_that_cannot_be_synced_is_named_by_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file comes first: when it fails there is no line, no draft, and no second try."""
    journal = open_journal(tmp_path, "event")
    journal.append(SessionInfo(info_type="x", message="short"))
    long = SessionInfo(info_type="x", message="x" * MAX_LINE_BYTES)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: error(errno.EIO)(descriptor, b""))
        with pytest.raises(JournalError, match="Input/output error"):
            journal.append(long)
    with pytest.raises(JournalError, match="Input/output error"):  # although it would work now
        journal.append(SessionInfo(info_type="x", message="short"))
    journal.close()
    assert (LogReader(tmp_path).seq, len(list(LogReader(tmp_path)))) == (0, 1)
    assert list((tmp_path / "files").iterdir()) == []


def test_a_result_that_cannot_be_synced_is_code_74(
    tmp_path: Path, run_here: Callable[[Site], Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No half of it is left; the log has it, so it can be recovered."""
    site = make_site(tmp_path / "site")
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if opened_as(descriptor) == "result.json.part":
            error(errno.EIO)(descriptor, b"")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    ran = run_here(site)
    assert (ran.code, effects(site)) == (74, 3)
    assert list(site.session.glob("result.json*")) == []
    assert fold(LogReader(site.session)).result is not None


# -- power cuts ----------------------------------------------------------------------------------

Operation = tuple[str, bytes]


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """What this process writes to logs and syncs of them, in order."""
    done: list[Operation] = []
    write, sync = os.write, os.fdatasync

    def watched_write(descriptor: int, data: bytes) -> int:
        done.append(("write", data))
        return write(descriptor, data)

    def watched_sync(descriptor: int) -> None:
        done.append(("sync", b""))
        sync(descriptor)

    monkeypatch.setattr(os, "write", watched_write)
    monkeypatch.setattr(os, "fdatasync", watched_sync)
    return done


def run_journal(
    folder: Path, operations: list[Operation], durability: Durability
) -> list[Operation]:
    """The operations of a short log, with the type of each event once it was acknowledged."""
    journal: FileJournal = open_journal(folder, durability)
    operations.clear()
    for event in [event for event in tidy_run() if isinstance(event, Persisted)][3:12]:
        journal.append(event)
        operations.append(("acknowledged", event.type.encode()))
    journal.close()
    return list(operations)


def crash_states(operations: list[Operation]) -> Iterator[tuple[bytes, list[str]]]:
    """Every log that a power cut can leave, with the types acknowledged by then.

    What was not synced is dropped, cut at any byte, or zeros from any byte on.
    """
    synced, written, acknowledged = 0, b"", []
    for name, data in operations:
        match name:
            case "write":
                written += data
            case "sync":
                synced = len(written)
            case _:
                acknowledged.append(data.decode())
        for cut in range(synced, len(written) + 1):
            yield written[:cut], acknowledged
            yield written[:cut] + bytes(len(written) - cut), acknowledged


def losses(
    folder: Path, operations: list[Operation], must_survive: Callable[[list[str]], int]
) -> Iterator[str]:
    """What recovery gets wrong, state by state: damage, or an event that had to survive."""
    for log, acknowledged in crash_states(operations):
        (folder / LOG).write_bytes(log)
        reader = LogReader(folder)
        try:
            found = [record.event.type for record in reader]
        except LogDamaged as damage:
            yield f"damaged: {damage.problem}"
            continue
        if len(found) < must_survive(acknowledged):
            yield f"lost: {acknowledged[len(found)]}"
        assert found[: len(acknowledged)] == acknowledged[: len(found)]


def up_to_a_barrier(acknowledged: list[str]) -> int:
    """How many events there were when the last one that is a barrier was acknowledged."""
    barriers = [number for number, name in enumerate(acknowledged, 1) if name in BARRIERS]
    return max(barriers, default=0)


def test_no_power_cut_loses_an_acknowledged_event(
    tmp_path: Path, operations: list[Operation]
) -> None:
    """In every state that a cut can leave, all that was acknowledged is read, and no damage."""
    assert list(losses(tmp_path, run_journal(tmp_path / "s", operations, "event"), len)) == []


def test_a_barrier_keeps_all_before_it(tmp_path: Path, operations: list[Operation]) -> None:
    """At that level what comes before an effect survives, but not every event does."""
    done = run_journal(tmp_path / "s", operations, "barrier")
    assert list(losses(tmp_path, done, up_to_a_barrier)) == []
    assert next(losses(tmp_path, done, len), None) is not None


def test_the_power_cuts_would_find_a_journal_that_does_not_sync(
    tmp_path: Path, operations: list[Operation]
) -> None:
    """Without the syncs the same states lose events: the two tests above prove something."""
    done = run_journal(tmp_path / "s", operations, "event")
    unsynced = [operation for operation in done if operation[0] != "sync"]
    assert next(losses(tmp_path, unsynced, len), None) == f"lost: {done[2][1].decode()}"
    assert next(losses(tmp_path, unsynced, up_to_a_barrier), None) is not None


def test_a_level_without_syncs_still_survives_a_kill(
    tmp_path: Path, operations: list[Operation]
) -> None:
    """A killed process loses nothing that it wrote: only the power can."""
    done = run_journal(tmp_path / "s", operations, "off")
    log = b"".join(data for name, data in done if name == "write")
    assert [name for name, _ in done] == ["write", "acknowledged"] * (len(done) // 2)
    assert (tmp_path / "s" / LOG).read_bytes() == log
    assert len(lines_of(log)) == len(list(LogReader(tmp_path / "s")))


# -- in another process --------------------------------------------------------------------------


def run_there(site: Site, *before: str, **options: Any) -> Ran:
    """Runs the task in a process of its own, behind these words."""
    command = [*before, sys.executable, "-m", "runner", "run", str(site.spec)]
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "GITHUB_ACTIONS")}
    done = subprocess.run(
        [*command, "--home", str(site.home), *OPTIONS],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
        **options,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.fixture(scope="session")
def strace() -> str:
    """The program, where it may trace."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed")
    probe = subprocess.run([found, "-o", "/dev/null", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"strace may not trace here: {probe.stderr.decode().strip()}")
    return found


INJECTIONS = {
    "EIO on a sync": ("fdatasync:error=EIO:when=9", 9),
    "EIO on the first sync": ("fdatasync:error=EIO:when=1", 1),
    "ENOSPC on a write": ("write:error=ENOSPC:when=12", 11),
    "short write": ("write:retval=7:when=6", 5),
}


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_failure_that_the_kernel_reports_ends_the_run(
    tmp_path: Path, strace: str, name: str
) -> None:
    """The same for the real system calls, traced from outside: nothing follows the failure."""
    injection, lines = INJECTIONS[name]
    site = make_site(tmp_path / "site")
    log, trace = site.session / LOG, tmp_path / "trace"
    only = ("-f", "-qq", "-o", str(trace), "-P", str(log), "-e", "signal=none")
    ran = run_there(site, strace, *only, "-e", "trace=write,fdatasync", "-e", f"inject={injection}")
    reader = check_stopped(site, ran)
    calls = [line for line in trace.read_text().splitlines() if "(" in line]
    assert "(INJECTED)" in calls[-1]
    assert sum("(INJECTED)" in call for call in calls) == 1
    assert reader.seq == lines


def test_the_kernel_sees_one_write_and_one_sync_an_event(tmp_path: Path, strace: str) -> None:
    """Every line of a whole run, its start and its end included."""
    site = make_site(tmp_path / "site")
    log, trace = site.session / LOG, tmp_path / "trace"
    only = ("-f", "-qq", "-o", str(trace), "-P", str(log), "-e", "signal=none")
    ran = run_there(site, strace, *only, "-e", "trace=write,pwrite64,writev,fsync,fdatasync")
    calls = [line.split()[1].partition("(")[0] for line in trace.read_text().splitlines()]
    lines = len(list(LogReader(site.session)))
    assert (ran.code, [call for call in calls if call.isalnum()]) == (
        0,
        ["write", "fdatasync"] * lines,
    )


@pytest.mark.parametrize("limit_bytes", [10_000, 11_000, 12_345])
def test_a_limit_on_file_sizes_ends_the_run(tmp_path: Path, limit_bytes: int) -> None:
    """Code 74 and no death by SIGXFSZ; what fitted is read."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    site = make_site(tmp_path / "site")
    reader = check_stopped(site, run_there(site, preexec_fn=limit))
    assert reader.seq > 1
    assert reader.valid_bytes + reader.torn_bytes == limit_bytes


def test_a_full_disk_ends_the_run(tmp_path: Path) -> None:
    """A file system of a few pages: code 74, and what fitted is read."""
    namespace = ["unshare", "--mount"] + (
        [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    )
    mount = 'mount -t tmpfs -o size=44k,mode=700 tmpfs "$0"'
    probe = subprocess.run(
        [*namespace, "sh", "-c", mount, str(tmp_path)], capture_output=True, text=True, check=False
    )
    if probe.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {probe.stderr.strip()}")
    site = make_site(tmp_path / "site")
    site.home.mkdir()
    # The file system goes with its namespace, so what is on it is copied out, to `kept`.
    script = f'{mount}; "$@"; code=$?; cp -r "$0/." "$0.kept"; exit $code'
    ran = run_there(site, *namespace, "sh", "-c", script, str(site.home))
    kept = Site(spec=site.spec, home=tmp_path / "site" / "home.kept", count=site.count)
    reader = check_stopped(kept, ran)
    assert reader.seq > 0
    assert "No space left on device" in ran.err or "short write" in ran.err
