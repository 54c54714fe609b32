"""The tools that a task brings itself: what they are made of, whether they can run, and they."""

from __future__ import annotations

import asyncio
import inspect
import os
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from runner.adapters import check_scripts, hooks, leftovers, tool_modules
from runner.adapters.daemon_thread import in_daemon_thread
from runner.adapters.local import LocalSandbox
from runner.adapters.mcp.expand import expanded, missing
from runner.adapters.redact import NOTHING
from runner.adapters.shell_syntax import shell_script
from runner.app import wiring
from runner.app.mcp_servers import Ground
from runner.core.events import Check
from runner.core.spec import CustomToolSpec, McpServerSpec, TaskSpec
from runner.ports import ExecRequest, Tool
from runner.tools.custom import CustomTool, started
from runner.tools.host_tool import HostTool

MAX_TOLD_BYTES = 4_000
"""How much is read of what a module says when it cannot be imported."""


def checks(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[Check, ...]:
    """What is certainly wrong with a tool, before anything of it runs."""
    path = spec.env.set.get("PATH", environ.get("PATH", os.defpath))
    workspace = Path(spec.workspace.path)
    wrong = [
        _bad(name, tool, why)
        for name, tool in spec.custom_tools.items()
        if (why := _wrong(tool, workspace, environ, path)) is not None
    ]
    if wrong or not spec.custom_tools:
        return tuple(wrong)
    return (Check(name="custom_tools", ok=True, detail=f"{len(spec.custom_tools)} configured"),)


async def tried(spec: TaskSpec, ground: Ground) -> tuple[Check, ...]:
    """A check for each module that cannot be imported, or whose function does not fit; they are
    imported behind the walls of the run, together. Cancelled: nothing of them is alive."""
    tools = [(name, tool) for name, tool in spec.custom_tools.items() if tool.python]
    async with asyncio.TaskGroup() as group:
        trying = [group.create_task(_try(spec, tool, ground)) for _, tool in tools]
    return tuple(
        _bad(name, tool, f"`{tool.python}` cannot be used: {why}")
        for (name, tool), task in zip(tools, trying, strict=True)
        if (why := task.result()) is not None
    )


def tools(
    spec: TaskSpec, ground: Ground, functions: Mapping[str, Callable[..., object]]
) -> Mapping[str, Tool]:
    """Every tool of the task, in its order; those whose `functions` are given are the host's."""
    return {
        name: _host_tool(name, tool, functions[name])
        if name in functions
        else CustomTool(
            name,
            _placed(tool, ground.workspace),
            files=_module_files(tool),
            sandbox=LocalSandbox(mask=ground.mask, enclosure=ground.enclosure),
            workspace=ground.workspace,
            env=_environment(spec, tool, ground),
        )
        for name, tool in spec.custom_tools.items()
    }


def listed(spec: TaskSpec, environ: Mapping[str, str]) -> Mapping[str, Tool]:
    """The same for a run that does not happen."""
    workspace = Path(spec.workspace.path)
    ground = Ground(
        workspace=workspace, session=workspace, environ=environ, mask=NOTHING, enclosure=None
    )
    return tools(spec, ground, {})


def files(spec: TaskSpec) -> Iterator[Path]:
    """What the tools are made of and the agent must not change, but for the scripts in the
    workspace, which stand beside those of the checks."""
    for tool in spec.custom_tools.values():
        for path in _module_files(tool):
            yield from dict.fromkeys((path, path.resolve()))
        if not tool.command:
            continue
        for folder in map(Path, spec.add_dirs):
            command = shlex.join(tool.command)
            yield from (
                folder / name for name in check_scripts.scripts_of(command, folder, shell_script)
            )


def _placed(tool: CustomToolSpec, workspace: Path) -> CustomToolSpec:
    """With the path of its program, where that starts in the workspace, written out."""
    program, *rest = tool.command or ("",)
    if "/" not in program:
        return tool
    return replace(tool, command=(str(workspace / program), *rest))


def _module_files(tool: CustomToolSpec) -> tuple[Path, ...]:
    if tool.python is None or tool.python_path is None:
        return ()
    return tool_modules.files_of(tool.python.partition(":")[0], Path(tool.python_path))


def _wrong(
    tool: CustomToolSpec, workspace: Path, environ: Mapping[str, str], path: str
) -> str | None:
    if lacking := missing(McpServerSpec(env=tool.env), environ):
        names = ", ".join(lacking)
        return f"{names} is not set; set it, or write a default as in ${{NAME:-default}}"
    if tool.python is not None and tool.python_path is not None:
        return tool_modules.problem(tool.python, Path(tool.python_path))
    return _wrong_command(tool.command, workspace, path) if tool.command else None


def _wrong_command(command: tuple[str, ...], workspace: Path, path: str) -> str | None:
    program, script = (*command, "")[:2]
    where = f"a relative path starts at the workspace, {workspace}"
    if "/" in program:
        file = workspace / program
        if not file.is_file():
            return f"there is no program {file}; correct `command`: {where}"
        return None if os.access(file, os.X_OK) else f"{file} is not executable; run chmod +x on it"
    if shutil.which(program, path=path) is None:
        return f"there is no program `{program}` on PATH; install it, or correct `command`"
    is_script = hooks.INTERPRETERS.fullmatch(program) and script and not script.startswith("-")
    if is_script and not (workspace / script).is_file():
        return f"there is no file {workspace / script}; correct `command`: {where}"
    return None


async def _try(spec: TaskSpec, tool: CustomToolSpec, ground: Ground) -> str | None:
    """Why the function cannot be called, in the words of Python; None when it can."""
    schema = {
        "required": [*tool.input_schema.get("required", ())],
        "properties": [*tool.input_schema.get("properties", ())],
    }
    argv, stdin = started(tool, _module_files(tool), {"schema": schema})
    request = ExecRequest(
        argv=argv,
        cwd=ground.workspace,
        timeout_s=spec.limits.start,
        max_output_bytes=MAX_TOLD_BYTES,
        env=_environment(spec, tool, ground),
        stdin=stdin,
        split_errors=True,
    )
    try:
        sandbox = LocalSandbox(mask=ground.mask, enclosure=ground.enclosure)
        result = await sandbox.exec(request, lambda text: None)
    except OSError as error:
        return f"Python could not be started: {error.strerror}"
    if result.exit_code is None:
        return f"its import took longer than {spec.limits.start:g} s (`limits.start`)"
    if result.exit_code == 0:
        return None
    return (result.errors.strip().splitlines() or [f"exit code {result.exit_code}"])[-1]


def _environment(spec: TaskSpec, tool: CustomToolSpec, ground: Ground) -> Mapping[str, str]:
    """What commands of tools see and, besides, only what the spec gives to this tool."""
    return {
        **wiring.tool_environment(spec, ground.environ),
        **expanded(McpServerSpec(env=tool.env), ground.environ).env,
        leftovers.MARK: ground.session.name,
    }


def _host_tool(name: str, tool: CustomToolSpec, function: Callable[..., object]) -> Tool:
    def start(arguments: Mapping[str, Any]) -> asyncio.Future[object]:
        if inspect.iscoroutinefunction(function):
            return asyncio.ensure_future(_staying(function(**arguments)))
        call = partial(function, **arguments)
        return asyncio.wrap_future(in_daemon_thread(call, f"tool {name}"))

    return HostTool(name, tool, start)


async def _staying(call: Awaitable[object]) -> object:
    """What it gives. Leaving the program would take the loop with it that all runs live in."""
    try:
        return await call
    except SystemExit as leave:
        raise RuntimeError(f"it left with sys.exit({leave.code!r})") from None


def _bad(name: str, tool: CustomToolSpec, why: str) -> Check:
    return Check(name="custom_tools", ok=False, detail=f"{tool.source}: {name}: {why}")
