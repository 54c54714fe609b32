"""Agent files on the disk: which are found, what is read of them, and what strangers cannot do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.adapters import agent_files
from runner.adapters.agent_files import Found
from runner.core.spec import AgentSpec

HEAD = "name: scout\ndescription: Looks around.\n"


def write(root: Path, name: str, text: str) -> Path:
    path = root / agent_files.FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def scout(root: Path, more: str = "", head: str = HEAD, prompt: str = "You look.\n") -> Path:
    return write(root, "scout.md", f"---\n{head}{more}---\n{prompt}")


def problems(root: Path, path: Path) -> list[str]:
    return [line.replace(str(path), "F") for line in agent_files.every(root).problems]


def test_every_key_is_read(tmp_path: Path) -> None:
    """Lists as lists or as texts; the text below the head is the prompt."""
    path = scout(
        tmp_path,
        "tools: Read, Grep,mcp__docs, Task\n"
        "disallowedTools: [Bash(git push *), Task(other)]\n"
        "model: haiku\n"
        "effort: low\n"
        "maxTurns: 3\n"
        "permissionMode: plan\n"
        "skills: release, notes\n"
        "color: red\n",
    )
    found = agent_files.every(tmp_path)
    (agent,) = found.agents.values()
    assert (found.problems, agent.source) == ([], str(path))
    assert agent == AgentSpec(
        description="Looks around.",
        prompt="You look.",
        tools=("Read", "Grep", "mcp__docs", "Agent"),
        disallowed_tools=("Bash(git push *)", "Agent(other)"),
        model="haiku",
        effort="low",
        max_turns=3,
        permission_mode="plan",
        skills=("release", "notes"),
    )
    assert found.place(agent, "model") == f"{path}:6: model"


def test_what_is_left_out_is_what_the_agent_above_has(tmp_path: Path) -> None:
    """`inherit` is that too; the file's name is the agent's when it has none."""
    write(
        tmp_path, "a/b/look-out.md", "---\ndescription: >\n  Looks\n  out.\nmodel: inherit\n---\nx"
    )
    found = agent_files.every(tmp_path)
    assert found.agents == {"look-out": AgentSpec(description="Looks out.", prompt="x")}


def test_a_description_in_prose_needs_no_quotes(tmp_path: Path) -> None:
    """As generators write it: with colons, and backslashes that stand for line breaks."""
    prose = r'Use it for reviews. Example: Context: a change.\nuser: "look" # always'
    scout(tmp_path, head=f"name: scout\ndescription: {prose}\n")
    found = agent_files.every(tmp_path)
    assert (found.problems, found.agents["scout"].description) == ([], prose)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("maxTurns: 0\n", "F:4: maxTurns: expected a whole number >= 1, got 0"),
        ("effort: hihg\n", "F:4: effort: expected one of low, medium, high, xhigh, max"),
        ("permissionMode: yolo\n", "F:4: permissionMode: expected one of default"),
        ("disallowedTools: 'Bash(a'\n", 'F:4: disallowedTools: "Bash(a" is no rule'),
        ("disallowedTools: task_complete\n", "it steers the run only"),
        ("skills: ../x\n", 'F:4: skills: "../x" is not the name of a skill'),
        ("tools: {Read: yes}\n", "F:4: tools: expected a list of texts"),
        ("model: [a]\n", "F:4: model: expected a text"),
        ("name: again\n", "F:4:"),
        ("tools: !!python/name:os.system x\n", "F:4:"),
    ],
)
def test_a_wrong_word_skips_the_file_and_says_where(
    tmp_path: Path, more: str, problem: str
) -> None:
    """With its line; less of what it says would be another agent."""
    path = scout(tmp_path, more)
    assert agent_files.every(tmp_path).agents == {}
    (said,) = problems(tmp_path, path)
    assert problem in said
    assert said.endswith("; the agent is skipped")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Notes\n", "`description`: it has to say when to use the agent"),
        (f"---\n{HEAD}---\n\n", "no text after the front matter: it is the agent's prompt"),
        ("---\nname: scout\n", "no line `---` ends the front matter"),
        (f"---\n{HEAD.replace('scout', 'a b')}---\nx", '"a b" is no name'),
        ("---\nname: scout\ndescription: ''\n---\nx", "it has to say when to use the agent"),
    ],
)
def test_what_is_no_agent_is_skipped(tmp_path: Path, text: str, problem: str) -> None:
    """Each with its reason, and the rest of the folder is read."""
    path = write(tmp_path, "bad.md", text)
    scout(tmp_path)
    assert list(agent_files.every(tmp_path).agents) == ["scout"]
    assert problem in " ".join(problems(tmp_path, path))


def test_what_there_is_not_is_left_out(tmp_path: Path) -> None:
    """A tool that nothing here has, or that is narrowed; keys of other readers are named."""
    path = scout(
        tmp_path,
        "tools: [Read, LS, 'Bash(ls *)', 'mcp__a(b)', '(']\n"
        "disallowedTools: LS\nhooks: {}\nwhy: not\n",
    )
    found = agent_files.every(tmp_path)
    assert found.agents["scout"].tools == ("Read",)
    assert problems(tmp_path, path) == [
        'F:4: tools: "LS" is no tool here: left out',
        'F:4: tools: "Bash(ls *)" narrows a tool: left out',
        'F:4: tools: "mcp__a(b)" narrows a tool: left out',
        'F:4: tools: "(" narrows a tool: left out',
        'F:5: disallowedTools: "LS" denies nothing: no tool is called so',
        "F:6: hooks: not supported: only hooks of the task are run",
        "F:7: why: no key of an agent; it means nothing here",
    ]


def test_the_nearest_of_a_name_counts(tmp_path: Path) -> None:
    """From the workspace up to the checkout's root; in one folder the first by its path."""
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "web"
    inner.mkdir()
    far, near = scout(tmp_path, prompt="far"), scout(inner, prompt="near")
    twin = write(inner, "z/twin.md", f"---\n{HEAD}---\ntwin")
    found = agent_files.every(inner)
    assert found.agents["scout"].prompt == "near"
    assert found.problems == [
        f"{twin}: skipped, {near} is called scout too",
        f"{far}: skipped, {near} is called scout too",
    ]


def test_nothing_is_read_outside_the_checkout(tmp_path: Path) -> None:
    """Links that lead out, loops of them, pipes and folders that are called like files."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    folder = inside / agent_files.FOLDER
    folder.mkdir(parents=True)
    target = scout(outside)
    (folder / "a.md").symlink_to(target)
    (folder / "b.md").symlink_to(folder / "b.md")
    os.mkfifo(folder / "c.md")
    (folder / "d.md").mkdir()
    (folder / "e").symlink_to(outside)
    found = agent_files.every(inside)
    assert found.agents == {}
    assert [line.partition(" was ")[0] for line in found.problems] == [
        str(folder / name) for name in ("a.md", "b.md", "c.md")
    ]


def test_a_folder_that_leads_out_is_not_read(tmp_path: Path) -> None:
    """Not even when the link is a folder above it."""
    scout(tmp_path / "outside")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / ".claude").symlink_to(tmp_path / "outside" / ".claude")
    found = agent_files.every(inside)
    assert found.agents == {}
    assert found.problems == [
        f"{inside / agent_files.FOLDER} was not read: it leads outside the checkout"
    ]


def test_what_is_not_seen_is_taken_out_and_sizes_are_bounded(tmp_path: Path) -> None:
    """Hidden characters, long texts, many files, deep folders."""
    scout(tmp_path, head="name: scout\ndescription: Lo\u200boks.\n", prompt="a\u202eb\x1b[31m\n")
    long = write(tmp_path, "long.md", "---\ndescription: " + "d" * 9_000 + "\n---\n" + "p" * 99_000)
    write(tmp_path, "1/2/3/4/5/6/deep.md", f"---\n{HEAD}---\nx")
    found = agent_files.every(tmp_path)
    assert sorted(found.agents) == ["long", "scout"]
    assert (found.agents["scout"].description, found.agents["scout"].prompt) == ("Looks.", "ab")
    assert len(found.agents["long"].description) == 1_536
    assert len(found.agents["long"].prompt) < agent_files.MAX_FILE_BYTES
    assert found.problems == [
        f"{long}: only the first {agent_files.MAX_FILE_BYTES} bytes were read"
    ]


def test_so_many_agents_are_read_and_no_more(tmp_path: Path) -> None:
    """Of one folder, and in all; the rest is told."""
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "web"
    for number in range(agent_files.MAX_AGENTS + 1):
        write(inner, f"a{number:02}.md", "---\ndescription: x\n---\nx")
    more = scout(tmp_path)
    found = agent_files.every(inner)
    assert len(found.agents) == agent_files.MAX_AGENTS
    assert found.problems == [
        f"{inner / agent_files.FOLDER}: 1 of 51 files were not read",
        f"{more}: skipped, there are 50 agents before it",
    ]


def test_a_folder_of_anything_is_not_read_for_ever(tmp_path: Path) -> None:
    """Entries are counted, whatever they are."""
    folder = tmp_path / agent_files.FOLDER
    folder.mkdir(parents=True)
    for number in range(1_001):
        (folder / f"{number}.txt").touch()
    assert agent_files.every(tmp_path).problems == [
        f"{folder}: only 1000 of its entries were looked at"
    ]


def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    """A file in its place is one."""
    place = tmp_path / agent_files.FOLDER
    place.parent.mkdir()
    place.touch()
    assert agent_files.every(tmp_path).problems == [f"{place} was not read: Not a directory"]


def test_a_checkout_without_agents_has_none(tmp_path: Path) -> None:
    """And nothing is said about it."""
    assert agent_files.every(tmp_path) == Found()
