"""How what is shown of a conversation grows and shrinks: measured, cut, replaced by a summary."""

from __future__ import annotations

from dataclasses import replace

from runner.core.events import SessionCompactionComplete, SessionCompactionStart
from runner.core.history import History
from runner.core.messages import User
from runner.core.thread import Thread
from runner.core.weight import cut, message_bound

DENSITIES = (0.125, 1.0)
"""What is believed of a measurement: a token is at least a byte, and rarely more than eight."""


def measure(thread: Thread, tokens: int, prefix_bytes: int) -> Thread:
    """The provider counted the request that is being answered."""
    if thread.compacting is not None:  # that request has parts of its own, and lacks others
        return thread
    least, most = DENSITIES
    density = tokens / max(prefix_bytes + thread.weight, 1)
    return replace(
        thread,
        measured_tokens=tokens,
        measured_messages=len(thread.messages),
        measured_weight=thread.weight,
        density=min(max(density, least), most),
    )


def unmeasured(thread: Thread) -> Thread:
    """What was measured is not what will be sent."""
    return replace(thread, measured_tokens=None, measured_messages=0, measured_weight=0)


def overflow(thread: Thread, tokens: int) -> Thread:
    """A request of about this many tokens was refused as too long."""
    known = thread.refused_tokens
    least = tokens if known is None else min(known, tokens)
    return replace(thread, overflowed=True, refused_tokens=max(least, 1))


def cut_down(thread: Thread, max_bytes: int) -> Thread:
    """No message may be longer than this, from now on and in what is still shown."""
    past = thread.messages[: thread.kept_from]
    shown = tuple(cut(message, max_bytes) for message in thread.messages[thread.kept_from :])
    shorter = replace(thread, messages=History((*past, *shown)), max_message_bytes=max_bytes)
    recovering = thread.recovering or thread.overflowed
    return reweighed(replace(shorter, overflowed=False, recovering=recovering))


def begin_compaction(thread: Thread, event: SessionCompactionStart) -> Thread:
    """A summary is about to be asked for."""
    return replace(thread, compacting=event)


def end_compaction(thread: Thread, event: SessionCompactionComplete) -> Thread:
    """A compaction is over; a good one changes what is shown from here on."""
    thread = replace(thread, compacting=None)
    if event.is_interrupted:
        return thread
    if event.compaction_tokens_used is not None:
        thread = replace(thread, summaries=thread.summaries + 1)
    if event.trigger == "manual":
        thread = replace(thread, command=None, compacted=event)
    return _helped(thread, event) if event.success else _in_vain(thread, event)


def _helped(thread: Thread, event: SessionCompactionComplete) -> Thread:
    before = thread.replies_at_compaction
    at_once = before is not None and thread.replies <= before + 1
    after = replace(
        thread,
        overflowed=False,
        recovering=thread.recovering or thread.overflowed,
        replies_at_compaction=thread.replies,
        vain_compactions=thread.vain_compactions + 1 if at_once else 0,
    )
    return summarised(after, event.summary_content or "", event.messages_removed or 0)


def _in_vain(thread: Thread, event: SessionCompactionComplete) -> Thread:
    failed = replace(
        thread,
        vain_compactions=thread.vain_compactions + 1,
        recovering=thread.recovering or thread.overflowed,
    )
    if event.failure_reason != "context_limit":
        return failed
    return replace(overflow(failed, event.pre_compaction_tokens or 1), overflowed=thread.overflowed)


def summarised(thread: Thread, summary: str, removed: int) -> Thread:
    """The conversation with its oldest shown messages replaced by a summary."""
    kept_from = min(thread.kept_from + max(removed, 0), len(thread.messages))
    return reweighed(replace(thread, summary=User(text=summary), kept_from=kept_from))


def reweighed(thread: Thread) -> Thread:
    """Weighed anew, after what is shown has changed."""
    return unmeasured(replace(thread, weight=sum(map(message_bound, thread.view))))
