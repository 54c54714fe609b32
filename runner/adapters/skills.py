"""Finds skills: `.claude/skills/<name>/SKILL.md`, from the workspace up to the checkout's root.

Rules of this file:
* Strangers may have written what is read: regular files, bounded, inside the checkout, and nothing
  of it is run. What is not seen by people is taken out of it.
* A skill that the spec names is the one in the folder of that name, whatever other files call
  themselves: the nearest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from runner.adapters import front_matter
from runner.adapters.front_matter import FrontMatter
from runner.adapters.project import CUT, bounded_text, reason, way_up
from runner.adapters.specfile.problem import shown
from runner.adapters.specfile.yaml_document import Scalar
from runner.core import rules
from runner.core.messages import CONTROL_TOOLS
from runner.core.skills import MAX_DESCRIPTION_CHARS, NAME, Skill, shortened
from runner.core.untrusted import cleaned

FOLDER = Path(".claude", "skills")
FILE = "SKILL.md"
MAX_FILE_BYTES = 64 * 1024
MAX_SKILLS = 100
"""Skills of one folder; and so many in all."""

MAX_HINT_CHARS = 200
_MAX_ENTRIES = 1_000

UNSUPPORTED = {
    "model": "the model of the run goes on",
    "effort": "the effort of the run holds",
    "context": "its text is told to the agent that invokes it",
    "agent": "its text is told to the agent that invokes it",
    "hooks": "only hooks of the task are run",
    "paths": "it is described in every run",
    "shell": "no command in it is run",
}
"""Keys that other readers of skills know, and what happens here instead."""

_SILENT = frozenset({"license", "metadata", "compatibility", "version", "author", "tags"})
_KNOWN = frozenset(
    {
        "name",
        "description",
        "when_to_use",
        "allowed-tools",
        "disallowed-tools",
        "disable-model-invocation",
        "user-invocable",
        "arguments",
        "argument-hint",
    }
)
_COMMAND = re.compile(r"!`[^`\n]+`|^```!", re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class Found:
    """The skills, by name; what should be known about files that were skipped or read in part;
    and why a skill that was asked for by name or path is not among them."""

    skills: dict[str, Skill] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, skill: Skill) -> None:
        """Take it, unless there is one of that name: the nearer one came first."""
        if skill.name in self.skills:
            first = self.skills[skill.name].path
            self.problems.append(f"{skill.path}: {first} is called {skill.name} too, and is nearer")
        else:
            self.skills[skill.name] = skill


def every(workspace: Path, copy_of: Path | None = None) -> Found:
    """All skills from `workspace` up; a copy is read in place of the folder it is a copy of."""
    way, roots = way_up(workspace, copy_of)
    found = Found()
    for level in way:
        read = [
            _read(path, roots, _source(level, way), found.problems)
            for path in _files(level, roots, found)
        ]
        there = [skill for skill in read if skill is not None]
        for skill in sorted(there, key=lambda one: (Path(one.folder).name != one.name, one.folder)):
            if len(found.skills) == MAX_SKILLS:
                found.problems.append(
                    f"{skill.path}: skipped, there are {MAX_SKILLS} skills before it"
                )
            else:
                found.add(skill)
    found.skills = dict(sorted(found.skills.items()))
    return found


def chosen(names: Iterable[str], workspace: Path | None, copy_of: Path | None = None) -> Found:
    """The skills of these names, and those at these paths. Names are not looked for without a
    workspace."""
    found = Found()
    for name in sorted(names, key=lambda one: (not is_path(one), one)):
        before = len(found.problems)
        if is_path(name):
            folder = Path(name).resolve()
            skill = _read(folder / FILE, (folder,), "custom", found.problems)
        elif workspace is None:
            found.missing[name] = "`setting_sources` does not have `project`: name it by its path"
            continue
        else:
            skill = _nearest(name, workspace, copy_of, found)
        if skill is None or (not is_path(name) and skill.name != name):
            found.missing[name] = _why_not(skill, name, found.problems[before:])
        else:
            found.add(skill)
    found.skills = dict(sorted(found.skills.items()))
    return found


def is_path(name: str) -> bool:
    """Whether an entry of `skills` is the path of a skill's folder."""
    return "/" in name


def files(names: Iterable[str], workspace: Path, copy_of: Path | None = None) -> tuple[Path, ...]:
    """Every file that is or could become the one that the spec means by these names."""
    way, _ = way_up(workspace, copy_of)
    places = [
        [Path(name) / FILE] if is_path(name) else [level / FOLDER / name / FILE for level in way]
        for name in names
    ]
    return tuple(path for place in places for path in place)


def _nearest(name: str, workspace: Path, copy_of: Path | None, found: Found) -> Skill | None:
    way, roots = way_up(workspace, copy_of)
    for level in way:
        path = level / FOLDER / name / FILE
        if os.path.lexists(path):
            return _read(path, roots, _source(level, way), found.problems)
    found.problems.append(f"no {FOLDER / name / FILE} in {way[0]}, nor above it up to {way[-1]}")
    return None


def _why_not(skill: Skill | None, name: str, problems: list[str]) -> str:
    if skill is not None:
        return f"{skill.path} calls itself {skill.name}: name and folder of a skill have to agree"
    return "; ".join(problems) or name


def _source(level: Path, way: tuple[Path, ...]) -> str:
    return "project" if level == way[0] else "inherited"


def _files(level: Path, roots: tuple[Path, ...], found: Found) -> Iterator[Path]:
    """The files of the skills of one folder, in the order of their names."""
    folder = level / FOLDER
    try:
        if not any(folder.resolve().is_relative_to(root) for root in roots):
            raise OSError("outside the checkout")
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, _MAX_ENTRIES))
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, RuntimeError) as error:
        found.problems.append(f"{folder} was not read: {reason(error)}")
        return
    there = [folder / name / FILE for name in names if os.path.lexists(folder / name / FILE)]
    if len(there) > MAX_SKILLS:
        left = len(there) - MAX_SKILLS
        found.problems.append(f"{folder}: {left} of {len(there)} skills were not read")
    yield from there[:MAX_SKILLS]


def _read(path: Path, roots: tuple[Path, ...], source: str, problems: list[str]) -> Skill | None:
    """The skill in a file; None, with the reason among the problems, when there is none."""
    try:
        real = path.resolve()
        if not any(real.is_relative_to(root) for root in roots):
            raise OSError("it leads outside the checkout")
        text, is_cut = bounded_text(real, MAX_FILE_BYTES)
    except (OSError, RuntimeError, ValueError) as error:
        problems.append(f"{path} was not read: {reason(error)}")
        return None
    if is_cut:
        problems.append(f"{path}: only the first {MAX_FILE_BYTES} bytes were read")
    matter = front_matter.read(cleaned(text), path)
    skill = _skill(matter, path, source, CUT if is_cut else "")
    if matter.problems:
        problems.extend(f"{problem}; the skill is skipped" for problem in matter.problems)
        return None
    problems.extend(_remarks(matter, path))
    return skill


def _skill(matter: FrontMatter, path: Path, source: str, cut: str) -> Skill:
    name = matter.text("name") or path.parent.name
    if not re.fullmatch(NAME, name):
        _refuse_name(matter, path, name)
    parts = (
        matter.text("description") or _first_paragraph(matter.body),
        matter.text("when_to_use"),
    )
    described = " ".join(part for part in parts if part) or name
    return Skill(
        name=name,
        description=shortened(described, MAX_DESCRIPTION_CHARS),
        path=str(path),
        folder=str(path.parent),
        body=matter.body.strip() + cut,
        source=source,
        allowed=tuple(r for r in matter.texts("allowed-tools") or () if not _no_allowance(r)),
        disallowed=_denying(matter),
        arguments=matter.texts("arguments") or (),
        hint=_hint(matter),
        for_model=not matter.flag("disable-model-invocation", False),
        for_user=matter.flag("user-invocable", True),
    )


def _refuse_name(matter: FrontMatter, path: Path, name: str) -> None:
    message = front_matter.named_wrongly(name)
    if "name" in matter.fields:
        matter.refuse("name", message)
    else:
        matter.refuse_file(path, f"the folder's name {message}")


def _first_paragraph(body: str) -> str:
    blocks = (block.strip() for block in re.split(r"\n\s*\n", body))
    return next((block for block in blocks if block and not block.startswith("#")), "")


def _hint(matter: FrontMatter) -> str:
    """`argument-hint: [file] [line]` is a text; unquoted, `[file]` is a list of one."""
    node = matter.fields.get("argument-hint")
    if node is None:
        return " ".join(f"[{name}]" for name in matter.texts("arguments") or ())
    if isinstance(node.node, Scalar):
        return shortened(matter.text("argument-hint") or "", MAX_HINT_CHARS)
    texts = matter.texts("argument-hint") or ()
    return shortened(" ".join(f"[{text}]" for text in texts), MAX_HINT_CHARS)


def _denying(matter: FrontMatter) -> tuple[str, ...]:
    """A rule that cannot be kept must not be dropped: without it the skill would allow more."""
    found = matter.texts("disallowed-tools") or ()
    for text in found:
        if why := _no_rule(text):
            matter.refuse("disallowed-tools", f"{shown(text)} is no rule: {why}")
    return found


def _no_rule(text: str) -> str | None:
    try:
        tool = rules.parse(text).tool
    except rules.RuleError as error:
        return str(error)
    return "it steers the run only" if tool in CONTROL_TOOLS else None


def _no_allowance(text: str) -> str | None:
    return _no_rule(text) or rules.may_allow(rules.parse(text))


def _remarks(matter: FrontMatter, path: Path) -> Iterator[str]:
    """What of a good skill is not done as it says."""
    for key in matter.fields:
        if key in UNSUPPORTED:
            yield matter.note(key, f"not supported: {UNSUPPORTED[key]}")
        elif key not in _KNOWN and key not in _SILENT:
            yield matter.note(key, "no key of a skill; it means nothing here")
    for text in matter.texts("allowed-tools") or ():
        if why := _no_allowance(text):
            yield matter.note("allowed-tools", f"{shown(text)} allows nothing: {why}")
    if _COMMAND.search(matter.body):
        yield f"{path}: it has commands to be run for their output (!`...`); none of them is run"
