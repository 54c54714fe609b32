"""Which instruction files of a project are read, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

from runner.adapters import project


def _texts(workspace: Path) -> list[str]:
    return [text for _, text in project.read(workspace).files]


def test_files_load_from_the_checkout_root_down_to_the_workspace(tmp_path: Path) -> None:
    """The root comes first; what lies above the checkout is not read."""
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    inner = root / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "CLAUDE.md").write_text("above")
    (root / "CLAUDE.md").write_text("one")
    (root / "a" / "AGENTS.md").write_text("two")
    (inner / "CLAUDE.md").write_text("three")
    assert _texts(inner) == ["one", "two", "three"]


def test_the_same_text_loads_once(tmp_path: Path) -> None:
    """A link, and a copy of the text, add nothing."""
    (tmp_path / "CLAUDE.md").write_text("one @CLAUDE.md @copy.md")
    (tmp_path / "copy.md").write_text("one @CLAUDE.md @copy.md")
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")
    assert project.read(tmp_path).problems == ()
    assert len(_texts(tmp_path)) == 1


def test_imports_are_followed_four_hops_and_not_out_of_code(tmp_path: Path) -> None:
    """The fifth is named with its line; spans, fences and mail addresses import nothing."""
    (tmp_path / "CLAUDE.md").write_text("`@no1`\n```\n@no2\n```\nme@no3\nsee @d/1.md.\n")
    (tmp_path / "d").mkdir()
    for hop in range(1, 6):
        (tmp_path / "d" / f"{hop}.md").write_text(f"hop {hop}\n@{hop + 1}.md\n")
    found = project.read(tmp_path)
    assert len(found.files) == 5
    assert found.problems == (f"{tmp_path / 'd' / '4.md'}:2: @5.md is more than 4 imports deep",)


def test_a_broken_import_is_named_with_its_line(tmp_path: Path) -> None:
    """The file that imports still loads."""
    (tmp_path / "CLAUDE.md").write_text("first\n@gone.md\n")
    found = project.read(tmp_path)
    assert len(found.files) == 1
    assert found.problems[0].startswith(f"{tmp_path / 'CLAUDE.md'}:2: ")
    assert "No such file" in found.problems[0]


def test_nothing_outside_the_checkout_and_no_pipe_is_read(tmp_path: Path) -> None:
    """A link that leads out is refused; a FIFO does not make the start hang."""
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "repo"
    root.mkdir()
    (root / "CLAUDE.md").symlink_to("../secret")
    os.mkfifo(root / "AGENTS.md")
    found = project.read(root)
    assert found.files == ()
    assert [problem.rsplit(": ", 1)[1] for problem in found.problems] == [
        "outside the checkout",
        "not a regular file",
    ]


def test_a_long_file_is_cut_and_says_so(tmp_path: Path) -> None:
    """The model sees the mark, a person the warning."""
    (tmp_path / "CLAUDE.md").write_text("x" * (project.MAX_FILE_BYTES + 1))
    found = project.read(tmp_path)
    assert found.files[0][1] == "x" * project.MAX_FILE_BYTES + project.CUT
    assert "only the first" in found.problems[0]


def test_a_project_without_files_has_no_instructions(tmp_path: Path) -> None:
    """A missing file is nothing to speak of."""
    assert project.read(tmp_path) == project.Instructions()
