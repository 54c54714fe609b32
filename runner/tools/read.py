"""Read: a window of a text file, with line numbers."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.core.truncate import fit
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import tool_spec
from runner.tools.files import MAX_WHOLE_BYTES, SeenFiles
from runner.tools.paths import Roots, lexical, locate, opened, shown

DEFAULT_LINES = 2000
MAX_LINE_CHARS = 2000
NOTE_BYTES = 400
PROBE_BYTES = 8 * 1024
YIELD_EVERY_LINES = 2000
SKIP_CHARS = 64 * 1024
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
UNDECODABLE = dict.fromkeys(range(0xDC80, 0xDD00), REPLACEMENT)


@dataclass(slots=True, kw_only=True)
class _Window:
    """The lines that were asked for, as far as they fit, and what there is to say of them."""

    first: int
    max_lines: int
    max_bytes: int
    lines: list[str]
    size_bytes: int = 0
    seen_lines: int = 0
    more: bool = False
    replaced: bool = False


class Read:
    """Shows files of any size: only the window is ever held."""

    def __init__(self, *, roots: Roots, seen: SeenFiles, descriptions: Mapping[str, str]) -> None:
        self._roots = roots
        self._seen = seen
        self.spec = tool_spec(
            "Read",
            descriptions,
            {
                "file_path": {"type": "string"},
                "offset": {"type": "integer", "minimum": 1},
                "limit": {"type": "integer", "minimum": 1},
            },
            required=("file_path",),
            read_only=True,
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        path = str(arguments["file_path"])
        return {
            "kind": "read",
            "path": shown(lexical(self._roots, path)),
            "intention": f"Read {shown(path)}",
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        place = locate(self._roots, arguments["file_path"])
        name = shown(arguments["file_path"])
        is_part = "offset" in arguments or "limit" in arguments
        window = _Window(
            first=int(arguments.get("offset", 1)),
            max_lines=int(arguments.get("limit", DEFAULT_LINES)),
            max_bytes=max(context.max_output_bytes - NOTE_BYTES, 0),
            lines=[],
        )
        known = None
        with opened(place) as (fd, state):
            if state.st_size > MAX_WHOLE_BYTES and not is_part:
                raise ToolFailure(
                    f"{name} has {state.st_size} bytes; read parts of it with offset and limit, "
                    "or search it with Grep"
                )
            _refuse_binary(os.pread(fd, PROBE_BYTES, 0), name)
            if state.st_size <= MAX_WHOLE_BYTES:
                raw = _read_up_to(fd, MAX_WHOLE_BYTES)
                _refuse_binary(raw, name)
                known = self._seen.remember(place, raw)
                await _fill(window, io.BytesIO(raw), name)
            else:
                await _fill(window, io.BufferedReader(io.FileIO(fd, closefd=False)), name)
        return ToolOutput(content=fit(_text(window, name), context.max_output_bytes), file=known)


def _refuse_binary(raw: bytes, name: str) -> None:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ToolFailure(f"{name} is UTF-16 text; convert it with Bash (iconv) to read it")
    if b"\0" in raw:
        raise ToolFailure(f"{name} is a binary file (it holds NUL bytes); it cannot be shown")


def _read_up_to(fd: int, max_bytes: int) -> bytes:
    raw = bytearray()
    while len(raw) < max_bytes and (chunk := os.read(fd, max_bytes - len(raw))):
        raw += chunk
    return bytes(raw)


async def _fill(window: _Window, stream: io.BytesIO | io.BufferedReader, name: str) -> None:
    """Read on until the window is full. Gives way to others now and then: files can be huge."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline=None)
    try:
        while line := text.readline(MAX_LINE_CHARS + 1):
            window.seen_lines += 1
            if not line.endswith("\n"):
                await _leave_line(text)
            shown_line = line.removesuffix("\n")
            if window.seen_lines >= window.first and not _take(window, shown_line, name):
                window.more = True
                return
            if window.seen_lines % YIELD_EVERY_LINES == 0:
                await asyncio.sleep(0)
    finally:
        text.detach()


async def _leave_line(text: io.TextIOWrapper) -> None:
    """Pass over the rest of a long line: a file can be a single one."""
    # Nothing is waited for: others get a turn.
    while (rest := text.readline(SKIP_CHARS)) and not rest.endswith("\n"):  # noqa: ASYNC110
        await asyncio.sleep(0)


def _take(window: _Window, line: str, name: str) -> bool:
    """Add a line to the window; False when it has no place any more."""
    if "\0" in line:
        raise ToolFailure(f"{name} is a binary file (line {window.seen_lines} holds NUL bytes)")
    clean = line.translate(UNDECODABLE)
    window.replaced |= clean != line
    if len(clean) > MAX_LINE_CHARS:
        clean = clean[:MAX_LINE_CHARS] + f" [line cut at {MAX_LINE_CHARS} characters]"
    numbered = f"{window.seen_lines:>6}\t{clean}"
    size = len(numbered.encode("utf-8", "replace")) + 1
    full = len(window.lines) >= window.max_lines or window.size_bytes + size > window.max_bytes
    if full and window.lines:
        return False
    window.lines.append(numbered)
    window.size_bytes += size
    return True


def _text(window: _Window, name: str) -> str:
    if window.seen_lines == 0:
        return f"({name} is empty)"
    if not window.lines:
        raise ToolFailure(
            f"{name} has {window.seen_lines} lines; offset {window.first} is past its end"
        )
    notes: list[str] = []
    if window.more:
        last = window.first + len(window.lines) - 1
        notes.append(f"[lines {window.first} to {last}; more follow: go on with offset={last + 1}]")
    if window.replaced:
        notes.append(f"[bytes that are not UTF-8 are shown as {REPLACEMENT}]")
    return "\n".join([*window.lines, *notes])
