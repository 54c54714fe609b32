"""A tool that the task brings itself: each call is one process, behind the walls commands have."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from runner.core import wire
from runner.core.messages import ToolSpec
from runner.core.spec import CustomToolSpec
from runner.core.truncate import fit
from runner.ports import ExecRequest, ExecResult, Sandbox, ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import spill_file
from runner.tools.custom_worker import RETURNED

WORKER: Final = str(Path(__file__).with_name("custom_worker.py"))

ERROR_BYTES: Final = 2_000
"""How much of stderr the model gets, of its end, when a call failed."""

NOTE_BYTES: Final = 600
RAISED: Final = 1
"""What Python exits with after an exception, which stderr tells."""


def described(name: str, tool: CustomToolSpec) -> ToolSpec:
    """What the model is shown. Some providers refuse an object without `properties`."""
    return ToolSpec(
        name=name,
        description=tool.description.strip(),
        input_schema={"properties": {}, **tool.input_schema},
        read_only=tool.read_only,
    )


def asked_for(spec: ToolSpec, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """A call as a permission request."""
    return {
        "kind": "custom-tool",
        "toolName": spec.name,
        "toolDescription": spec.description,
        "args": dict(arguments),
        "readOnly": spec.read_only,
    }


def started(
    tool: CustomToolSpec, files: Sequence[Path], asked: Mapping[str, Any]
) -> tuple[tuple[str, ...], bytes]:
    """The program and what it reads: for a function our worker, which is told which it is.

    `asked` holds the `arguments` of a call, or the `schema` that calls will fit. Without `-P` the
    workspace, or our own folder, would be on the path of the function.
    """
    if tool.python is None:
        return tool.command, _json(asked["arguments"])
    module, _, function = tool.python.partition(":")
    told = {
        "module": module,
        "function": function,
        "folder": tool.python_path,
        "files": [str(file) for file in files],
        **asked,
    }
    return (sys.executable, "-P", WORKER), _json(told)


class CustomTool:
    """Runs a command or a function of the task. `env` is all that it sees of the environment,
    `files` those that the module of a function may be made of."""

    def __init__(
        self,
        name: str,
        tool: CustomToolSpec,
        *,
        files: Sequence[Path],
        sandbox: Sandbox,
        workspace: Path,
        env: Mapping[str, str],
    ) -> None:
        self.spec = described(name, tool)
        self._tool = tool
        self._files = files
        self._sandbox = sandbox
        self._workspace = workspace
        self._env = env
        self._done = 0 if tool.python is None else RETURNED

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return asked_for(self.spec, arguments)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        limit_s = min(self._tool.timeout or context.timeout_s, context.timeout_s)
        argv, stdin = started(self._tool, self._files, {"arguments": arguments})
        request = ExecRequest(
            argv=argv,
            cwd=self._workspace,
            timeout_s=limit_s,
            max_output_bytes=max(context.max_output_bytes - NOTE_BYTES, 0),
            spill_file=spill_file(context),
            env=self._env,
            stdin=stdin,
            split_errors=True,
        )
        try:
            result = await self._sandbox.exec(request, context.on_progress)
        except OSError as error:
            raise ToolFailure(f"{argv[0]} could not be started: {error.strerror}") from error
        is_error = result.exit_code != self._done
        return _output(result, self._notes(result, limit_s), context, is_error=is_error)

    def _notes(self, result: ExecResult, limit_s: float) -> list[str]:
        notes = []
        if result.exit_code is None:
            notes.append(f"timed out after {limit_s:g} s and was killed")
        elif result.exit_code == 0 and self._done != 0:
            notes.append("the function ended the program before it returned")
        elif result.exit_code != self._done and (self._done == 0 or result.exit_code != RAISED):
            notes.append(f"exit code {result.exit_code}")
        if result.survivors:
            notes.append(
                "still running in the background and killed, since nothing outlives a call: "
                f"{len(result.survivors)}"
            )
        return notes


def _output(
    result: ExecResult, notes: list[str], context: ToolContext, *, is_error: bool
) -> ToolOutput:
    """What it printed and, when it failed, the end of what it said on stderr."""
    file = str(result.output_file) if result.output_file else None
    after = [f"[{note}]" for note in notes]
    if is_error and (said := _last(result.errors)):
        after.insert(0, said)
    tail = "\n".join(after)
    room = context.max_output_bytes - len(tail.encode("utf-8", "replace")) - 1
    text = _readable(fit(result.output, max(room, 0), saved_as=file)).rstrip("\n")
    content = "\n".join(part for part in (text, tail) if part) or "(no output)"
    return ToolOutput(
        content=fit(content, context.max_output_bytes, saved_as=file),
        is_error=is_error,
        output_file=file,
    )


def _last(errors: str) -> str:
    """The end of stderr, from the beginning of a line on."""
    raw = _readable(errors).strip().encode("utf-8", "replace")
    if len(raw) <= ERROR_BYTES:
        return raw.decode()
    cut = raw[-ERROR_BYTES:].decode("utf-8", "ignore")
    return f"[...]\n{cut.partition(chr(10))[2] or cut}"


def _readable(text: str) -> str:
    """A NUL is legal text, but not every provider takes it."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(wire.encode(value)).encode("ascii")
