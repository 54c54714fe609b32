"""What a command may use of the machine: a mistake in it leaves the runner and its log alone."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.adapters import rlimits
from tests.adapters.walled import OUTER, Site, need
from tests.e2e import container
from tests.e2e.desk import Desk
from tests.servers import D, X

TIERS = ["process", "landlock", "namespaces"]
MANY = 300

BOMB = f"""
import os, time
born = 0
for _ in range({MANY}):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        born += 1
    except BlockingIOError:
        break
print("born", born, flush=True)
"""

ATTEMPT = """
import asyncio, sys
from pathlib import Path
from runner.adapters import rlimits
from runner.adapters.local import LocalSandbox
from runner.ports import ExecRequest
from tests.adapters.walled import OUTER, Site

rlimits.MAX_PROCESSES = 60
folder, tier, bomb = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
site = Site(folder=folder)
enclosure = None if tier == "process" else site.enclosure(tier)
site.walls()
for argv in ((sys.executable, "-I", "-S", "-c", bomb), ("echo", "alive")):
    request = ExecRequest(
        argv=argv, cwd=site.workspace, timeout_s=20, max_output_bytes=999, env=OUTER
    )
    result = asyncio.run(LocalSandbox(enclosure=enclosure).exec(request, lambda text: None))
    print(result.output)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder of everybody: the way to pytest's own may be closed to other users."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("tier", TIERS)
def test_a_command_that_forks_without_end_is_stopped(open_folder: Path, tier: str) -> None:
    """In every tier, for an ordinary user; the next command runs as if nothing had been."""
    if tier != "process":
        need(tier)
    argv = [sys.executable, "-c", ATTEMPT, str(open_folder), tier, BOMB]
    if os.geteuid() == 0:  # whom no limit of processes stops
        argv = [sys.executable, str(Path(container.__file__)), "open", "12345", *argv]
    done = subprocess.run(
        argv,
        cwd="/",
        env={**OUTER, "PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(open_folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout.split()
    assert said[0] == "born", done.stderr
    assert 0 < int(said[1]) < 2 * 60
    assert said[2:] == ["alive"]


@pytest.mark.parametrize("tier", TIERS)
def test_a_file_that_never_ends_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: str
) -> None:
    """The program that writes it is killed for it; what writes shorter files goes on."""
    monkeypatch.setattr(rlimits, "MAX_FILE_BYTES", 1024 * 1024)
    site = Site(folder=tmp_path)
    script = "head -c 4M /dev/zero > big; echo $?; echo short > small; ulimit -f unlimited; echo $?"
    if tier == "process":
        site.walls()
        monkeypatch.setattr(Site, "enclosure", lambda self, tier: None)
    else:
        need(tier)
    result = site.run(tier, script)
    assert "153\n" in result.output
    assert (site.workspace / "big").stat().st_size == 1024 * 1024
    assert (site.workspace / "small").read_text() == "short\n"


@pytest.mark.parametrize("sandbox", [None, {"mode": "off", "reason": "a test"}])
def test_ten_gibibytes_are_refused_and_the_run_goes_on(
    tmp_path: Path, sandbox: dict[str, str] | None
) -> None:
    """The model is told, and the log, the result and the next call are as always."""
    huge = ("Bash", {"command": "truncate -s 10G huge; echo and on"})
    played = Desk(folder=tmp_path / "desk").play([X(huge), D("done")], sandbox=sandbox)
    said = str(played.of("tool.execution_complete")[0])
    assert played.exit_code == 0
    assert "File size limit exceeded" in said
    assert "and on" in said


def test_limits_last_in_the_command_and_not_in_the_runner(tmp_path: Path) -> None:
    """They are hard, and when memory runs out the command goes first."""
    numbers = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    before = [resource.getrlimit(number) for number in numbers]
    with rlimits.lowered(tmp_path) as limits:
        assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] <= rlimits.MAX_FILE_BYTES
        child = subprocess.Popen(["sleep", "20"])
    try:
        rlimits.bind(child.pid, limits)
        told = {n: resource.prlimit(child.pid, n) for n in numbers}
        score = Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip()
    finally:
        child.kill()
        child.wait()
    assert told[resource.RLIMIT_FSIZE] == (limits[resource.RLIMIT_FSIZE],) * 2
    assert told[resource.RLIMIT_NOFILE][1] <= rlimits.MAX_OPEN_FILES
    assert told[resource.RLIMIT_NPROC][1] < rlimits.MAX_PROCESSES * 2 + 10_000
    assert score == str(rlimits.OUT_OF_MEMORY_SCORE)
    assert [resource.getrlimit(number) for number in numbers] == before


def test_one_file_leaves_room_for_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a small disk it may not take all there is."""
    disk = os.statvfs(tmp_path)
    free = disk.f_bavail * disk.f_frsize
    monkeypatch.setattr(rlimits, "MAX_FILE_BYTES", 1 << 60)
    with rlimits.lowered(tmp_path) as limits:
        assert abs(limits[resource.RLIMIT_FSIZE] - (free - rlimits.SPARE_BYTES)) < 1 << 30
