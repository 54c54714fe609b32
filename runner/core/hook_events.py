"""What is known of hook events by their names alone: which are about calls, which cannot block."""

from __future__ import annotations

import re
from typing import Final

TOOL_EVENTS: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})
"""Events about one tool call: their matchers name tools, and `if` may look into the call."""

CANNOT_BLOCK: Final = frozenset({"SubagentStart", "SessionEnd", "Notification"})
"""Events at which a hook can hold nothing up."""

_NAMES = re.compile(r"[A-Za-z0-9_\- ,|]*")


def named(matcher: str) -> tuple[str, ...] | None:
    """The names a matcher lists; None when it is a regular expression."""
    if not _NAMES.fullmatch(matcher):
        return None
    return tuple(name for part in re.split(r"[|,]", matcher) if (name := part.strip()))
