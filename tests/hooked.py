"""Hooks for tests: specs that name them, answers by hand, and a runner that gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.core.events import HookEnd, HookOutcome, HookOutput, HookStart
from runner.core.hook_answers import HookRun
from runner.core.hooks import handlers, hook_type
from runner.core.spec import HookEvent, HookGroup, HookSpec, TaskSpec


def hooks_of(
    event: HookEvent, *commands: str | HookSpec, matcher: str = ""
) -> dict[str, tuple[HookGroup, ...]]:
    """The `hooks` of a spec: these commands at one event."""
    each = tuple(c if isinstance(c, HookSpec) else HookSpec(command=c) for c in commands)
    return {event: (HookGroup(hooks=each, matcher=matcher),)}


def answered(
    spec: TaskSpec,
    event: HookEvent,
    *,
    subject: str = "",
    value: str = "",
    position: int = 0,
    outcome: HookOutcome = "success",
    **output: Any,
) -> HookEnd:
    """What one of the hooks of an event said."""
    handler = handlers(spec, event, value)[position]
    return HookEnd(
        hook_invocation_id=f"{event}-{position}",
        hook_type=hook_type(event),
        hook_event_name=event,
        handler=handler.id,
        position=handler.position,
        success=outcome == "success",
        outcome=outcome,
        subject=subject,
        output=HookOutput(**output) if output else None,
    )


def begun(end: HookEnd) -> HookStart:
    """The start that belongs to an end."""
    return HookStart(
        hook_invocation_id=end.hook_invocation_id,
        hook_type=end.hook_type,
        hook_event_name=end.hook_event_name,
        handler=end.handler,
        command="a hook",
        subject=end.subject,
    )


@dataclass(slots=True, kw_only=True)
class FakeHooks:
    """Hooks that take a second and then answer by their command; it keeps what they were told."""

    answers: Mapping[str, HookRun]
    told: list[tuple[str, Mapping[str, Any], float]] = field(default_factory=list)

    async def run(self, hook: HookSpec, payload: Mapping[str, Any], timeout_s: float) -> HookRun:
        """See the port."""
        self.told.append((hook.command, payload, timeout_s))
        await asyncio.sleep(1)
        return self.answers.get(hook.command, HookRun(exit_code=0))
