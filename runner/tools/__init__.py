"""What the model can call: the built-in tools, in the order in which it sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runner.core.shell import Script
from runner.ports import Sandbox, Tool
from runner.tools.agent import Agent
from runner.tools.ask import AskUserQuestion
from runner.tools.bash import Bash, not_parsed
from runner.tools.complete import control_specs
from runner.tools.edit import Edit
from runner.tools.files import SeenFiles
from runner.tools.glob import Glob
from runner.tools.grep import Grep
from runner.tools.paths import Roots
from runner.tools.read import Read
from runner.tools.structured_output import output_spec
from runner.tools.tasks import TaskCreate, TaskList, TaskUpdate
from runner.tools.write import Write

__all__ = ["Agent", "Roots", "builtin_tools", "control_specs", "output_spec"]


def builtin_tools(
    *,
    roots: Roots,
    sandbox: Sandbox,
    env: Mapping[str, str],
    descriptions: Mapping[str, str],
    parse_command: Callable[[str], Script] = not_parsed,
    search: Sandbox | None = None,
) -> tuple[Tool, ...]:
    """A fresh set for one run: what was read, the task list and the directory start empty.

    `env` is all that processes get; `descriptions` are the texts of `prompts/tools.yaml`.
    `parse_command` says what a command would run; `search` is where ripgrep does, if elsewhere.
    Raises `KeyError` for a text that is missing.
    """
    seen = SeenFiles()
    tasks = TaskList()
    return (
        Read(roots=roots, seen=seen, descriptions=descriptions),
        Write(roots=roots, seen=seen, descriptions=descriptions),
        Edit(roots=roots, seen=seen, descriptions=descriptions),
        Glob(roots=roots, descriptions=descriptions),
        Grep(roots=roots, sandbox=search or sandbox, env=env, descriptions=descriptions),
        Bash(
            roots=roots,
            sandbox=sandbox,
            env=env,
            descriptions=descriptions,
            parse_command=parse_command,
        ),
        TaskCreate(tasks=tasks, descriptions=descriptions),
        TaskUpdate(tasks=tasks, descriptions=descriptions),
        AskUserQuestion(descriptions=descriptions),
    )
