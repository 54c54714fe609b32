"""What a command would do to paths, by the disk as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.adapters.shell_syntax import shell_script
from runner.core.subjects import ShellCall
from runner.tools.command_paths import MAX_ENTRIES, Judgement
from runner.tools.paths import Roots
from tests.tools.bench import Bench


def call(workspace: Path, command: str, search_path: str = "/usr/bin:/bin") -> ShellCall:
    """What rules see of the command."""
    kept = workspace / "kept"
    protected = lambda path: "a test" if path.is_relative_to(kept) else None  # noqa: E731
    return Judgement(
        script=shell_script(command),
        roots=Roots(workspace=workspace, protected=protected),
        cwd=workspace,
        home="/home/u",
        search_path=search_path,
        parse=shell_script,
    ).call()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """With a folder, one that is protected, and links out of it."""
    made = tmp_path.resolve() / "work"
    for name in ("src", "kept", "deep/a/.git"):
        (made / name).mkdir(parents=True)
    (made / "out").symlink_to("..")
    return made


@pytest.mark.parametrize(
    "command",
    [
        "npm test",
        "npm test > log 2>&1",
        "npm test >> src/log",
        "npm test &> /dev/null",
        "npm test > /dev/stderr",
        "npm test < /etc/hosts",
        "npm test <<< text",
        "npm test >&2",
        "npm test 3>&-",
        "cd src && npm test > log",
        "for i in a b; do npm $i > log; done",
    ],
)
def test_a_redirection_may_write_where_a_tool_may(workspace: Path, command: str) -> None:
    """Inside, to nowhere, or to another descriptor; what is read is another matter."""
    assert call(workspace, command).writes is None


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("npm test > ../log", "`../log`, which may not"),
        ("npm test > /etc/cron.d/x", "`/etc/cron.d/x`, which may not"),
        ("npm test >> out/log", "`out/log`, which may not"),
        ("npm test &> out/log", "`out/log`, which may not"),
        ("npm test >| out/log", "`out/log`, which may not"),
        ("npm test >& out/log", "`out/log`, which may not"),
        ("npm test <> out/log", "`out/log`, which may not"),
        ("npm test 3> kept/x", "`kept/x`, which may not"),
        ("npm test > .git/hooks/pre-commit", "`.git/hooks/pre-commit`, which steers"),
        ("npm test > $LOG", "`…`, whose name"),
        ("npm test > ~/log", "`…`, whose name"),
        ("echo x > /dev/tcp/127.0.0.1/80", "`/dev/tcp/127.0.0.1/80`, which may not"),
        ("cd / && npm test > log", "`log`, which may not"),
        ("cd && npm test > log", "`log`, which may not"),
        ("cd $X; npm test > log", "`log`, which may not"),
        ("cd src; cd ..; npm test > log", "`log`, which may not"),
        ("if true; then (npm test > ../log); fi", "`../log`, which may not"),
        ("npm test | { cat > ../log; }", "`../log`, which may not"),
        ("echo $(npm test > ../log)", "`../log`, which may not"),
        ("f() { npm test; } > ../log", "`../log`, which may not"),
    ],
)
def test_a_redirection_elsewhere_is_found_wherever_it_stands(
    workspace: Path, command: str, word: str
) -> None:
    """What writes outside, what is protected, what steers other programs, what is not known."""
    assert f"it writes to {word}" in str(call(workspace, command).writes)


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("rm -r deep", "deep"),
        ("mv deep other", "deep"),
        ("cp -r deep other", "deep"),
        ("rm -rf .", "."),
        ("mkdir -p x/.git/..", "x/.git/.."),
        ("sed -i.json p .mcp", ".mcp.json"),
    ],
)
def test_what_no_mode_gives_away_is_not_given_away_with_its_folder(
    workspace: Path, command: str, word: str
) -> None:
    """Nor under a name that the command only makes."""
    found = call(workspace, command)
    assert word not in found.edits
    assert "src" in call(workspace, f"{command}; rm -r src").edits


def test_a_folder_too_large_to_be_looked_at_may_hold_anything(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a rule to remove it."""
    monkeypatch.setattr("runner.tools.command_paths.MAX_ENTRIES", 3)
    assert MAX_ENTRIES > 3
    (workspace / "src" / "a").touch()
    assert "src" in call(workspace, "rm -r src").edits
    for name in "bcd":
        (workspace / "src" / name).touch()
    assert "src" not in call(workspace, "rm -r src").edits


@pytest.mark.parametrize(
    ("entry", "command", "is_free"),
    [
        ("bin", "ls src", True),
        ("bin", "cat src", False),
        ("bin", "echo src", True),
        ("bin", "cp src/x bin/ls && ls src", False),
        ("bin", "mv src/tools bin && ls src", False),
        ("bin", "touch src/y && ls src", True),
        ("src", "cat src", True),
    ],
)
def test_a_program_that_the_work_brings_is_not_taken_for_the_usual_one(
    workspace: Path, entry: str, command: str, is_free: bool
) -> None:
    """Nor one that another part of the command may put there."""
    (workspace / "bin").mkdir()
    (workspace / "bin" / "cat").touch()
    (workspace / "bin" / "echo").touch()
    for search_path in (f"{workspace}/{entry}:/usr/bin:/bin", f"{entry}:/usr/bin:/bin"):
        assert ("src" in call(workspace, command, search_path).free) == is_free
    assert (
        "src" in call(workspace, command, f"/usr/bin:/bin:{workspace}/{entry}").free
        or "&&" in command
    )


def test_reading_runs_no_program_of_the_workspace(workspace: Path) -> None:
    """Whatever the search path says, ripgrep and bash are those of the machine."""
    for name in ("rg", "bash"):
        file = workspace / "src" / name
        file.write_text(f'#!/bin/sh\necho {name} >> {workspace}/ran\nexec /usr/bin/{name} "$@"\n')
        file.chmod(0o755)
    env = {"PATH": f"src:{workspace}/src:{os.environ['PATH']}"}
    spill_dir = workspace.parent / "spill"
    spill_dir.mkdir()
    bench = Bench(workspace=workspace, spill_dir=spill_dir, env=env)
    assert bench.text("Grep", pattern="exec").split() == ["src/bash", "src/rg"]
    assert bench.text("Bash", command="pwd") == str(workspace)
    assert not (workspace / "ran").exists()
