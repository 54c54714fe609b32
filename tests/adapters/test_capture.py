"""Output of real processes: head and tail in memory, the rest in a file, live text in between."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.adapters import capture
from runner.adapters.capture import Capture
from runner.adapters.local import LocalSandbox
from tests.adapters.test_local import request, run

PROJECT = Path(__file__).parents[2]


def test_long_output_is_head_and_tail_and_a_file(tmp_path: Path) -> None:
    """Head and tail fit the limit, the file (mode 0600) has it all, and the count is exact."""
    file = tmp_path / "f"
    result = run(tmp_path, "seq 50000", max_output_bytes=1000, spill_file=file)
    whole = "".join(f"{n}\n" for n in range(1, 50_001))
    assert file.read_text() == whole
    assert file.stat().st_mode & 0o777 == 0o600
    assert (result.total_bytes, result.truncated, result.output_file) == (len(whole), True, file)
    head, tail = result.output.split("\n[... ")
    marker, tail = tail.split(" ...]\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    omitted = len(whole) - len(head) - len(tail)
    assert marker == f"{omitted} bytes left out; all of it is in {file}"
    assert 900 < len(result.output.encode()) <= 1000


def test_no_file_is_made_for_output_that_just_fits(tmp_path: Path) -> None:
    """Exactly the limit is not long, one byte more is."""
    for count, made in ((1000, False), (1001, True)):
        file = tmp_path / f"f{count}"
        result = run(tmp_path, f"printf %{count}s", max_output_bytes=1000, spill_file=file)
        assert (file.exists(), result.truncated) == (made, made)


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    """Invalid UTF-8, also cut at the limit, becomes replacement characters within the limit."""
    assert run(tmp_path, r"printf 'a\xff\xc3'").output == "a\ufffd\ufffd"
    result = run(tmp_path, "head -c 100000 /dev/urandom", max_output_bytes=501)
    assert len(result.output.encode()) <= 501
    assert "bytes left out" in result.output


def test_a_file_that_cannot_be_written_costs_only_the_file(tmp_path: Path) -> None:
    """Head and tail are there, and no file is named, when the file cannot be made."""
    result = run(tmp_path, "seq 9999", max_output_bytes=500, spill_file=tmp_path / "no" / "f")
    assert result.output_file is None
    assert result.output.startswith("1\n2\n")
    assert result.output.endswith("\n9999\n")


def test_the_file_has_a_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after the cap is counted and dropped, and the tail is still the end."""
    monkeypatch.setattr(capture, "FILE_CAP_BYTES", 5000)
    file = tmp_path / "f"
    result = run(tmp_path, "seq 9999", max_output_bytes=500, spill_file=file)
    assert file.read_text() == "".join(f"{n}\n" for n in range(1, 9999 + 1))[:5000]
    assert result.total_bytes == 48_888
    assert result.output.endswith("\n9999\n")


def test_live_output_is_bounded(tmp_path: Path) -> None:
    """A flood is told at most some ten times a second, a few kilobytes each, ending in the end."""
    heard: list[str] = []
    wanted = request(tmp_path, "yes | head -c 50000000; echo end", timeout_s=30)
    began = time.monotonic()
    asyncio.run(LocalSandbox().exec(wanted, heard.append))
    assert len(heard) <= (time.monotonic() - began) / capture.LIVE_INTERVAL_S + 2
    assert max(map(len, heard)) <= capture.LIVE_MAX_CHARS
    assert heard[-1].endswith("y\nend\n")


def test_live_output_never_splits_a_character() -> None:
    """A character that arrives in two pieces is heard once and whole."""
    heard: list[str] = []
    times = iter(float(n) for n in range(100))
    now: Callable[[], float] = lambda: next(times)  # noqa: E731 - a clock that always moves on
    kept = Capture(max_bytes=100, spill_file=None, on_output=heard.append, now=now)
    for byte in "é→".encode():
        kept.feed(bytes([byte]))
    kept.close()
    assert "".join(heard) == "é→"


FLOOD = """
import asyncio, os, pathlib, resource, sys
from runner.adapters.local import LocalSandbox
from runner.ports import ExecRequest
here = pathlib.Path(sys.argv[1])
def call(size):
    return asyncio.run(LocalSandbox().exec(ExecRequest(
        argv=("head", "-c", str(size), "/dev/zero"), cwd=here, timeout_s=60,
        max_output_bytes=30_000, spill_file=here / "spill", env=dict(os.environ)),
        lambda text: None)).total_bytes
call(100_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = call(256 * 1024 * 1024)
print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_flood_costs_no_memory(tmp_path: Path) -> None:
    """256 MiB of output grow the peak memory by less than 32 MiB, and the file stops at 64."""
    done = subprocess.run(
        [sys.executable, "-c", FLOOD, str(tmp_path)],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    total, grown_kib = map(int, done.stdout.split())
    assert total == 256 * 1024 * 1024
    assert grown_kib < 32 * 1024
    assert (tmp_path / "spill").stat().st_size == capture.FILE_CAP_BYTES
