"""Isolation: a git worktree, and instruction files from where the tools work."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.desk import Desk
from tests.servers import D, X

IN_WORKTREE = {"workspace": {"path": "work", "isolation": "worktree"}}


def git(folder: Path, *arguments: str) -> str:
    """What git says in this folder."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def bash(command: str) -> tuple[str, dict[str, str]]:
    """A call of Bash."""
    return "Bash", {"command": command}


def committed(desk: Desk) -> Desk:
    """A repository with one commit."""
    desk.write("a.txt", "one\n")
    desk.write("sub/b.txt", "two\n")
    git(desk.workspace, "init", "-q")
    git(desk.workspace, "add", ".")
    git(desk.workspace, "commit", "-qm", "first")
    return desk


def session(desk: Desk) -> Path:
    """The folder of the only session."""
    (folder,) = (desk.home / "session-state").iterdir()
    return folder


def test_tools_work_in_a_worktree_and_the_original_stays(desk: Desk) -> None:
    """The patch has what was changed; a person's files, index and branches are as they were."""
    committed(desk)
    before = git(desk.workspace, "status", "--porcelain", "--branch")
    work = bash("git status --porcelain; echo more >> a.txt; touch new.txt; git log --oneline")
    played = desk.play([X(work), D("done")], **IN_WORKTREE)
    assert played.exit_code == 0
    said = played.of("tool.execution_complete")[0]["result"]["content"]
    assert said.splitlines()[0].endswith("first"), "the worktree is clean, at the commit"
    assert git(desk.workspace, "status", "--porcelain", "--branch") == before
    assert (desk.read("a.txt"), desk.read("new.txt")) == ("one\n", None)
    patch = (session(desk) / "patch.diff").read_text()
    assert "+more" in patch
    git(desk.workspace, "apply", "--check", str(session(desk) / "patch.diff"))
    changed = [one["path"] for one in played.result["workspace_diff"]["files"]]
    assert changed == ["a.txt", "new.txt"]


def test_what_is_not_committed_is_told_and_not_taken_along(desk: Desk) -> None:
    """A warning names it; the worktree is the last commit."""
    committed(desk)
    desk.write("a.txt", "changed\n")
    desk.write("untracked.txt", "")
    played = desk.play([X(bash("cat a.txt; ls")), D("done")], **IN_WORKTREE)
    (told,) = [w for w in played.of("session.warning") if w["warningType"] == "uncommitted"]
    assert "a.txt, untracked.txt. Commit them, or use isolation copy" in told["message"]
    assert played.of("tool.execution_complete")[0]["result"]["content"].split() == [
        "one",
        "README.md",
        "a.txt",
        "sub",
    ]


def test_a_folder_of_the_checkout_is_the_workspace_in_the_worktree(desk: Desk) -> None:
    """Tools work in the same folder of the worktree."""
    committed(desk)
    keys = {"workspace": {"path": "work/sub", "isolation": "worktree"}}
    played = desk.play([X(bash("cat b.txt; touch c.txt")), D("done")], **keys)
    assert played.exit_code == 0
    assert (session(desk) / "workspace" / "sub" / "c.txt").exists()


def test_hooks_and_filters_of_the_repository_do_not_run(desk: Desk) -> None:
    """Neither when it is made nor when changes are looked for."""
    desk.write(".gitattributes", "* filter=spy\n")
    committed(desk)
    spy = desk.folder / "spy.sh"
    spy.write_text(f"#!/bin/sh\ntouch {desk.folder}/canary\ncat\n")
    spy.chmod(0o755)
    for name in ("filter.spy.smudge", "filter.spy.clean", "core.fsmonitor"):
        git(desk.workspace, "config", name, str(spy))
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = desk.write(f".git/hooks/{name}", spy.read_text())
        hook.chmod(0o755)
    (desk.folder / "canary").unlink(missing_ok=True)
    played = desk.play(
        [X(("Write", {"file_path": "n.txt", "content": "n"})), D("x")], **IN_WORKTREE
    )
    assert (played.exit_code, (desk.folder / "canary").exists()) == (0, False)


def test_the_repository_of_a_worktree_is_protected(desk: Desk) -> None:
    """Its configuration is the original's: changing it there is found."""
    command = 'git config --file "$(git rev-parse --git-common-dir)/config" a.b c'
    played = committed(desk).play([X(bash(command)), D("done")], **IN_WORKTREE)
    assert (played.exit_code, played.result["error_type"]) == (11, "protected_path_changed")


def test_a_worktree_is_removed_with_its_session(desk: Desk) -> None:
    """It stays for a resume; `sessions rm` takes it out of the repository's list."""
    committed(desk).play([D("done")], **IN_WORKTREE)
    assert len(git(desk.workspace, "worktree", "list").splitlines()) == 2
    assert desk.call("sessions", "rm", session(desk).name).returncode == 0
    assert len(git(desk.workspace, "worktree", "list").splitlines()) == 1


def test_a_resumed_session_goes_on_in_its_worktree(desk: Desk) -> None:
    """What the first part did is there."""
    committed(desk)
    look = X(("Read", {"file_path": "a.txt"}))
    script = [X(bash("touch kept.txt")), look, X(bash("ls kept.txt")), D("done")]
    assert desk.play(script, max_turns=1, **IN_WORKTREE).exit_code == 3
    spec = str(desk.spec(**IN_WORKTREE))
    done = desk.call("run", spec, "--resume", session(desk).name)
    assert done.returncode == 0, done.stderr
    assert (
        "+++ b/kept.txt" in (session(desk) / "patch.diff").read_text()
        or (session(desk) / "workspace" / "kept.txt").exists()
    )


def test_without_a_repository_or_a_commit_there_is_no_worktree(desk: Desk) -> None:
    """Told before anything is paid, with the way out."""
    played = desk.play([D("done")], **IN_WORKTREE)
    assert (played.exit_code, played.result["error_type"]) == (78, "preflight")
    assert (
        "is in no git repository, which isolation worktree needs; use copy"
        in (played.result["errors"][0])
    )


def test_without_a_commit_there_is_no_worktree(desk: Desk) -> None:
    """A fresh repository."""
    git(desk.workspace, "init", "-q")
    played = desk.play([D("done")], **IN_WORKTREE)
    assert played.exit_code == 78
    assert "has no commit yet" in played.result["errors"][0]


def test_instructions_of_a_copy_are_read_from_the_copy(desk: Desk) -> None:
    """With their imports, and those of the folders above it from where they are."""
    desk.write("sub/CLAUDE.md", "Sub rules, see @more.md\n")
    desk.write("sub/more.md", "More rules\n")
    desk.write("AGENTS.md", "Top rules\n")
    (desk.workspace / ".git").mkdir()
    keys = {"workspace": {"path": "work/sub", "isolation": "copy"}}
    played = desk.play([D("done")], **keys)
    (told,) = [m["content"] for m in played.of("system.message") if m.get("role") == "developer"]
    copy = session(desk) / "workspace"
    places = (copy / "CLAUDE.md", copy / "more.md", desk.workspace / "AGENTS.md")
    assert all(f"Contents of {place}:" in told for place in places)
    assert str(desk.workspace / "sub") not in told
