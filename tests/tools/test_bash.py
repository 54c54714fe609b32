"""Bash: a fresh shell per call whose directory carries over and of which nothing is left."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.tools.bench import ENV, Bench


def test_output_and_errors_come_together(bench: Bench) -> None:
    """Stdout and stderr are in the answer in the order they were written."""
    output = bench.call("Bash", command="echo one; echo two >&2; echo three")
    assert (output.content, output.is_error) == ("one\ntwo\nthree", False)


def test_silence_is_told(bench: Bench) -> None:
    """The answer says so when a command prints nothing."""
    assert bench.text("Bash", command="true") == "(no output)"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo bad; exit 3", "bad\n[exit code 3]"),
        ("false", "(no output)\n[exit code 1]"),
        ("set -e; false; echo never", "(no output)\n[exit code 1]"),
        ("kill -9 $$", "(no output)\n[exit code 137]"),
        ("exec sh -c 'exit 5'", "(no output)\n[exit code 5]"),
    ],
)
def test_a_failed_command_is_an_error_with_its_code(bench: Bench, command: str, text: str) -> None:
    """The output and the exit code are in an error result when the command fails."""
    output = bench.call("Bash", command=command)
    assert (output.content, output.is_error) == (text, True)


def test_stdin_is_empty(bench: Bench) -> None:
    """A command that reads ends at once."""
    assert bench.text("Bash", command="cat; read x || echo eof") == "eof"


def test_only_the_given_environment_is_seen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of the runner is not there, and no start-up file is read."""
    monkeypatch.setenv("SECRET_CANARY", "s3cret")
    names = bench.text("Bash", command="compgen -e | sort").split("\n")
    shell_made = {"OLDPWD", "PWD", "SHLVL", "_"}
    assert set(names) - shell_made == set(ENV)


def test_the_command_sees_three_descriptors_and_no_arguments(bench: Bench) -> None:
    """A program has descriptors 0, 1 and 2 only, and `$#` is 0."""
    command = "python3 -c 'import os; print(sorted(os.listdir(\"/proc/self/fd\")))'; echo $#"
    # The fourth one is the listing itself.
    assert bench.text("Bash", command=command) == "['0', '1', '2', '3']\n0"


def test_the_directory_carries_over(bench: Bench) -> None:
    """The next call begins where the last one ended, also after `exit` or an own trap."""
    (bench.workspace / "a b" / "c\nd").mkdir(parents=True)
    for command in ("cd 'a b'; exit 1", "trap 'true' EXIT; cd $'c\\nd'", "VAR=1; f() { :; }"):
        bench.call("Bash", command=command)
    assert bench.text("Bash", command='printf "%q" "$PWD"; echo "[$VAR]"') == (
        rf"$'{bench.workspace}/a b/c\nd'[]"
    )
    bench.text("Bash", command="cd ../..")
    assert bench.text("Bash", command="pwd") == str(bench.workspace)


def test_outside_the_roots_it_does_not_carry_over(bench: Bench, outside: Path) -> None:
    """The next call is in the workspace, and the answer says so, when a command left it."""
    (bench.workspace / "link").symlink_to(outside)
    for target in ("/", "link"):
        text = bench.text("Bash", command=f"cd {target}; pwd")
        assert text.endswith("is outside; the next call is in the workspace again]")
        assert bench.text("Bash", command="pwd") == str(bench.workspace)


def test_a_directory_that_is_gone_is_left(bench: Bench) -> None:
    """The call runs in the workspace and says so when its directory was removed."""
    bench.text("Bash", command="mkdir d; cd d")
    (bench.workspace / "d").rmdir()
    assert bench.text("Bash", command="pwd") == (
        f"{bench.workspace}\n[the working directory was gone; this ran in the workspace]"
    )


def test_a_command_cannot_close_or_reach_the_report_of_the_directory(bench: Bench) -> None:
    """The directory is still known when a command meddles with descriptors of the shell."""
    (bench.workspace / "d").mkdir()
    bench.call("Bash", command="exec 3>&-; exec 3>/dev/null; echo x >&3; cd d")
    assert bench.text("Bash", command="pwd") == str(bench.workspace / "d")


def test_a_timeout_keeps_the_output_so_far(bench: Bench) -> None:
    """The partial output and the limit are in an error result when the time is up."""
    began = time.monotonic()
    output = bench.call("Bash", command="echo part; sleep 60", timeout=300)
    assert time.monotonic() - began < 3
    assert output.content == "part\n[timed out after 0.3 s and was killed]"
    assert output.is_error


def test_the_limit_of_the_run_is_the_upper_one(bench: Bench) -> None:
    """A call cannot have more time than the run gives to one call."""
    bench.timeout_s = 0.2
    output = bench.call("Bash", command="sleep 60", timeout=3_600_000)
    assert output.content == "(no output)\n[timed out after 0.2 s and was killed]"


def test_the_background_is_killed_and_told(bench: Bench) -> None:
    """A process left in the background is dead when the call returns, and the answer says so."""
    began = time.monotonic()
    text = bench.text("Bash", command="sleep 60 & echo $!")
    assert time.monotonic() - began < 3
    pid, note = text.split("\n")
    assert note == "[still running in the background and killed, since nothing outlives a call: 1]"
    assert not Path(f"/proc/{pid}").exists()


def test_what_ends_by_itself_is_not_told(bench: Bench) -> None:
    """There is no note, and the output is whole, when a process ends right after the shell."""
    command = "(sleep 0.02; echo late; echo end > done) &"
    assert bench.text("Bash", command=command) == "late"
    assert (bench.workspace / "done").read_text() == "end\n"


def test_long_output_keeps_head_and_tail(bench: Bench) -> None:
    """Head, tail and the name of the file with all of it are in the answer."""
    bench.max_output_bytes = 2000
    output = bench.call("Bash", command="seq 100000; exit 7")
    assert output.output_file is not None
    assert Path(output.output_file).read_text() == "".join(f"{n}\n" for n in range(1, 100_001))
    assert len(output.content.encode()) <= 2000
    assert output.content.startswith("1\n2\n3\n")
    assert output.content.endswith("\n99999\n100000\n[exit code 7]")
    assert f"all of it is in {output.output_file}" in output.content


@pytest.mark.parametrize("size", [0, 10, 100, 700])
def test_no_limit_is_too_small(bench: Bench, size: int) -> None:
    """The answer keeps to the limit even when hardly anything fits."""
    bench.max_output_bytes = size
    output = bench.call("Bash", command="head -c 5000 /dev/zero; exit 1")
    assert len(output.content.encode()) <= size


def test_bytes_that_are_no_text_are_replaced(bench: Bench) -> None:
    """Invalid UTF-8 and NUL come as replacement characters."""
    assert bench.text("Bash", command=r"printf 'a\xff\0\xc3'") == "a\ufffd\ufffd\ufffd"


def test_output_is_shown_while_it_comes(bench: Bench) -> None:
    """Progress has the output piece by piece, and all of it in the end."""
    bench.text("Bash", command="for i in 1 2 3; do echo $i; sleep 0.15; done")
    assert "".join(bench.progress) == "1\n2\n3\n"
    assert len(bench.progress) >= 2


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("a\0b", "the command holds a NUL character"),
        ("echo \ud800", "the command holds half of a surrogate pair, no text"),
        (
            "x" * 200_000,
            "bash could not be started: Argument list too long. "
            "If the command is very long, Write it to a file and run that",
        ),
    ],
)
def test_a_command_that_is_none_fails_politely(bench: Bench, command: str, why: str) -> None:
    """NUL, half a character, or a command longer than the system takes is a failure."""
    assert str(bench.failure("Bash", command=command)) == why


def test_a_cancelled_call_leaves_nothing(bench: Bench) -> None:
    """The whole tree is dead when the call is cancelled."""

    async def cancelled() -> None:
        async with asyncio.timeout(0.5):
            await bench.start(
                "Bash", command="setsid sleep 61 & echo $! > p1; sleep 62 & echo $! > p2; wait"
            )

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
    for name in ("p1", "p2"):
        pid = int((bench.workspace / name).read_text())
        assert not Path(f"/proc/{pid}").exists()
