"""Write: a whole file, new or over one that has been read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from runner.core.events import FileEffect, FileState
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import answer, tool_spec
from runner.tools.diff import intended, unified
from runner.tools.files import (
    Content,
    SeenFiles,
    effect_of,
    judge,
    read_existing,
    replace,
)
from runner.tools.lines import decode, encode_like, normal
from runner.tools.paths import Place, Roots, lexical, locate, relative, shown


class Write:
    """Makes files; of an existing one it keeps mode, byte order mark and usual line end."""

    def __init__(self, *, roots: Roots, seen: SeenFiles, descriptions: Mapping[str, str]) -> None:
        self._roots = roots
        self._seen = seen
        self.spec = tool_spec(
            "Write",
            descriptions,
            {"file_path": {"type": "string"}, "content": {"type": "string"}},
            required=("file_path", "content"),
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        path = str(arguments["file_path"])
        return {
            "kind": "write",
            "fileName": shown(lexical(self._roots, path)),
            "diff": intended("", str(arguments["content"])),
            "intention": f"Write {shown(path)}",
            "canOfferSessionApproval": False,
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port. No await inside: a cancellation leaves the old file or the new one."""
        place, old, raw = self._plan(arguments)
        name = relative(self._roots, place.path)
        before = None if old is None else decode(old.raw)
        replace(place, raw, None if old is None else old.state)
        known = self._seen.remember(place, raw)
        verb = "Created" if old is None else "Replaced"
        details = unified(before, normal(arguments["content"]), name)
        return answer(f"{verb} {name} ({len(raw)} bytes).", context, details=details, file=known)

    def foresee(self, arguments: Mapping[str, Any]) -> FileEffect:
        """See the port."""
        return effect_of(*self._plan(arguments))

    def recall(self, effect: FileEffect) -> Literal["applied", "pending", "unknown"]:
        """See the port."""
        return judge(self._roots, self._seen, effect)

    def remember(self, file: FileState) -> None:
        """See the port."""
        self._seen.recall(file)

    def _plan(self, arguments: Mapping[str, Any]) -> tuple[Place, Content | None, bytes]:
        """Where to write, what is there, and what will be."""
        place = locate(self._roots, arguments["file_path"], to_write=True)
        old = read_existing(place)
        try:
            if old is not None:
                decode(old.raw)
                self._seen.check(place, old.raw)
            raw = encode_like(arguments["content"], b"" if old is None else old.raw)
        except UnicodeDecodeError:
            name = relative(self._roots, place.path)
            raise ToolFailure(
                f"{name} is not UTF-8; writing it here would change its encoding. Use Bash"
            ) from None
        except UnicodeEncodeError:
            raise ToolFailure("the content holds half of a surrogate pair, no text") from None
        return place, old, raw
