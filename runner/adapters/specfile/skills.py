"""The key `skills`: `all`, or a list of names and of paths of folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from runner.adapters.specfile.problem import INVALID, At, Invalid, shown
from runner.adapters.specfile.types import ExistingPath, Schema, Text, mismatch
from runner.adapters.specfile.yaml_document import Items, Node, Scalar
from runner.core.skills import NAME
from runner.core.spec import ALL_SKILLS

_PATH_HINT = "a path has a `/` in it, as in ./skills/release; the folder holds SKILL.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skills:
    """`all`, or a list; a tuple inside, with paths made absolute."""

    expects: str = "all, or a list of names and paths of skills"

    def read(self, node: Node, at: At) -> Any:
        """See the protocol."""
        if isinstance(node, Scalar) and node.value == ALL_SKILLS[0]:
            return ALL_SKILLS
        if not isinstance(node, Items):
            word = node.text if isinstance(node, Scalar) and isinstance(node.value, str) else None
            hint = f"write [{word}]" if word and len(word) < 40 else None
            return mismatch(self, node, at, hint)
        read = [_entry(entry, at.item(n)) for n, entry in enumerate(node.entries)]
        return INVALID if INVALID in read else tuple(dict.fromkeys(read))

    def write(self, value: Any) -> Any:
        """See the protocol."""
        return value[0] if value == ALL_SKILLS else list(value)

    def schema(self) -> Schema:
        """See the protocol."""
        entry = {"type": "string", "pattern": f"^{NAME}$|/"}
        return {"anyOf": [{"const": ALL_SKILLS[0]}, {"type": "array", "items": entry}]}


def _entry(node: Node, at: At) -> Any:
    text = Text(expects="the name of a skill, or the path of its folder").read(node, at)
    if isinstance(text, Invalid):
        return text
    if "/" in text:
        return ExistingPath(kind="folder").read(node, at)
    if text == ALL_SKILLS[0]:
        return at.refuse(node.mark, "`all` stands alone", "write skills: all, or name them")
    if not re.fullmatch(NAME, text):
        return at.refuse(node.mark, f"{shown(text)} is not the name of a skill", _PATH_HINT)
    return text
