"""The sandbox of tier `process`: real processes, and none of them left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.adapters import local
from runner.adapters.local import LocalSandbox
from runner.ports import ExecRequest, ExecResult

ENV = {"PATH": os.environ.get("PATH", os.defpath)}


def request(cwd: Path, script: str, **more: object) -> ExecRequest:
    """A bash script as a request."""
    limits = {"timeout_s": 20.0, "max_output_bytes": 10_000, "env": ENV, **more}
    return ExecRequest(argv=("bash", "-c", script), cwd=cwd, **limits)  # type: ignore[arg-type]


def run(cwd: Path, script: str, **more: object) -> ExecResult:
    """A bash script, to its end, in a loop of its own."""
    wanted = request(cwd, script, **more)
    return asyncio.run(LocalSandbox().exec(wanted, lambda text: None))


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def is_gone(pid: int) -> bool:
    """Whether there is no such process, not even as a zombie."""
    return not Path(f"/proc/{pid}").exists()


def test_the_tier_is_told_truthfully() -> None:
    """The tier is `process`: nothing is enforced."""
    assert LocalSandbox().tier == "process"


def test_a_process_runs_to_its_end(tmp_path: Path) -> None:
    """Output, exit code and size are in the result, and no file is made for little output."""
    result = run(tmp_path, "echo out; echo err >&2; exit 3", spill_file=tmp_path / "f")
    assert result == ExecResult(exit_code=3, output="out\nerr\n", total_bytes=8, truncated=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("signal_number", [6, 9, 15])
def test_death_by_a_signal_has_the_code_of_a_shell(tmp_path: Path, signal_number: int) -> None:
    """The exit code is 128 and the number when a signal ended the leader."""
    assert run(tmp_path, f"kill -{signal_number} $$").exit_code == 128 + signal_number


def test_a_program_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    """`OSError` is raised, and no descriptor stays open, when nothing can be started."""
    before = open_descriptors()
    for argv, cwd in ((("/none",), tmp_path), (("true",), tmp_path / "none")):
        bad = ExecRequest(argv=argv, cwd=cwd, timeout_s=1, max_output_bytes=1, report_cwd=True)
        with pytest.raises(FileNotFoundError):
            asyncio.run(LocalSandbox().exec(bad, lambda text: None))
    assert open_descriptors() == before


def test_no_descriptor_is_leaked(tmp_path: Path) -> None:
    """As many descriptors are open after many calls as before, timeouts among them."""
    run(tmp_path, "true")
    before = open_descriptors()
    for script in ("true", "sleep 9 & true", "sleep 9", "seq 9999"):
        run(tmp_path, script, timeout_s=0.3, max_output_bytes=10, spill_file=tmp_path / "f")
    assert open_descriptors() == before


def test_a_process_has_a_session_of_its_own_and_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Own session, empty stdin, no core files, no variable and no descriptor of the runner."""
    monkeypatch.setenv("SECRET_CANARY", "x")
    script = (
        "import os, resource; print(os.getsid(0) == os.getpid(), os.read(0, 1),"
        "resource.getrlimit(resource.RLIMIT_CORE), sorted(os.environ), os.listdir('/proc/self/fd'))"
    )
    wanted = ExecRequest(
        # The limit is set right after the start; an interpreter takes longer than that.
        argv=(sys.executable, "-I", "-c", script),
        cwd=tmp_path,
        timeout_s=20,
        max_output_bytes=1000,
        env={"A": "1"},
    )
    result = asyncio.run(LocalSandbox().exec(wanted, lambda text: None))
    names = "['A', 'LC_CTYPE']" if "LC_CTYPE" in result.output else "['A']"
    assert result.output == f"True b'' (0, 0) {names} ['0', '1', '2', '3']\n"


DAEMONS: dict[str, str] = {
    "a background process": "sleep 60 & echo $!",
    "one in its own session": "setsid sleep 60 & echo $!",
    "one without the pipe": "sleep 60 >/dev/null 2>&1 & echo $!",
    "nohup": "nohup sleep 60 >/dev/null 2>&1 & echo $!",
    "disown": "sleep 60 & disown; echo $! ",
    "one that ignores signals": "(trap '' TERM HUP INT; echo $BASHPID; exec sleep 60) &",
    "a double fork": "(setsid bash -c 'sleep 60 & echo $!; sleep 61 & echo $!' &)",
    "a daemon below a daemon": "setsid setsid bash -c 'setsid sleep 60 & echo $!; wait' &",
    "a group of its own": "set -m; sleep 60 & echo $!; (sleep 61 & echo $!)",
    "an empty environment": "env -i setsid sleep 60 & echo $!",
    "one that forks on": "(while :; do sleep 0.01; done) & echo $!",
}


@pytest.mark.parametrize("script", DAEMONS.values(), ids=DAEMONS.keys())
@pytest.mark.parametrize("end", ["exit", "timeout", "cancel"])
def test_nothing_survives(tmp_path: Path, script: str, end: str) -> None:
    """Every process that was started is dead by the return, on exit, timeout and cancellation."""
    wait = "\nsleep 0.05" if end == "exit" else "\nsleep 60"
    wanted = request(tmp_path, script + wait, timeout_s=0.4 if end == "timeout" else 20)
    output: list[str] = []
    began = time.monotonic()

    async def call() -> ExecResult | None:
        try:
            async with asyncio.timeout(0.4 if end == "cancel" else None):
                return await LocalSandbox().exec(wanted, output.append)
        except TimeoutError:
            return None

    result = asyncio.run(call())
    assert time.monotonic() - began < 4
    pids = [int(line) for line in "".join(output).split()]
    assert pids
    assert [pid for pid in pids if not is_gone(pid)] == []
    assert (result is None) == (end == "cancel")
    if result is not None:
        assert result.exit_code == (0 if end == "exit" else None)
        assert bool(result.survivors) == (end == "exit")
        assert all(is_gone(pid) for pid in result.survivors)


def test_a_grandchild_that_holds_the_pipe_does_not_delay(tmp_path: Path) -> None:
    """The call returns within the drain when a background process keeps the output open."""
    began = time.monotonic()
    result = run(tmp_path, "sleep 60 & echo done")
    assert time.monotonic() - began < 2
    assert (result.output, len(result.survivors)) == ("done\n", 1)


def test_children_of_others_are_left_alone(tmp_path: Path) -> None:
    """A child that the runner had before is alive after a call that killed its own."""
    with subprocess.Popen(["sleep", "60"]) as other:
        run(tmp_path, "setsid sleep 60 &")
        assert other.poll() is None
        other.kill()


def test_calls_that_overlap_end_only_their_own(tmp_path: Path) -> None:
    """A short call does not kill what a longer one still uses; in the end all is gone."""

    async def both() -> tuple[ExecResult, ExecResult]:
        sandbox = LocalSandbox()
        slow = request(tmp_path, "(sleep 0.8; echo child; setsid sleep 60 & echo $!) & wait")
        async with asyncio.TaskGroup() as group:
            one = group.create_task(sandbox.exec(slow, lambda text: None))
            await asyncio.sleep(0.1)
            quick = request(tmp_path, "sleep 60 & echo $!")
            two = group.create_task(sandbox.exec(quick, lambda text: None))
        return one.result(), two.result()

    slow, quick = asyncio.run(both())
    assert slow.output.startswith("child\n")
    pids = [int(word) for word in (slow.output + quick.output).split() if word.isdigit()]
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)


def test_orphans_that_end_leave_no_zombies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended orphans are reaped while the call still runs."""
    monkeypatch.setattr(local, "REAP_EVERY_S", 0.1)
    count = "ls /proc/$PPID/task/*/ -d >/dev/null; cat /proc/$PPID/task/*/children | wc -w"
    script = f"for i in 1 2 3 4 5 6 7 8 9; do (sh -c 'true & :' &); done; sleep 0.5; {count}"
    assert int(run(tmp_path, script).output) <= 3


def test_it_works_without_descriptors_for_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit and survivors are found by polling when the kernel has no pidfd."""

    def refuse(pid: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refuse)
    began = time.monotonic()
    result = run(tmp_path, "sleep 60 & echo ok; exit 4")
    assert time.monotonic() - began < 0.8
    assert (result.exit_code, result.output, len(result.survivors)) == (4, "ok\n", 1)


def test_a_timeout_asks_before_it_kills(tmp_path: Path) -> None:
    """A process that ends on SIGTERM can say goodbye; one that does not is killed soon after."""
    polite = "trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done"
    result = run(tmp_path, polite, timeout_s=0.3)
    assert (result.exit_code, result.output[-4:]) == (None, "bye\n")
    began = time.monotonic()
    assert run(tmp_path, "trap '' TERM; echo part; sleep 60; sleep 60", timeout_s=0.3) == (
        ExecResult(exit_code=None, output="part\n", total_bytes=5, truncated=False)
    )
    assert time.monotonic() - began < 3


def test_the_last_directory_is_reported(tmp_path: Path) -> None:
    """The last NUL-ended path on the private descriptor is the directory; half of one is not."""
    for said, cwd in (("/a\\0/b c\\0", Path("/b c")), ("/a\\0/half", Path("/a")), ("x", None)):
        wanted = ExecRequest(
            argv=("bash", "-c", f"printf '{said}' >&$1; ls /proc/self/fd | wc -l", "bash"),
            cwd=tmp_path,
            timeout_s=20,
            max_output_bytes=100,
            env=ENV,
            report_cwd=True,
        )
        assert asyncio.run(LocalSandbox().exec(wanted, lambda text: None)).cwd == cwd
