"""Skills on the disk: which are found, what is read of them, and what strangers cannot do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.adapters import skills
from runner.adapters.skills import Found
from runner.core.skills import Skill


def write(root: Path, name: str, text: str = "Do it.\n") -> Path:
    path = root / skills.FOLDER / name / skills.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def checkout(root: Path) -> Path:
    """A folder two levels down in a checkout."""
    (root / ".git").mkdir()
    inner = root / "packages" / "web"
    inner.mkdir(parents=True)
    return inner


def one(tmp_path: Path, text: str) -> Skill:
    write(tmp_path, "tidy", text)
    found = skills.every(tmp_path)
    assert found.problems == []
    return found.skills["tidy"]


def problems(tmp_path: Path, text: str) -> list[str]:
    path = write(tmp_path, "tidy", text)
    return [line.replace(str(path), "F") for line in skills.every(tmp_path).problems]


def test_without_front_matter_folder_and_first_paragraph_say_it(tmp_path: Path) -> None:
    """All keys are optional."""
    path = write(tmp_path, "tidy", "# Tidy\n\nTidies\nup.\n\nThen rest.\n")
    assert skills.every(tmp_path) == Found(
        skills={
            "tidy": Skill(
                name="tidy",
                description="Tidies up.",
                path=str(path),
                folder=str(path.parent),
                body="# Tidy\n\nTidies\nup.\n\nThen rest.",
            )
        }
    )


def test_every_key_is_read(tmp_path: Path) -> None:
    """Lists as lists or as texts; who may invoke it; the hint as people write it."""
    skill = one(
        tmp_path,
        "---\n"
        "name: tidy\n"
        "description: Tidies up.\n"
        "when_to_use: After large changes.\n"
        "allowed-tools: Read, Bash(git add *) Bash(git commit -m *)\n"
        "disallowed-tools: [WebFetch, 'Bash(rm *)']\n"
        "disable-model-invocation: true\n"
        "user-invocable: false\n"
        "arguments: [file, line]\n"
        "argument-hint: [file]\n"
        "license: MIT\n"
        "---\nSort.\n",
    )
    assert skill.description == "Tidies up. After large changes."
    assert skill.allowed == ("Read", "Bash(git add *)", "Bash(git commit -m *)")
    assert skill.disallowed == ("WebFetch", "Bash(rm *)")
    assert (skill.for_model, skill.for_user) == (False, False)
    assert (skill.arguments, skill.hint, skill.body) == (("file", "line"), "[file]", "Sort.")


def test_a_hint_is_made_of_the_names_of_arguments(tmp_path: Path) -> None:
    """When there is none; a text stays as it is."""
    assert one(tmp_path, "---\narguments: a b\n---\nx\n").hint == "[a] [b]"
    assert one(tmp_path, "---\nargument-hint: FILE, or all\n---\nx\n").hint == "FILE, or all"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\nname: tidy\n", "F:1: no line `---` ends the front matter"),
        ("---\nname: a\nname: b\n---\n", "F:3: name: a duplicate of the key in line 2"),
        ("---\ndescription: a: b\n---\n", "F:2: not valid YAML: `: ` cannot stand here"),
        ("---\n- a\n---\n", "F:2: front matter is a map: `key: value` on each line"),
        ("---\nname: [a]\n---\n", "F:2: name: expected a text"),
        (
            "---\nname: a b\n---\n",
            'F:2: name: "a b" is no name: letters, digits, `-`, `_` and `.`, at most 64',
        ),
        (
            "---\nuser-invocable: yes\n---\n",
            'F:2: user-invocable: expected true or false, got the text "yes"',
        ),
        ("---\narguments: {a: b}\n---\n", "F:2: arguments: expected a list of texts"),
        ("---\nname: !x y\n---\n", 'F:2: name: the tag "!x" is refused'),
    ],
)
def test_broken_front_matter_is_named_with_its_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    """And the skill is skipped."""
    assert problems(tmp_path, text) == [f"{problem}; the skill is skipped"]
    assert skills.every(tmp_path).skills == {}


def test_a_rule_that_forbids_nothing_is_fatal_and_one_that_allows_nothing_is_not(
    tmp_path: Path,
) -> None:
    """Without it the skill would do more than it says; the other way round it does less."""
    (told,) = problems(tmp_path, "---\ndisallowed-tools: Bash(a;b)\n---\nx\n")
    assert told.startswith('F:2: disallowed-tools: "Bash(a;b)" is no rule: ')
    assert told.endswith("the skill is skipped")
    lines = problems(tmp_path, "---\nallowed-tools: Bash(a;b), Read, task_complete, '*'\n---\nx\n")
    assert [line.partition(" allows nothing: ")[0] for line in lines] == [
        'F:2: allowed-tools: "Bash(a;b)"',
        'F:2: allowed-tools: "task_complete"',
        "F:2: allowed-tools: \"'*'\"",
    ]
    assert skills.every(tmp_path).skills["tidy"].allowed == ("Read",)


def test_what_is_not_done_is_said(tmp_path: Path) -> None:
    """Keys that mean nothing here, and commands that other readers would run."""
    lines = problems(tmp_path, "---\nmodel: opus\ncontext: fork\ncolour: red\n---\nNow: !`date`\n")
    assert lines == [
        "F:2: model: not supported: the model of the run goes on",
        "F:3: context: not supported: its text is told to the agent that invokes it",
        "F:4: colour: no key of a skill; it means nothing here",
        "F: it has commands to be run for their output (!`...`); none of them is run",
    ]


def test_a_file_of_many_problems_tells_a_few(tmp_path: Path) -> None:
    """Whoever wrote it does not fill the log."""
    text = "---\n" + "".join(f"k{n}: !x y\n" for n in range(50)) + "---\n"
    lines = problems(tmp_path, text)
    assert len(lines) == 6
    assert lines[-1] == "45 more problems in the same file; the skill is skipped"


def test_the_nearest_of_a_name_counts(tmp_path: Path) -> None:
    """From the workspace up to the checkout's root; the other one is reported."""
    inner = checkout(tmp_path)
    near, far = write(inner, "tidy"), write(tmp_path, "tidy")
    write(tmp_path, "release")
    found = skills.every(inner)
    told = {name: (skill.path, skill.source) for name, skill in found.skills.items()}
    release = str(tmp_path / skills.FOLDER / "release" / skills.FILE)
    assert told == {"release": (release, "inherited"), "tidy": (str(near), "project")}
    assert found.problems == [f"{far}: {near} is called tidy too, and is nearer"]


def test_nothing_above_the_checkout_is_read(tmp_path: Path) -> None:
    """Without a checkout, the workspace alone."""
    write(tmp_path, "above")
    (tmp_path / "plain").mkdir()
    assert skills.every(tmp_path / "plain") == Found()


def test_a_copy_is_read_in_place_of_its_original(tmp_path: Path) -> None:
    """What is above the original is read where it is."""
    original, copy = checkout(tmp_path), tmp_path / "copy"
    write(original, "old")
    write(tmp_path, "top")
    write(copy, "new")
    assert list(skills.every(copy, original).skills) == ["new", "top"]


def test_a_link_out_of_the_checkout_is_not_followed(tmp_path: Path) -> None:
    """Neither for a file nor for the folder of them all; a pipe is no file."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    write(outside, "evil", "SECRET\n")
    folder = root / skills.FOLDER / "evil"
    folder.mkdir(parents=True)
    (folder / skills.FILE).symlink_to(outside / skills.FOLDER / "evil" / skills.FILE)
    pipe = root / skills.FOLDER / "pipe" / skills.FILE
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    found = skills.every(root)
    assert found.skills == {}
    assert found.problems == [
        f"{folder / skills.FILE} was not read: it leads outside the checkout",
        f"{pipe} was not read: not a regular file",
    ]
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".claude").symlink_to(outside / ".claude")
    assert skills.every(linked).problems == [
        f"{linked / skills.FOLDER} was not read: outside the checkout"
    ]


def test_reading_is_bounded(tmp_path: Path) -> None:
    """One file, and the number of them; what is left out is said."""
    long = write(tmp_path, "a-long", "x" * (skills.MAX_FILE_BYTES + 5))
    for number in range(skills.MAX_SKILLS):
        write(tmp_path, f"s{number:03}")
    found = skills.every(tmp_path)
    assert len(found.skills) == skills.MAX_SKILLS
    assert len(found.skills["a-long"].body) < skills.MAX_FILE_BYTES + 100
    assert found.problems == [
        f"{tmp_path / skills.FOLDER}: 1 of 101 skills were not read",
        f"{long}: only the first {skills.MAX_FILE_BYTES} bytes were read",
    ]


def test_what_people_do_not_see_is_taken_out(tmp_path: Path) -> None:
    """Hidden characters carry no orders to the model."""
    skill = one(tmp_path, "---\ndescription: Ti\u200bdy\U000e0041\n---\nSo\u202ert\x1b[31m.\n")
    assert (skill.description, skill.body) == ("Tidy", "Sort.")


# -- the ones a spec names --------------------------------------------------------------------


def test_a_named_skill_is_the_one_in_the_folder_of_that_name(tmp_path: Path) -> None:
    """No other file becomes it by what it calls itself, and no other file is looked at."""
    write(tmp_path, "aaa", "---\nname: tidy\nallowed-tools: Bash\n---\nEvil.\n")
    write(tmp_path, "bad", "---\n")
    write(tmp_path, "tidy", "Good.\n")
    found = skills.chosen(("tidy",), tmp_path)
    assert (found.skills["tidy"].body, found.problems) == ("Good.", [])
    assert skills.every(tmp_path).skills["tidy"].body == "Good."


def test_a_named_skill_that_calls_itself_otherwise_is_missing(tmp_path: Path) -> None:
    """Folder and name have to agree."""
    path = write(tmp_path, "tidy", "---\nname: other\n---\nx\n")
    found = skills.chosen(("tidy",), tmp_path)
    assert found.skills == {}
    assert found.missing == {
        "tidy": f"{path} calls itself other: name and folder of a skill have to agree"
    }


def test_a_named_skill_that_is_absent_or_broken_says_why(tmp_path: Path) -> None:
    """With the place that was looked at, or file and line."""
    broken = write(tmp_path, "broken", "---\nname: [\n---\n")
    found = skills.chosen(("absent", "broken"), tmp_path)
    assert found.missing["absent"].startswith("no .claude/skills/absent/SKILL.md in ")
    assert found.missing["broken"].startswith(f"{broken}:")
    without = skills.chosen(("absent",), None)
    assert "`setting_sources` does not have `project`" in without.missing["absent"]


def test_a_path_beats_a_name(tmp_path: Path) -> None:
    """The author chose that very file."""
    write(tmp_path, "tidy", "Project.\n")
    own = tmp_path / "own" / "tidy"
    own.mkdir(parents=True)
    (own / skills.FILE).write_text("Own.\n")
    found = skills.chosen(("tidy", str(own)), tmp_path)
    assert (found.skills["tidy"].body, found.skills["tidy"].source) == ("Own.", "custom")
    assert len(found.problems) == 1


def test_the_files_of_a_name_are_all_that_could_be_it(tmp_path: Path) -> None:
    """Whether they are there or not: a new one that is nearer would take its place."""
    inner = checkout(tmp_path)
    ends = [path.parent.parent.parent.parent for path in skills.files(("tidy",), inner)]
    assert ends == [inner, tmp_path / "packages", tmp_path]
    assert skills.files(("/own/tidy",), inner) == (Path("/own/tidy/SKILL.md"),)
