"""What Bash really runs, against what the rules say it may: no command slips past them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runner.adapters.shell_syntax import shell_script
from runner.core.permissions import decide
from runner.core.spec import TaskSpec
from runner.core.subjects import ShellCall

EXAMPLES = int(os.environ.get("AUTOPILOT_ORACLE_EXAMPLES", "150"))
STUBS = ("npm", "curl", "git", "env", "sudo", "xargs", "timeout", "nohup", "nice", "find")

FRAGMENTS = [
    *("npm", "npm", "npm test", "npm", "curl", "curl x", "git", "git push", " ", " ", " ", " "),
    *(" ", "\t", "\n", "\\\n", " && ", " || ", ";", " | ", " |& ", " & ", "&", "|", "!", "! "),
    *("'", "'", '"', '"', "\\", "$'", '$"', "`", "$(", ")", "(", "{ ", "; }", "{a,b}", "$X"),
    *("${X}", "${X:-", "}", "${P@P}", "${!X}", "$((", "))", "[[ ", " ]]", "a[$(curl x)]", "<("),
    *(">(", " > /dev/null ", " 2>&1 ", "<<EOF\n", "<<'EOF'\n", "\nEOF\n", "<<< ", "<<-E\n"),
    *("\nE\n", "X=1 ", "NODE_ENV=t ", "PATH=. ", "X=(", "for i in a; do ", "; done", "if "),
    *("; then ", "; fi", "case x in x) ", ";; esac", "f() ", "f", "eval ", "command "),
    *("builtin ", "exec ", "time ", "timeout 3 ", "nohup ", "env ", "sudo ", "xargs "),
    *("bash -c ", ". ", "trap ", "coproc ", "declare ", "#", " # ", "*", "?", "~", "\r", "\\;"),
    *("-c", "--", "-x", "1", "test", "[ ", " ]", "printf "),
]

COMMANDS = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=12).map("".join) | st.lists(
    st.sampled_from(FRAGMENTS), min_size=1, max_size=8
).map(lambda parts: "npm " + "".join(parts))


@pytest.fixture(scope="module")
def stage() -> Iterator[Path]:
    """A folder with stubs that write their name and arguments down, and with no other program."""
    folder = Path(tempfile.mkdtemp())
    (folder / "bin").mkdir()
    for name in STUBS:
        stub = folder / "bin" / name
        stub.write_text(
            f'#!{shutil.which("bash")}\nprintf "%s\\0" {name} "$@" > "{folder}/calls/$$"\n'
        )
        stub.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def what_ran(stage: Path, command: str) -> set[tuple[str, ...]]:
    """The name and the arguments of every program that Bash started for it."""
    calls, work = stage / "calls", stage / "work"
    for folder in (calls, work):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run(
        (bash, "--norc", "--noprofile", "-c", command),
        cwd=work,
        env={"PATH": str(stage / "bin"), "P": "$(curl x)", "X": "curl x"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=10,
        check=False,
    )
    return {tuple(call.read_text().split("\0")[:-1]) for call in calls.iterdir()}


def allowed(command: str, **rules: tuple[str, ...]) -> bool:
    spec = TaskSpec(name="n", prompt="p", model="m", **rules)  # type: ignore[arg-type]  # parametrised
    return decide(spec, "Bash", "shell", ShellCall(script=shell_script(command))).allowed


def shown(command: str) -> Iterator[tuple[str, ...]]:
    """What the rules see, with and without whatever stands in front."""
    for part in shell_script(command).commands:
        argv = part.argv or ()
        yield from (argv[start:] for start in range(len(argv)))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(command=COMMANDS)
@example(command="npm # \\\n\\")
def test_nothing_runs_that_a_rule_does_not_cover(stage: Path, command: str) -> None:
    """An allowed command starts programs of the rules and their wrappers, and no other."""
    if allowed(command, allowed_tools=("Bash(npm *)",)):
        ran = what_ran(stage, command)
        assert {argv[0] for argv in ran} <= {"npm", "timeout", "nohup", "nice"}
        assert ran <= set(shown(command)), "it got other arguments than the rules saw"
        assert not list((stage / "work").iterdir()), "it wrote a file"


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(command=COMMANDS)
@example(command="npm #\\\n$X")
@example(command="coproc $X > /dev/null ")
def test_nothing_runs_that_a_rule_denies(stage: Path, command: str) -> None:
    """A command that is not denied never starts the program that rules deny."""
    if allowed(command, allowed_tools=("Bash",), disallowed_tools=("Bash(curl *)",)):
        assert "curl" not in {argv[0] for argv in what_ran(stage, command)}
