"""Grep: search file contents with ripgrep, or with a script of our own where there is none.

Both run as a process that can be killed, and both answer in one form: a path, a NUL, and the
rest of the line. What the model reads is made from that here.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.ports import ExecRequest, ExecResult, Sandbox, ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import answer, tool_spec
from runner.tools.paths import Place, Roots, lexical, locate, opened, relative, shown
from runner.tools.programs import found

RIPGREP_S = 20.0
WORKER_S = 5.0
RAW_BYTES = 1024 * 1024
PROBE_BYTES = 8 * 1024
MAX_LINE_CHARS = 500
DEFAULT_HEAD = 250
WORKER = str(Path(__file__).with_name("grep_worker.py"))
MARK = re.compile(r"\d+[:-]")
NO_TEXT = re.compile("[\0\ud800-\udfff]")

MODES = ("files_with_matches", "content", "count")
FIXED_OPTIONS = (
    "--no-config",
    "--no-follow",
    "--no-messages",
    "--no-ignore-global",
    "--no-ignore-dot",
    "--no-ignore-exclude",
    "--color=never",
    "--no-heading",
    "--with-filename",
    "--line-number",
    "--null",
    "--crlf",
    "--sort=path",
)


class Grep:
    """Searches below one directory, or in one file; obeys `.gitignore`."""

    def __init__(
        self,
        *,
        roots: Roots,
        sandbox: Sandbox,
        env: Mapping[str, str],
        descriptions: Mapping[str, str],
    ) -> None:
        self._roots = roots
        self._sandbox = sandbox
        self._env = env
        # Reading asks no rule, so no program of the workspace may run for it.
        self._ripgrep = found("rg", env.get("PATH", os.defpath), roots)
        count = {"type": "integer", "minimum": 0}
        self.spec = tool_spec(
            "Grep",
            descriptions,
            {
                "pattern": {"type": "string", "minLength": 1},
                "path": {"type": "string"},
                "glob": {"type": "string", "minLength": 1},
                "type": {"type": "string", "pattern": "^[A-Za-z0-9_+-]+$"},
                "output_mode": {"enum": list(MODES)},
                "-A": count,
                "-B": count,
                "-C": count,
                "-n": {"type": "boolean"},
                "-i": {"type": "boolean"},
                "multiline": {"type": "boolean"},
                "head_limit": count,
            },
            required=("pattern",),
            read_only=True,
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return {
            "kind": "read",
            "path": shown(lexical(self._roots, str(arguments.get("path") or "."))),
            "intention": f"Search for {shown(str(arguments['pattern']))}",
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        place = locate(self._roots, arguments.get("path") or ".")
        _check(place)
        request = _request(arguments, place)
        if any(NO_TEXT.search(request[part] or "") for part in ("pattern", "glob")):
            raise ToolFailure("the pattern or the glob holds a NUL or half of a surrogate pair")
        result = await self._search(request, place, context)
        records = _records(result, request)
        return answer(self._text(records, request, place, arguments, result), context)

    async def _search(
        self, request: Mapping[str, Any], place: Place, context: ToolContext
    ) -> ExecResult:
        if self._ripgrep is not None:
            argv, limit_s = _ripgrep_argv(self._ripgrep, request), RIPGREP_S
        else:
            argv, limit_s = (sys.executable, "-I", WORKER, json.dumps(request)), WORKER_S
        limit_s = min(limit_s, context.timeout_s)
        try:
            result = await self._sandbox.exec(
                ExecRequest(
                    argv=argv,
                    cwd=place.root,
                    timeout_s=limit_s,
                    max_output_bytes=RAW_BYTES,
                    env=self._env,
                ),
                lambda text: None,
            )
        except OSError as error:
            raise ToolFailure(f"the search could not be started: {error.strerror}") from error
        if result.exit_code is None:
            raise ToolFailure(
                f"the search was stopped after {limit_s:g} s. Narrow it with path, glob or type, "
                "and avoid nested repetition such as (a+)+ in the pattern"
            )
        return result

    def _text(
        self,
        records: list[tuple[str, str]],
        request: Mapping[str, Any],
        place: Place,
        arguments: Mapping[str, Any],
        result: ExecResult,
    ) -> str:
        numbered = arguments.get("-n", True)
        lines = [self._line(record, request["mode"], place.root, numbered) for record in records]
        head = int(arguments.get("head_limit", DEFAULT_HEAD)) or len(lines)
        notes = []
        if len(lines) > head:
            notes.append(f"[the first {head} of {len(lines)} lines; see head_limit]")
        if result.truncated:
            notes.append("[results in the middle were left out: there are too many]")
        return "\n".join([*lines[:head], *notes]) or "No matches found."

    def _line(self, record: tuple[str, str], mode: str, root: Path, numbered: bool) -> str:
        name, rest = record
        if not name:
            return rest
        name = relative(self._roots, root / name)
        if mode == "files_with_matches":
            return name
        mark = MARK.match(rest) if mode == "content" else None
        if mark is None:
            return f"{name}:{rest}"
        text = rest[mark.end() :]
        if len(text) > MAX_LINE_CHARS:
            text = f"{text[:MAX_LINE_CHARS]} [line cut at {MAX_LINE_CHARS} characters]"
        kind = mark.group()[-1]
        number = mark.group() if numbered else ""
        return f"{name}{kind}{number}{text}"


def _check(place: Place) -> None:
    """Directories are searched; a file must be a text file. Raises `ToolFailure`."""
    if place.path.is_dir():
        return
    with opened(place) as (fd, _):
        if b"\0" in os.pread(fd, PROBE_BYTES, 0):
            raise ToolFailure(f"{shown(str(place.path))} is a binary file; it is not searched")


def _request(arguments: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """The call with its defaults, in the form the worker takes."""
    around = int(arguments.get("-C", 0))  # 2.0 is an integer in JSON Schema
    mode = arguments.get("output_mode", "files_with_matches")
    return {
        "root": str(place.root),
        "path": "/".join(place.parts) or ".",
        "pattern": arguments["pattern"],
        "glob": arguments.get("glob"),
        "type": arguments.get("type"),
        "mode": mode,
        "before": int(arguments.get("-B", around)) if mode == "content" else 0,
        "after": int(arguments.get("-A", around)) if mode == "content" else 0,
        "ignore_case": arguments.get("-i", False),
        "multiline": arguments.get("multiline", False),
    }


def _ripgrep_argv(ripgrep: str, request: Mapping[str, Any]) -> tuple[str, ...]:
    argv = [ripgrep, *FIXED_OPTIONS]
    match request["mode"]:
        case "files_with_matches":
            argv.append("--files-with-matches")
        case "count":
            argv.append("--count")
        case _:
            argv += [f"--before-context={request['before']}", f"--after-context={request['after']}"]
    if request["ignore_case"]:
        argv.append("--ignore-case")
    if request["multiline"]:
        argv += ["--multiline", "--multiline-dotall"]
    if request["glob"] is not None:
        argv.append(f"--glob={request['glob']}")
    if request["type"] is not None:
        argv.append(f"--type={request['type']}")
    return (*argv, f"--regexp={request['pattern']}", "--", f"./{request['path']}")


def _records(result: ExecResult, request: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was found, as path and rest of the line; a separator has no path.

    Raises `ToolFailure` with the program's own words when it found fault with the request.
    """
    records: list[tuple[str, str]] = []
    said: list[str] = []
    output = result.output
    if request["mode"] == "files_with_matches":
        output = output.replace("\0", "\0\n")  # only here the NUL is the end of the record
    for line in output.removesuffix("\n").split("\n"):
        name, nul, rest = line.partition("\0")
        if nul:
            records.append((os.path.normpath(name), rest.removesuffix("\r")))
        elif line.removesuffix("\r") == "--" and request["mode"] == "content":
            records.append(("", "--"))
        else:
            said.append(line)
    if result.exit_code not in (0, 1) and not records:
        raise ToolFailure("\n".join(said).strip() or "the search failed; some files are unreadable")
    return records
