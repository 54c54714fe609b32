"""Which hooks an event concerns, and what their answers mean together.

Events, matchers and the order of decisions are those of Claude Code's hooks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from runner.core import wire
from runner.core.events import HookEnd, HookOutput
from runner.core.hook_events import named
from runner.core.messages import ToolResult
from runner.core.spec import HookEvent, HookSpec, TaskSpec

_IS_OVER = frozenset({"SessionEnd", "Notification"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """One hook of an event. `id` is the same in every run with the same words in its spec."""

    id: str
    position: int
    hook: HookSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What all PreToolUse hooks say about a call, together."""

    decision: Literal["allow", "deny", "ask"] | None = None
    reason: str = ""
    updated_input: Mapping[str, Any] | None = None


# -- which hooks --------------------------------------------------------------------------------


def handlers(spec: TaskSpec, event: HookEvent, value: str = "") -> tuple[Handler, ...]:
    """The hooks whose matcher fits `value`, in the order of the spec, equal ones once."""
    found: dict[str, Handler] = {}
    position = 0
    for group in spec.hooks.get(event, ()):
        for hook in group.hooks:
            id_ = _id(hook)
            if id_ not in found and matches(group.matcher, value):
                found[id_] = Handler(id=id_, position=position, hook=hook)
            position += 1
    return tuple(found.values())


def matches(matcher: str, value: str) -> bool:
    """Nothing or `*` fits all; names between `|` or `,` are exact; else it is a regular expression
    that has to be found somewhere."""
    if matcher in ("", "*"):
        return True
    if (names := named(matcher)) is not None:
        return value in names
    return re.search(matcher, value) is not None


def hook_type(event: HookEvent) -> str:
    """`preToolUse`: the event in the log's spelling."""
    return event[0].lower() + event[1:]


def key(event: HookEvent, subject: str) -> str:
    """What answers are remembered under."""
    return f"{event}:{subject}"


def _id(hook: HookSpec) -> str:
    words = json.dumps(wire.encode(hook), sort_keys=True)
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:12]


# -- several answers ----------------------------------------------------------------------------


def ruling(outputs: Sequence[HookOutput]) -> Ruling:
    """Deny before ask before allow. Of several new inputs the last one in the spec counts."""
    updated = [output.updated_input for output in outputs if output.updated_input is not None]
    last = updated[-1] if updated else None
    for rank in ("deny", "ask", "allow"):
        said = [output for output in outputs if output.decision == rank]
        if said:
            reason = "; ".join(output.reason for output in said if output.reason)
            return Ruling(decision=said[0].decision, reason=reason, updated_input=last)  # type: ignore[arg-type]  # one of the three
    return Ruling(updated_input=last)


def block_reason(outputs: Iterable[HookOutput]) -> str | None:
    """Why these hooks block; None when none does."""
    reasons = [output.reason or "" for output in outputs if output.decision == "block"]
    return "\n".join(reasons) if reasons else None


def in_order(ends: Iterable[HookEnd]) -> tuple[HookOutput, ...]:
    """The answers in the order of the spec, whichever came first."""
    ordered = sorted(ends, key=lambda end: end.position)
    return tuple(end.output for end in ordered if end.output is not None)


def stop_reason(end: HookEnd) -> str | None:
    """Why the run must not go on after this answer; None when it may."""
    event, output = end.hook_event_name, end.output
    if output is None or event in _IS_OVER:
        return None
    if output.stop_reason is not None:
        return f"A {event} hook stopped the run: {output.stop_reason}"
    if event == "UserPromptSubmit" and output.decision == "block":
        return f"A {event} hook rejected the prompt: {output.reason}"
    return None


def adds(end: HookEnd) -> str | None:
    """What the model is told, before it is asked again, because of this answer."""
    if end.hook_event_name not in ("UserPromptSubmit", "SessionStart", "SubagentStart"):
        return None
    return end.output.additional_context if end.output else None


def noted(
    result: ToolResult, heard: Mapping[str, tuple[HookEnd, ...]], sentences: Mapping[str, str]
) -> ToolResult:
    """The result as the model gets it: with what hooks changed, and what they add to it."""
    events: tuple[HookEvent, ...] = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
    about = [out for event in events for out in in_order(heard.get(key(event, result.call_id), ()))]
    content = result.content
    for output in about:
        content = content if output.updated_tool_output is None else output.updated_tool_output
    said = "\n\n".join(_said(about, sentences))
    return replace(result, content=f"{content}\n\n{said}" if said else content)


def _said(about: Iterable[HookOutput], sentences: Mapping[str, str]) -> Iterator[str]:
    for output in about:
        if output.decision == "block":
            yield sentences.get("hook_feedback", "{text}").replace("{text}", output.reason or "")
        if output.additional_context:
            context = output.additional_context
            yield sentences.get("hook_context", "{text}").replace("{text}", context)
