"""The command as a process: what it imports, and standard streams in every state."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runner.cli import main
from tests.sample_run import SESSION_ID, reply, start, tidy_run, write_session

SLOW = ("litellm", "mcp", "jinja2", "jsonschema", "pydantic", "structlog", "asyncio")
PROBE = """
import sys
from runner.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
sys.stderr.write(" ".join(name for name in {slow} if name in sys.modules))
"""


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `autopilot` with these arguments to its end."""
    command = [sys.executable, "-m", "runner", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, **options
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one session."""
    write_session(tmp_path, tidy_run())
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["exit-codes"],
        ["sessions"],
        ["show", "5d0c"],
        ["report", "5d0c"],
        ["report", "5d0c", "--format", "junit"],
        ["report", "5d0c", "--format", "json"],
    ],
    ids=" ".join,
)
def test_a_command_that_only_looks_imports_nothing_slow(home: Path, arguments: list[str]) -> None:
    """Neither the model library nor any other that takes its time is loaded."""
    code = PROBE.format(slow=SLOW)
    probed = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "AUTOPILOT_HOME": str(home)},
    )
    assert probed.stdout != ""
    assert probed.stderr == ""


def test_validate_does_not_import_litellm() -> None:
    """A spec is checked without the library that would run it."""
    code = PROBE.format(slow=("litellm",))
    spec = "name: x\nprompt: y\nmodel: anthropic/claude-sonnet-4-5\n"
    probed = subprocess.run(
        [sys.executable, "-c", code, "validate", "-"],
        input=spec,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (probed.stdout, probed.stderr) == ("-: ok\n", "")


def test_a_reader_that_leaves_early_changes_nothing(tmp_path: Path) -> None:
    """`autopilot show | head -1` exits 0 and leaves no traceback."""
    turns = [event for n in range(2000) for event in reply(n, "word " * 40)]
    write_session(tmp_path, [*start(), *turns], finished=False)
    command = [sys.executable, "-m", "runner", "show", "5d", "--home", str(tmp_path)]
    shown = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert shown.stdout is not None
    assert shown.stderr is not None
    assert shown.stdout.readline() == b"tidy: not finished\n"
    shown.stdout.close()
    errors = shown.stderr.read()
    shown.stderr.close()
    assert (shown.wait(60), errors) == (0, b"")


@pytest.mark.parametrize("arguments", [["--help"], ["exit-codes"], ["show", SESSION_ID]])
def test_a_closed_stdout_changes_nothing(home: Path, arguments: list[str]) -> None:
    """The exit code is 0 and stderr empty when descriptor 1 is not even open."""
    shell = (
        f'exec "$0" -m runner "$@" --home {home} >&-'
        if "show" in arguments
        else ('exec "$0" -m runner "$@" >&-')
    )
    closed = subprocess.run(
        ["sh", "-c", shell, sys.executable, *arguments],
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_a_reader_that_stalls_does_not_hold_the_run_up(tmp_path: Path) -> None:
    """The run ends while nobody reads its output, and the output is whole once somebody does."""
    replies = [
        {"text": "x" * 200_000, "tools": [{"name": "Glob", "arguments": {"pattern": "*"}}]},
        {"tools": [{"name": "task_complete", "arguments": {"summary": "Done."}}]},
    ]
    (tmp_path / "replies.yaml").write_text(json.dumps({"replies": replies}))
    spec = {"name": "x", "prompt": "y", "model": "scripted:replies.yaml"}
    (tmp_path / "task.yaml").write_text(json.dumps(spec))
    home = tmp_path / "home"
    command = [sys.executable, "-m", "runner", "run", str(tmp_path / "task.yaml")]
    options = ["--home", str(home), "--session-id", "s1", "--output-format", "events", "--quiet"]
    running = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert running.stdout is not None
    result = home / "session-state" / "s1" / "result.json"
    deadline = time.monotonic() + 30
    while not result.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert running.poll() is None  # it waits for its reader, not to lose anything
    lines = running.stdout.read().splitlines()
    running.stdout.close()
    assert running.wait(30) == 0
    log = (home / "session-state" / "s1" / "events.jsonl").read_bytes().splitlines()
    assert len([line for line in lines if b'"ephemeral":true' not in line]) == len(log)
    assert json.loads(lines[-1])["type"] == "session.idle"


def test_output_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    """Text that the locale cannot say is written all the same."""
    write_session(tmp_path, [*start(), *reply(0, "Grüße ✓")], finished=False)
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shown = subprocess.run(
        [sys.executable, "-m", "runner", "show", "5d", "--home", str(tmp_path)],
        capture_output=True,
        timeout=60,
        check=True,
        env=env,
    )
    assert "    Grüße ✓\n".encode() in shown.stdout


def test_a_full_stdout_is_an_error_that_is_told(home: Path) -> None:
    """Code 1 and the reason, when what was asked for could not be written."""
    with Path("/dev/full").open("w") as full:
        shown = subprocess.run(
            [sys.executable, "-m", "runner", "show", "5d", "--home", str(home)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (shown.returncode, shown.stderr) == (
        1,
        "Error: stdout could not be written: No space left on device\n",
    )


def test_ctrl_c_before_a_run_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGINT while the spec is still being read from stdin ends with 130 and no traceback."""

    class Interrupted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            signal.raise_signal(signal.SIGINT)
            return super().read(size)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Interrupted()))
    with pytest.raises(SystemExit) as ended:
        main(["validate", "-"])
    assert ended.value.code == 130


@pytest.mark.parametrize(("no_colour", "painted"), [("", True), ("1", False)])
def test_a_run_is_shown_in_colour_on_a_terminal_alone(
    home: Path, no_colour: str, painted: bool
) -> None:
    """Ours is the colour, and the only control characters are those of the colour."""
    evil = tidy_run(prompt="\x1b[2J\x1b]0;x\x07")
    write_session(home / "evil", evil)
    leader, follower = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "runner", "show", "5d0c", "--home", str(home / "evil")],
        stdout=follower,
        env={**os.environ, "NO_COLOR": no_colour, "CI": ""},
    ):
        os.close(follower)
        shown = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(leader, 65536):
                shown += piece
    os.close(leader)
    text = shown.decode()
    assert r"\x1b[2J\x1b]0;x\x07" in text
    assert ("\x1b[32mtidy: success, exit code 0\x1b[0m" in text) == painted
    assert set(re.findall(r"\x1b.{2,4}?m", text)) <= {f"\x1b[{n}m" for n in (0, 1, 2, 31, 32, 33)}
    assert text.count("\x1b") == (2 * text.count("\x1b[0m") if painted else 0)
