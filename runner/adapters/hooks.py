"""Runs command hooks: the event as JSON on stdin, where and as the commands of tools run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.adapters.shell_syntax import SHELL_WORDS
from runner.core import wire
from runner.core.events import Check
from runner.core.hook_answers import HookRun
from runner.core.spec import HookSpec, TaskSpec
from runner.ports import ExecRequest, Sandbox

MAX_ANSWER_BYTES = 1024 * 1024
"""What a hook may print on each stream: a new input may hold a whole file."""

INTERPRETERS = re.compile(r"bash|sh|dash|zsh|node|ruby|perl|python(\d(\.\d+)?)?")
"""Programs whose first argument, unless it is an option, is a script that has to be there."""

_WORKSPACE = re.compile(r'"?\$\{?(CLAUDE_PROJECT_DIR|AUTOPILOT_WORKSPACE)\}?"?')
_PLAIN = re.compile(r"[A-Za-z0-9_./+@%:,=-]+")


class CommandHooks:
    """The `Hooks` of one session. `env` is that of tools; hooks see a few variables more."""

    def __init__(
        self, *, sandbox: Sandbox, workspace: Path, session: Path, env: Mapping[str, str]
    ) -> None:
        self._sandbox = sandbox
        self._workspace = workspace
        self._session = session
        self._env = env

    async def run(self, hook: HookSpec, payload: Mapping[str, Any], timeout_s: float) -> HookRun:
        """See the port."""
        told = {
            "session_id": self._session.name,
            "transcript_path": str(self._session / "events.jsonl"),
            "cwd": str(self._workspace),
            **payload,
        }
        request = ExecRequest(
            argv=_argv(hook),
            cwd=self._workspace,
            timeout_s=timeout_s,
            max_output_bytes=MAX_ANSWER_BYTES,
            env=self._variables(str(payload["hook_event_name"])),
            stdin=json.dumps(wire.encode(told)).encode("ascii") + b"\n",
            split_errors=True,
        )
        try:
            result = await self._sandbox.exec(request, lambda text: None)
        except OSError as error:
            return HookRun(problem=f"it could not be started: {error.strerror}")
        if result.truncated:
            return HookRun(problem=f"it printed more than {MAX_ANSWER_BYTES} bytes")
        return HookRun(exit_code=result.exit_code, stdout=result.output, stderr=result.errors)

    def _variables(self, event: str) -> Mapping[str, str]:
        workspace = str(self._workspace)
        return {
            **self._env,
            "CLAUDE_PROJECT_DIR": workspace,
            "AUTOPILOT_WORKSPACE": workspace,
            "AUTOPILOT_HOOK_EVENT": event,
        }


def _argv(hook: HookSpec) -> tuple[str, ...]:
    if hook.args is not None:
        return (hook.command, *hook.args)
    return ("bash", "--norc", "--noprofile", "-c", hook.command)


def checks(spec: TaskSpec, environ: Mapping[str, str]) -> Iterator[Check]:
    """What is certainly wrong with a hook's command. What only the shell can tell is left to it."""
    search_path = spec.env.set.get("PATH", environ.get("PATH"))
    workspace = Path(spec.workspace.path)
    hooks = [
        (event, hook) for event, groups in spec.hooks.items() for g in groups for hook in g.hooks
    ]
    found = [
        Check(name="hooks", ok=False, detail=f"{event}: {wrong}")
        for event, hook in hooks
        if (wrong := _wrong(hook, workspace, search_path)) is not None
    ]
    yield from found
    if hooks and not found:
        yield Check(name="hooks", ok=True, detail=f"{len(hooks)} configured")


def script_files(spec: TaskSpec, workspace: Path) -> tuple[str, ...]:
    """The files in the workspace that hooks run, by their path in it: who changes one changes a
    rule."""
    words = (_words(hook)[:2] for groups in spec.hooks.values() for g in groups for hook in g.hooks)
    paths = (workspace / word for pair in words for word in pair if _is_path(word))
    inside = (Path(os.path.normpath(path)) for path in paths if path.is_file())
    names = (p.relative_to(workspace) for p in inside if p.is_relative_to(workspace))
    return tuple(dict.fromkeys(map(str, names)))


def _wrong(hook: HookSpec, workspace: Path, search_path: str | None) -> str | None:
    program, *rest = [*_words(hook), ""]
    if not _PLAIN.fullmatch(program):
        return None
    if "/" in program:
        return _wrong_file(hook, workspace / program, workspace)
    if shutil.which(program, path=search_path) is None and not _is_shells(hook, program):
        return f"`{program}` is not on PATH, and `{_shown(hook)}` needs it; install it"
    script = rest[0]
    if INTERPRETERS.fullmatch(program) and _is_path(script) and not (workspace / script).is_file():
        return f"{workspace / script} is not there, and `{_shown(hook)}` runs it; correct the path"
    return None


def _wrong_file(hook: HookSpec, path: Path, workspace: Path) -> str | None:
    if not path.is_file():
        where = f"a relative path starts at the workspace, {workspace}"
        return f"{path} is not there, and `{_shown(hook)}` runs it; correct the path: {where}"
    if shutil.which(path) is None:
        return f"{path} is not executable, and `{_shown(hook)}` runs it; run chmod +x on it"
    return None


def _words(hook: HookSpec) -> list[str]:
    """The first words of the command, with the workspace's variable filled in."""
    if hook.args is not None:
        return [hook.command, *hook.args]
    try:
        words = shlex.split(_WORKSPACE.sub(".", hook.command.splitlines()[0]))
    except (ValueError, IndexError):
        return []
    return words if all(map(_PLAIN.fullmatch, words[:1])) else []


def _is_path(word: str) -> bool:
    return bool(_PLAIN.fullmatch(word)) and not word.startswith("-") and "=" not in word


def _is_shells(hook: HookSpec, word: str) -> bool:
    """Not a program, but something that bash itself knows, or an assignment before one."""
    if hook.args is not None:
        return False
    defines_functions = "()" in hook.command or "function " in hook.command
    return word in SHELL_WORDS or "=" in word or word == "." or defines_functions


def _shown(hook: HookSpec) -> str:
    return " ".join([hook.command, *(hook.args or ())]).splitlines()[0][:80]
