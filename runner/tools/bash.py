"""Bash: one command, in a process and a session of its own; only the directory carries over."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runner.core.shell import Script, unparsed
from runner.core.subjects import ShellCall
from runner.core.truncate import fit
from runner.ports import (
    ExecRequest,
    ExecResult,
    Sandbox,
    ToolContext,
    ToolDenied,
    ToolFailure,
    ToolOutput,
)
from runner.tools.answers import spill_file, tool_spec
from runner.tools.command_paths import Judgement
from runner.tools.paths import Roots, locate, shown

DEFAULT_S = 120.0
NOTE_BYTES = 600
MAX_INTENTION_CHARS = 200

# The shell that runs the command says at its end where it is, on descriptor 3. While the command
# runs, 3 is closed and the shell's own copy of it is not inherited, so no child holds or sees it.
# All in one line: messages of the shell then count the lines of the command from 1.
SCRIPT = (
    'eval "exec 3>&$1 $1>&-"; shift; '
    'trap \'{{ builtin printf "%s\\0" "$PWD" >&3; }} 2>/dev/null\' EXIT; '
    "eval {command} 3>&-; "
    'set -- $?; {{ builtin printf "%s\\0" "$PWD" >&3; }} 2>/dev/null; exit $1'
)


def not_parsed(command: str) -> Script:
    """For a set of tools without a parser: no rule with a specifier covers anything."""
    return unparsed("commands are not parsed here")


class Bash:
    """Runs commands through the sandbox and remembers the directory they ended in."""

    def __init__(
        self,
        *,
        roots: Roots,
        sandbox: Sandbox,
        env: Mapping[str, str],
        descriptions: Mapping[str, str],
        parse_command: Callable[[str], Script],
    ) -> None:
        self._parse = parse_command
        self._roots = roots
        self._sandbox = sandbox
        self._env = env
        self._cwd = roots.workspace
        self.spec = tool_spec(
            "Bash",
            descriptions,
            {
                "command": {"type": "string", "minLength": 1},
                "timeout": {"type": "integer", "minimum": 1},
                "description": {"type": "string"},
            },
            required=("command",),
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port. What needs a parser to be known is answered on the cautious side."""
        command = str(arguments["command"])
        first = next(iter(command.split()), "bash")
        intention = str(arguments.get("description") or command)
        return {
            "kind": "shell",
            "fullCommandText": command,
            "intention": intention[:MAX_INTENTION_CHARS],
            "commands": [{"identifier": first, "readOnly": False}],
            "possiblePaths": [],
            "possibleUrls": [],
            "hasWriteFileRedirection": ">" in command,
            "canOfferSessionApproval": False,
        }

    def command(self, arguments: Mapping[str, Any]) -> ShellCall:
        """See the port."""
        command = Judgement(
            script=self._parse(str(arguments["command"])),
            roots=self._roots,
            cwd=self._cwd,
            home=self._env.get("HOME", ""),
            search_path=self._env.get("PATH", os.defpath),
            parse=self._parse,
        )
        return command.call()

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        command = arguments["command"]
        try:
            command.encode("utf-8")
        except UnicodeEncodeError:
            raise ToolFailure("the command holds half of a surrogate pair, no text") from None
        if "\0" in command:
            raise ToolFailure("the command holds a NUL character")
        wanted_s = arguments["timeout"] / 1000 if "timeout" in arguments else DEFAULT_S
        limit_s = min(wanted_s, context.timeout_s)
        notes = self._check_cwd()
        result = await self._exec(command, limit_s, context)
        if result.exit_code is None:
            notes.append(f"timed out after {limit_s:g} s and was killed")
        elif result.exit_code != 0:
            notes.append(f"exit code {result.exit_code}")
        if result.survivors:
            notes.append(
                f"still running in the background and killed, since nothing outlives a call: "
                f"{len(result.survivors)}"
            )
        notes += self._follow(result.cwd)
        return _output(result, notes, context)

    async def _exec(self, command: str, limit_s: float, context: ToolContext) -> ExecResult:
        script = SCRIPT.format(command=shlex.quote(command))
        request = ExecRequest(
            argv=("bash", "--norc", "--noprofile", "-c", script, "bash"),
            cwd=self._cwd,
            timeout_s=limit_s,
            max_output_bytes=max(context.max_output_bytes - NOTE_BYTES, 0),
            spill_file=spill_file(context),
            env=self._env,
            report_cwd=True,
        )
        try:
            return await self._sandbox.exec(request, context.on_progress)
        except OSError as error:
            raise ToolFailure(
                f"bash could not be started: {error.strerror}. "
                "If the command is very long, Write it to a file and run that"
            ) from error

    def _check_cwd(self) -> list[str]:
        if self._cwd.is_dir():
            return []
        self._cwd = self._roots.workspace
        return ["the working directory was gone; this ran in the workspace"]

    def _follow(self, cwd: Path | None) -> list[str]:
        """Stay where the command went, inside the roots; else be back in the workspace."""
        if cwd is None:
            return []
        try:
            place = locate(self._roots, str(cwd), to_write=True)
        except ToolDenied:
            self._cwd = self._roots.workspace
            return [f"{shown(str(cwd))} is outside; the next call is in the workspace again"]
        self._cwd = place.path
        return []


def _output(result: ExecResult, notes: list[str], context: ToolContext) -> ToolOutput:
    file = str(result.output_file) if result.output_file else None
    # A NUL is legal text, but not every provider takes it.
    text = result.output.replace("\0", "\N{REPLACEMENT CHARACTER}")
    said = "\n".join(f"[{note}]" for note in notes)
    room = context.max_output_bytes - len(said.encode("utf-8", "replace")) - 1
    text = fit(text, max(room, 0), saved_as=file).rstrip("\n") or "(no output)"
    content = f"{text}\n{said}" if said else text
    return ToolOutput(
        content=fit(content, context.max_output_bytes, saved_as=file),
        is_error=result.exit_code != 0,
        output_file=file,
    )
