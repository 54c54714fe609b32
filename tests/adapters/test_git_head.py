"""The commit of a checkout is the one git names, and nothing of the repository is run for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runner.adapters.git_head import head_commit

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


def git(folder: Path, *arguments: str) -> str:
    """What git says in this folder."""
    done = subprocess.run(
        [*GIT, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def test_the_commit_is_found_however_git_keeps_it(checkout: Path, tmp_path: Path) -> None:
    """On a branch, packed, detached, in a linked worktree, and from a folder further down."""
    wanted = git(checkout, "rev-parse", "HEAD")
    (checkout / "sub").mkdir()
    assert [head_commit(checkout), head_commit(checkout / "sub")] == [wanted, wanted]
    git(checkout, "pack-refs", "--all")
    assert head_commit(checkout) == wanted
    git(checkout, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    git(tmp_path / "linked", "commit", "-q", "--allow-empty", "-m", "y")
    assert head_commit(tmp_path / "linked") == git(tmp_path / "linked", "rev-parse", "HEAD")
    git(checkout, "checkout", "-q", "--detach")
    assert head_commit(checkout) == wanted


@pytest.mark.parametrize(
    "head",
    ["", "ref: refs/heads/none\n", "ref: refs/../../secret\n", "ref: /etc/passwd\n", "x" * 40],
)
def test_what_is_no_commit_is_none(checkout: Path, head: str) -> None:
    """No commit yet, a ref that leaves the repository, other text."""
    (checkout / "secret").write_text("a" * 40)
    (checkout / ".git" / "HEAD").write_text(head)
    assert head_commit(checkout) is None


def test_a_pipe_blocks_nothing(checkout: Path, tmp_path: Path) -> None:
    """A HEAD or a `.git` nobody writes to is as good as none."""
    (checkout / ".git" / "HEAD").unlink()
    os.mkfifo(checkout / ".git" / "HEAD")
    os.mkfifo(tmp_path / ".git")
    assert (head_commit(checkout), head_commit(tmp_path)) == (None, None)
