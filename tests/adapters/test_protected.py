"""What is protected, on real files: where it is found, why, and what a resumed session keeps."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.adapters.check_scripts import unprotected
from runner.adapters.protected import DEFAULTS, Protection, edited, merged
from runner.adapters.protected_scan import look_at
from runner.adapters.shell_syntax import shell_script
from runner.core.events import RunnerProtection
from runner.core.spec import HookGroup, HookSpec, TaskSpec, VerifySpec, WorkspaceSpec


def guard(workspace: Path, original: Path | None = None, **keys: Any) -> Protection:
    spec = TaskSpec(
        name="t",
        prompt="p",
        model="m",
        workspace=WorkspaceSpec(path=str(original or workspace)),
        **keys,
    )
    return Protection(spec, workspace, shell_script)


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def names(protection: RunnerProtection) -> list[str]:
    return sorted(protection.entries)


def test_only_what_matches_is_looked_for(tmp_path: Path) -> None:
    """Defaults at the root, a pattern without a slash anywhere, nothing of `.git` but its own."""
    write(
        tmp_path,
        ".git/config",
        ".git/hooks/pre-push",
        ".git/objects/conftest.py",
        "sub/.git/config",
        ".github/workflows/ci.yml",
        "conftest.py",
        "a/b/conftest.py",
        "a/other.py",
        "docs/Jenkinsfile",
    )
    found = guard(tmp_path, protected_paths=("conftest.py",)).start()
    assert names(found) == [
        ".git/config",
        ".git/hooks/pre-push",
        ".github/workflows/ci.yml",
        "a/b/conftest.py",
        "conftest.py",
    ]
    assert found.entries["conftest.py"].startswith("file 0644 ")


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        ("./check.sh --fast", ("check.sh",)),
        ("bash -eu ci/verify && true", ("ci/verify",)),
        ("cd ci && ./verify", ("ci/verify",)),
        ("python3.12 check.sh; node missing.js", ("check.sh",)),
        ("pytest tests/test_a.py", ()),
        ("cat check.sh", ()),
        ("../out.sh; /bin/true", ()),
        ("$RUN check.sh", ()),
        ("bash -o pipefail check.sh", ("check.sh",)),
        ("timeout -k 5 60 env CI=1 ./check.sh", ("check.sh",)),
        ("exec ./check.sh", ("check.sh",)),
        ('./check.sh "$SHA" *.py', ("check.sh",)),
        ('"$PWD"/check.sh', ("check.sh",)),
        ("for f in check.sh; do sh $f; done", ("check.sh",)),
        ("sh < check.sh", ("check.sh",)),
        ("timeout 60 bash -eu <check.sh", ("check.sh",)),
        ("cat check.sh | sh", ("check.sh",)),
        ("cat check.sh | bash -s -- tests/test_a.py", ("check.sh", "tests/test_a.py")),
        ("PATH=.:$PATH check.sh", ("check.sh",)),
        ("export PATH=ci:$PATH; verify", ("ci/verify",)),
        ("node -v && pytest tests/test_a.py | tail", ()),
        ("cat check.sh | grep x && python -m pytest tests/test_a.py", ()),
        ("bash -ec 'cd ci; ./verify'", ("ci/verify",)),
        ("uv run check.sh", ("check.sh",)),
        ("uv run pytest tests/test_a.py", ()),
        ("timeout 60 python -m pytest tests/test_a.py", ()),
        ("npx eslint ./tests/test_a.py", ()),
    ],
)
def test_scripts_that_checks_run(tmp_path: Path, command: str, scripts: tuple[str, ...]) -> None:
    """As a program or by an interpreter, and there at the start; an argument is none, but where a
    script comes by a pipe or a variable, any file that is named may be it."""
    workspace = tmp_path / "w"
    write(workspace, "check.sh", "ci/verify", "tests/test_a.py")
    (workspace / "check.sh").chmod(0o755)
    write(tmp_path, "out.sh")
    assert guard(workspace, verify=(VerifySpec(run=command),)).start().scripts == scripts


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("bash -o pipefail check.sh", None),
        ('timeout 5 "$CLAUDE_PROJECT_DIR"/check.sh "$X"', None),
        ("bash", ("-o", "pipefail", "check.sh")),
    ],
)
def test_scripts_that_hooks_run(tmp_path: Path, command: str, args: tuple[str, ...] | None) -> None:
    """As those of checks; a hook may be a list of words, too."""
    write(tmp_path, "check.sh")
    (tmp_path / "check.sh").chmod(0o755)
    hook = HookSpec(command=command, args=args)
    protection = guard(tmp_path, hooks={"PreToolUse": (HookGroup(hooks=(hook,)),)})
    assert protection.start().scripts == ("check.sh",)


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("make test", False),
        ('"$PWD"/check.sh "$SHA" *.py', False),
        ("python -c 'print(1)' $X", False),
        ("$RUN tests", True),
        ("./check-*.sh", True),
        ("for f in *.sh; do sh $f; done", True),
        ("timeout 60 bash $f", True),
        ("PATH=.:$PATH check.sh", False),
        ("coproc ./check.sh", True),
    ],
)
def test_a_check_that_only_the_shell_knows_is_told(command: str, is_told: bool) -> None:
    """Nothing of it can be protected unless the spec names it."""
    spec = TaskSpec(name="n", prompt="p", model="m", verify=(VerifySpec(run=command),))
    assert unprotected(replace(spec, protected_paths=("ci/",)), shell_script) == ()
    told = unprotected(replace(spec, protected_paths=("!Makefile",)), shell_script)
    assert [f"`{command}`" in line and "protected_paths" in line for line in told] == (
        [True] if is_told else []
    )


def test_each_reason_has_its_words(tmp_path: Path) -> None:
    """The last line that matches says why; `!` lifts; what is not there is protected too."""
    write(tmp_path, "task.yaml", "check.sh", "tests/a.py")
    protection = guard(
        tmp_path,
        verify=(VerifySpec(run="./check.sh"),),
        protected_paths=("tests/", "!tests/data/", "!/Jenkinsfile"),
        sources=(str(tmp_path / "task.yaml"),),
    )
    whys = {
        ".git/hooks/new": "by default: it steers git or the pipeline",
        "check.sh": "a check of `verify`, a hook or a tool of the task runs it",
        "task.yaml": "the task is written in it",
        "tests/new.py": "by `protected_paths` of the task",
        "tests/data/x": None,
        "Jenkinsfile": None,
        "README.md": None,
        "": None,
    }
    assert {name: protection.why(tmp_path / name) for name in whys} == whys
    assert protection.why(Path("/etc/passwd")) is None


def test_the_task_outside_the_workspace_is_protected_by_its_path(tmp_path: Path) -> None:
    """And with a copy, the one in the original as well as the one in the copy."""
    write(tmp_path, "task.yaml", "w/prompt.md", "copy/prompt.md")
    sources = (str(tmp_path / "task.yaml"), str(tmp_path / "w/prompt.md"))
    found = guard(tmp_path / "copy", tmp_path / "w", sources=sources).start()
    assert names(found) == [*sorted(sources), "prompt.md"]
    assert set(found.sources) == {*sources, "prompt.md"}


def test_git_is_protected_where_it_really_is(tmp_path: Path) -> None:
    """A workspace below the checkout, and a linked worktree with its common configuration."""
    repository = tmp_path / "r"
    write(repository, "sub/a.txt")
    for arguments in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "x"),
        ("worktree", "add", "-q", str(tmp_path / "wt")),
    ):
        subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True)
    assert f"{repository}/.git/config" in names(guard(repository / "sub").start())
    linked = guard(tmp_path / "wt")
    found = names(linked.start())
    assert f"{tmp_path}/wt/.git" in found
    assert f"{repository}/.git/config" in found
    assert linked.why(repository / ".git" / "hooks" / "x") is not None
    assert linked.why(tmp_path / "wt" / ".git") == "by default: it steers git or the pipeline"
    lifted = guard(tmp_path / "wt", protected_paths=("!.git/config",))
    assert f"{repository}/.git/config" not in names(lifted.start())


def test_what_is_there_and_what_is_missing_can_be_closed(tmp_path: Path) -> None:
    """For a sandbox: files to bind read-only, exact names to keep from appearing."""
    write(tmp_path, ".git/config", "task.yaml")
    protection = guard(tmp_path, sources=(str(tmp_path / "task.yaml"),))
    assert protection.existing() == (tmp_path / ".git/config", tmp_path / "task.yaml")
    missing = protection.missing()
    assert {tmp_path / ".git/hooks", tmp_path / "Jenkinsfile"} <= set(missing)
    assert len(missing) == len(DEFAULTS) - 1


def test_nothing_is_opened_that_is_no_file(tmp_path: Path) -> None:
    """A FIFO, a dangling and a looping link, a folder behind a link: described, not waited for."""
    write(tmp_path, "real", "folder/a")
    (tmp_path / "folder" / "l").symlink_to("a")
    os.mkfifo(tmp_path / "fifo")
    for name, target in (("to", "real"), ("gone", "no"), ("loop", "loop"), ("dir", "folder")):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "special").symlink_to("fifo")
    kinds = {}
    for name in ("real", "fifo", "to", "gone", "loop", "dir", "special", "folder"):
        seen = look_at(tmp_path / name)
        assert seen is not None
        kinds[name] = " ".join(seen.there.split()[:3])
    digest = kinds["real"].split()[2]
    assert kinds == {
        "real": f"file 0644 {digest}",
        "fifo": f"special {(tmp_path / 'fifo').stat().st_mode & 0o777:o}",
        "to": "link real file",
        "gone": "link no to",
        "loop": "link loop to",
        "dir": "link folder folder",
        "special": "link fifo special",
        "folder": "folder 755",
    }
    assert look_at(tmp_path / "missing") is None
    assert look_at(tmp_path / "real" / "below") is None


def test_a_look_names_what_was_there_and_is_something_else_now(tmp_path: Path) -> None:
    """A file that became a folder; a folder above that became a link; marks of each write."""
    write(tmp_path, "check.sh", ".github/workflows/ci.yml")
    protection = guard(tmp_path, verify=(VerifySpec(run="./check.sh"),))
    start = protection.start()
    (tmp_path / "check.sh").unlink()
    (tmp_path / "check.sh").mkdir()
    (tmp_path / ".github").rename(tmp_path / "kept")
    (tmp_path / ".github").symlink_to("kept")
    seen = asyncio.run(protection.look(tuple(start.entries)))
    assert seen.there["check.sh"].startswith("folder")
    assert seen.there[".github"].startswith("link kept folder")
    assert seen.there.keys() == {name for name in seen.writes if not name.endswith("/")}


def test_a_renamed_folder_is_marked_though_it_is_back(tmp_path: Path) -> None:
    """Of the folders above what is protected, and above what a protected link leads to."""
    write(tmp_path, "w/a/b/pinned.py", "outside/real.py")
    workspace = tmp_path / "w"
    (workspace / "linked.py").symlink_to("../outside/real.py")
    protection = guard(workspace, protected_paths=("pinned.py", "linked.py"))
    known = tuple(protection.start().entries)
    before = asyncio.run(protection.look(known))
    assert asyncio.run(protection.look(known)) == before
    for folder in (workspace / "a", tmp_path / "outside"):
        folder.rename(tmp_path / "kept")
        (tmp_path / "kept").rename(folder)
    after = asyncio.run(protection.look(known))
    assert after.there == before.there
    changed = {name for name, mark in after.writes.items() if mark != before.writes[name]}
    assert changed == {"a/", f"{tmp_path}/outside/"}


def test_what_a_link_leads_to_is_marked_with_it(tmp_path: Path) -> None:
    """A write behind a link, to a file or in a folder, is a write to what is protected."""
    write(tmp_path, "real.py", "folder/deep/x.py")
    (tmp_path / "one.py").symlink_to("real.py")
    (tmp_path / "all.py").symlink_to("folder")
    protection = guard(tmp_path, protected_paths=("one.py", "all.py"))
    marks = [asyncio.run(protection.look(())).writes]
    for name in ("real.py", "folder/deep/x.py"):
        write(tmp_path, name)
        marks.append(asyncio.run(protection.look(())).writes)
    first, second, third = marks
    assert first["one.py"] != second["one.py"] == third["one.py"]
    assert first["all.py"] == second["all.py"] != third["all.py"]


def test_a_resumed_session_keeps_to_what_was_first(tmp_path: Path) -> None:
    """What the first patterns covered stays as it was; what only the new ones cover is new."""
    before = RunnerProtection(
        entries={"a": "file 1", "task.yaml": "file 1", "lifted": "file 1", "/r/.git/config": "1"},
        patterns=("/a", "/b", "/task.yaml", "/lifted"),
        roots=("/r/",),
        scripts=("a",),
        sources=("task.yaml",),
    )
    now = RunnerProtection(
        entries={
            "a": "file 2",
            "b": "file 2",
            "c": "file 2",
            "task.yaml": "file 2",
            "/r/.git/config": "2",
            "/r/.git/hooks/x": "2",
            "/other/.git/config": "2",
        },
        patterns=("/a", "/b", "/c", "/task.yaml", "/lifted", "!/lifted"),
        roots=("/r/", "/other/"),
        scripts=("c",),
        sources=("task.yaml",),
    )
    held = merged(before, now)
    assert held.entries == {
        "a": "file 1",
        "c": "file 2",
        "task.yaml": "file 2",
        "/r/.git/config": "1",
        "/other/.git/config": "2",
    }
    assert held.scripts == ("a", "c")
    assert merged(None, now) == now
    assert edited(before, now) == ("task.yaml",)
    assert edited(before, before) == ()
