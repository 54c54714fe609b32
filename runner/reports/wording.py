"""What single events come to in words, the same in every report."""

from __future__ import annotations

from runner.core.events import HookEnd, SessionCompactionComplete, VerifyCheck
from runner.core.words import count, span


def how_it_went(check: VerifyCheck) -> str:
    """The outcome of one check and how long it took."""
    took = span(check.duration_ms / 1000)
    if check.passed:
        return f"passed in {took}"
    if check.exit_code is None:
        return f"stopped at its limit, after {took}"
    return f"exit code {check.exit_code} after {took}"


def compaction(event: SessionCompactionComplete) -> str:
    """What a summary stands for, or why there is none."""
    if not event.success:
        return f"nothing came of it: {event.error}"
    before, after = event.pre_compaction_tokens or 0, event.post_compaction_tokens or 0
    removed = count(event.messages_removed or 0, "message")
    return f"a summary stands for {removed}: about {before:,} tokens before, {after:,} now"


def hook(event: HookEnd) -> str:
    """A hook that decided something, or that failed; empty for all others."""
    name = f"{event.hook_event_name} {event.subject}".strip()
    if not event.success:
        why = event.error.message if event.error else event.outcome
        return f"{name}: {event.outcome}: {why}"
    decided = event.output
    if decided is None or decided.decision in (None, "allow"):
        return ""
    return f"{name}: {decided.decision}: {decided.reason or 'no reason given'}"
