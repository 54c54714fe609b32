"""Finds sub-agents of a project: `.claude/agents/**/*.md`, from the workspace up to the root.

Rules of this file:
* Strangers may have written what is read: regular files, bounded, inside the checkout, and nothing
  of it is run. What is not seen by people is taken out of it.
* A file that says less than it seems to say (a rule that cannot be kept) is skipped as a whole;
  one that asks for more than there is (a tool, a model) is read without that.
* Which of its words count is decided elsewhere: here stands what the file says.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runner.adapters import front_matter
from runner.adapters.front_matter import FrontMatter
from runner.adapters.project import CUT, bounded_text, reason, way_up
from runner.adapters.specfile.agent_keys import AGENT_NAME, INHERIT
from runner.adapters.specfile.problem import shown
from runner.adapters.specfile.types import Choice, Whole
from runner.adapters.specfile.words import EFFORTS, MODES, TOOLS
from runner.core import rules
from runner.core.messages import AGENT_TOOL, CONTROL_TOOLS, MCP_PREFIX
from runner.core.skills import MAX_DESCRIPTION_CHARS, NAME, shortened
from runner.core.spec import AgentSpec
from runner.core.untrusted import cleaned

FOLDER: Final = Path(".claude", "agents")
SUFFIX: Final = ".md"
MAX_FILE_BYTES: Final = 64 * 1024
MAX_AGENTS: Final = 50
"""Files that are read of one folder `agents`, and agents in all."""

MAX_DEPTH: Final = 5
"""How deep the sub-folders of a folder `agents` may be nested."""

_MAX_ENTRIES: Final = 1_000

UNSUPPORTED: Final = {
    "background": "the agent that starts it waits for its answer",
    "hooks": "only hooks of the task are run",
    "initialPrompt": "the agent that starts it says what to do",
    "isolation": "it works where the run works",
    "mcpServers": "servers are those of the task; name their tools in `tools`",
    "memory": "it begins anew each time",
}
"""Keys that other readers of these files know, and what happens here instead."""

_SILENT = frozenset({"color", "license", "metadata", "version", "author", "tags"})
_KNOWN = frozenset(
    {
        "name",
        "description",
        "tools",
        "disallowedTools",
        "model",
        "effort",
        "maxTurns",
        "permissionMode",
        "skills",
    }
)
_SETTLED = frozenset({"model", "permissionMode"})
_OTHER_NAMES: Final = {"Task": AGENT_TOOL}
"""What older files call a tool."""


_DESCRIPTION = re.compile(r"^description:[ \t]+(?![\"'|>&*!#\[{])(.*(?:: | #).*)$", re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class Found:
    """The agents by name, and what should be known about files that were skipped or read in part.

    `places` says where in its file an agent's model and mode stand.
    """

    agents: dict[str, AgentSpec] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    places: dict[tuple[str, str], str] = field(default_factory=dict)

    def place(self, agent: AgentSpec, key: str) -> str:
        """`file:line: key`, as far as it is known."""
        return self.places.get((agent.source, key), f"{agent.source}: {key}")

    def add(self, name: str, agent: AgentSpec) -> None:
        """Take it, unless there is one of that name: the nearer one came first."""
        if name in self.agents:
            first = self.agents[name].source
            self.problems.append(f"{agent.source}: skipped, {first} is called {name} too")
        elif len(self.agents) == MAX_AGENTS:
            message = f"{agent.source}: skipped, there are {MAX_AGENTS} agents before it"
            self.problems.append(message)
        else:
            self.agents[name] = agent


def every(workspace: Path) -> Found:
    """All agents from `workspace` up to the root of its checkout, the nearest of a name."""
    way, roots = way_up(workspace)
    found = Found()
    for level in way:
        for path in _files(level / FOLDER, roots, found.problems):
            _read(path, roots, found)
    found.agents = dict(sorted(found.agents.items()))
    return found


def _files(folder: Path, roots: tuple[Path, ...], problems: list[str]) -> list[Path]:
    """The files of one folder and those below it, in the order of their paths."""
    if not os.path.lexists(folder):
        return []
    if not _is_inside(folder, roots):
        problems.append(f"{folder} was not read: it leads outside the checkout")
        return []
    budget = [_MAX_ENTRIES]
    files = sorted(_walk(folder, MAX_DEPTH, budget, problems))
    left = len(files) - MAX_AGENTS
    if left > 0:
        problems.append(f"{folder}: {left} of {len(files)} files were not read")
    if budget[0] < 0:
        problems.append(f"{folder}: only {_MAX_ENTRIES} of its entries were looked at")
    return files[:MAX_AGENTS]


def _walk(folder: Path, depth: int, budget: list[int], problems: list[str]) -> Iterator[Path]:
    """Markdown files; folders that are links are not followed."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                budget[0] -= 1
                if budget[0] < 0:
                    return
                if entry.is_dir(follow_symlinks=False):
                    if depth:
                        yield from _walk(Path(entry.path), depth - 1, budget, problems)
                elif entry.name.endswith(SUFFIX):
                    yield Path(entry.path)
    except OSError as error:
        problems.append(f"{folder} was not read: {reason(error)}")


def _is_inside(path: Path, roots: tuple[Path, ...]) -> bool:
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return False
    return any(real.is_relative_to(root) for root in roots)


def _read(path: Path, roots: tuple[Path, ...], found: Found) -> None:
    """Add the agent in a file, or the reason why there is none to the problems."""
    problems = found.problems
    try:
        if not _is_inside(path, roots):
            raise OSError("it leads outside the checkout")
        text, is_cut = bounded_text(path.resolve(), MAX_FILE_BYTES)
    except (OSError, RuntimeError, ValueError) as error:
        problems.append(f"{path} was not read: {reason(error)}")
        return
    matter = front_matter.read(_DESCRIPTION.sub(_quoted, cleaned(text), count=1), path)
    remarks: list[str] = []
    name, agent = _agent(matter, path, CUT if is_cut else "", remarks)
    if matter.problems:
        problems.extend(f"{problem}; the agent is skipped" for problem in matter.problems)
        return
    if is_cut:
        problems.append(f"{path}: only the first {MAX_FILE_BYTES} bytes were read")
    problems.extend((*remarks, *_unknown(matter)))
    for key in _SETTLED & matter.fields.keys():
        found.places[agent.source, key] = matter.note(key, "").removesuffix(": ")
    found.add(name, agent)


def _agent(matter: FrontMatter, path: Path, cut: str, remarks: list[str]) -> tuple[str, AgentSpec]:
    """What the file says, and the remarks that are to be made on it."""
    name = matter.text("name") or path.stem
    if not re.fullmatch(AGENT_NAME, name):
        _refuse(matter, path, "name", f"{shown(name)} is no name: letters, digits, `-` and `_`")
    description = matter.text("description") or ""
    if not description.strip():
        _refuse(matter, path, "description", "it has to say when to use the agent")
    if not matter.body.strip():
        matter.refuse_file(path, "no text after the front matter: it is the agent's prompt")
    tools = matter.texts("tools")
    model = matter.text("model")
    agent = AgentSpec(
        description=shortened(description, MAX_DESCRIPTION_CHARS),
        prompt=matter.body.strip() + cut,
        tools=None if tools is None else tuple(_there(matter, tools, remarks)),
        disallowed_tools=_denying(matter, remarks),
        model=None if model == INHERIT else model,
        effort=matter.value("effort", Choice(options=EFFORTS)),
        max_turns=matter.value("maxTurns", Whole(minimum=1)),
        permission_mode=matter.value("permissionMode", Choice(options=MODES)),
        skills=_skills(matter),
        source=str(path),
    )
    return name, agent


def _quoted(line: re.Match[str]) -> str:
    """Descriptions are prose, with examples such as `Context: a change`: YAML only in quotes."""
    return f"description: {json.dumps(line[1])}"


def _refuse(matter: FrontMatter, path: Path, key: str, message: str) -> None:
    if key in matter.fields:
        matter.refuse(key, message)
    else:
        matter.refuse_file(path, f"`{key}`: {message}")


def _there(matter: FrontMatter, names: tuple[str, ...], remarks: list[str]) -> Iterator[str]:
    """Those of the tools that there can be. One that is narrowed is left out: a list of tools
    narrows no single call, and the whole tool would be more than the file says."""
    for written in names:
        name = _OTHER_NAMES.get(written, written)
        if name in TOOLS or (name.startswith(MCP_PREFIX) and _is_bare(name)):
            yield name
        else:
            why = "narrows a tool" if "(" in name else "is no tool here"
            remarks.append(matter.note("tools", f"{shown(written)} {why}: left out"))


def _is_bare(text: str) -> bool:
    try:
        return rules.parse(text).specifier is None
    except rules.RuleError:
        return False


def _denying(matter: FrontMatter, remarks: list[str]) -> tuple[str, ...]:
    """A rule that cannot be kept must not be dropped: without it more would be allowed."""
    key = "disallowedTools"
    found = [_renamed(text) for text in matter.texts(key) or ()]
    for text in found:
        try:
            tool = rules.parse(text).tool
        except rules.RuleError as error:
            matter.refuse(key, f"{shown(text)} is no rule: {error}")
            continue
        if tool in CONTROL_TOOLS:
            matter.refuse(key, f"{shown(text)} is no rule: it steers the run only")
        elif tool not in TOOLS and "*" not in tool and not tool.startswith(MCP_PREFIX):
            remarks.append(matter.note(key, f"{shown(text)} denies nothing: no tool is called so"))
    return tuple(found)


def _renamed(text: str) -> str:
    name, paren, rest = text.partition("(")
    return f"{_OTHER_NAMES.get(name, name)}{paren}{rest}"


def _skills(matter: FrontMatter) -> tuple[str, ...]:
    found = matter.texts("skills") or ()
    for text in found:
        if not re.fullmatch(NAME, text):
            matter.refuse("skills", f"{shown(text)} is not the name of a skill")
    return found


def _unknown(matter: FrontMatter) -> Iterator[str]:
    """What of a good file is not done as it says."""
    for key in matter.fields:
        if key in UNSUPPORTED:
            yield matter.note(key, f"not supported: {UNSUPPORTED[key]}")
        elif key not in _KNOWN and key not in _SILENT:
            yield matter.note(key, "no key of an agent; it means nothing here")
