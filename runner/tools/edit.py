"""Edit: replace an exact text in a file that has been read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal

from runner.core.events import FileEffect, FileState
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import answer, tool_spec
from runner.tools.diff import intended, unified
from runner.tools.files import Content, SeenFiles, effect_of, judge, read_whole, replace
from runner.tools.lines import Match, decode, find, normal, splice
from runner.tools.paths import Place, Roots, lexical, locate, relative, shown

MAX_LISTED = 10
MAX_PLACES = 100_000


class Edit:
    """Changes files byte for byte: what is not replaced stays as it is."""

    def __init__(self, *, roots: Roots, seen: SeenFiles, descriptions: Mapping[str, str]) -> None:
        self._roots = roots
        self._seen = seen
        self.spec = tool_spec(
            "Edit",
            descriptions,
            {
                "file_path": {"type": "string"},
                "old_string": {"type": "string"},
                "new_string": {"type": "string"},
                "replace_all": {"type": "boolean"},
            },
            required=("file_path", "old_string", "new_string"),
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        path = str(arguments["file_path"])
        return {
            "kind": "write",
            "fileName": shown(lexical(self._roots, path)),
            "diff": intended(str(arguments["old_string"]), str(arguments["new_string"])),
            "intention": f"Edit {shown(path)}",
            "canOfferSessionApproval": False,
        }

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port. No await inside: a cancellation leaves the old file or the new one."""
        place, content, raw, matches = self._plan(arguments)
        name = relative(self._roots, place.path)
        replace(place, raw, content.state)
        known = self._seen.remember(place, raw)
        lines = _listed(matches)
        text = f"Edited {name}: {len(matches)} replaced, at line {lines}."
        details = unified(decode(content.raw), decode(raw), name)
        return answer(text, context, details=details, file=known)

    def foresee(self, arguments: Mapping[str, Any]) -> FileEffect:
        """See the port."""
        place, content, raw, _ = self._plan(arguments)
        return effect_of(place, content, raw)

    def recall(self, effect: FileEffect) -> Literal["applied", "pending", "unknown"]:
        """See the port."""
        return judge(self._roots, self._seen, effect)

    def remember(self, file: FileState) -> None:
        """See the port."""
        self._seen.recall(file)

    def _plan(self, arguments: Mapping[str, Any]) -> tuple[Place, Content, bytes, list[Match]]:
        """Where to edit, what is there, what will be, and the places that change."""
        old, new = normal(arguments["old_string"]), normal(arguments["new_string"])
        _check_strings(old, new)
        place = locate(self._roots, arguments["file_path"], to_write=True)
        name = relative(self._roots, place.path)
        content = read_whole(place)
        self._check_text(place, content.raw, name)
        matches = _matches(content.raw, old, name, every=arguments.get("replace_all", False))
        return place, content, splice(content.raw, matches, old, new), matches

    def _check_text(self, place: Place, raw: bytes, name: str) -> None:
        try:
            decode(raw)
        except UnicodeDecodeError as error:
            raise ToolFailure(
                f"{name} is not UTF-8 (byte {error.start}); change it with Bash instead"
            ) from None
        self._seen.check(place, raw)


def _check_strings(old: str, new: str) -> None:
    if not old:
        raise ToolFailure("old_string is empty; make a new file with Write")
    if old == new:
        raise ToolFailure("old_string and new_string are the same; nothing would change")
    try:
        (old + new).encode("utf-8")
    except UnicodeEncodeError:
        raise ToolFailure("a string holds half of a surrogate pair, no text") from None


def _matches(raw: bytes, old: str, name: str, *, every: bool) -> list[Match]:
    found = find(raw, old, overlapping=not every)
    matches = list(islice(found, (MAX_PLACES if every else MAX_LISTED) + 1))
    if not matches:
        raise ToolFailure(
            f"old_string is not in {name}. It must match exactly, white space included and "
            "without the line numbers that Read shows"
        )
    if len(matches) > 1 and not every:
        raise ToolFailure(
            f"old_string is in {name} more than once (lines {_listed(matches)}). "
            "Add lines around it to make it unique, or set replace_all"
        )
    if len(matches) > MAX_PLACES:
        raise ToolFailure(
            f"old_string is in {name} more than {MAX_PLACES} times; change it with Bash instead"
        )
    return matches


def _listed(matches: list[Match]) -> str:
    lines = ", ".join(str(match.line) for match in matches[:MAX_LISTED])
    return f"{lines}, ..." if len(matches) > MAX_LISTED else lines
