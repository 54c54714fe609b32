"""When the conversation is compacted or cut: the rules that the decision table asks.

Rules of this file: every attempt is bounded. What does not help twice in a row is not tried again,
and a request that a provider refused as too long is repeated once.
"""

from __future__ import annotations

from runner.core.context import estimated_tokens, prefix_tokens, window_tokens
from runner.core.endings import Ending
from runner.core.events import CompactionTrigger, SessionError, SessionWarning
from runner.core.fold import NO_COMPACTION
from runner.core.state import State
from runner.core.steps import Compact, Finish, Say, Step
from runner.core.summary import level, removable, starts, unfinished
from runner.core.weight import message_bound

MAX_IN_VAIN = 2
"""Compactions in a row that fail, or are needed again after one reply."""

MIN_CUT_BYTES = 1_000


def is_open(state: State) -> bool:
    """A summary was asked for, and what became of it is not recorded."""
    return state.main.compacting is not None


def close(state: State) -> Step:
    """Record that nothing came of the open compaction."""
    started = state.main.compacting
    trigger: CompactionTrigger = "threshold" if started is None else started.trigger
    return Say(events=(unfinished(trigger, "the run was stopped"),))


def asked_for(state: State) -> bool:
    """The prompt is `/compact`."""
    return state.main.command is not None


def by_hand(state: State) -> Step:
    """Do it, if there is anything to summarise."""
    if removable(state):
        return Compact(trigger="manual")
    message = "There is nothing to compact: `/compact` goes on with a session, see `run --resume`"
    return _fail("invalid_request", message)


def done_by_hand(state: State) -> bool:
    """The compaction that the prompt asked for is over."""
    return state.main.compacted is not None


def finish_by_hand(state: State) -> Step:
    """That was all there was to do."""
    outcome = state.main.compacted
    if outcome is None or outcome.success:
        return Finish(ending=Ending(subtype="success"))
    reason = outcome.failure_reason or "malformed_replies"
    return _fail(reason, f"The conversation was not compacted: {outcome.error}")


def is_too_large(state: State) -> bool:
    """A message, or a reply with its results, does not fit the window by itself."""
    return _cut_to(state) is not None


def cut_messages(state: State) -> Step:
    """Cut what is too long, to head and tail."""
    most = _cut_to(state) or MIN_CUT_BYTES
    message = (
        f"A message does not fit the context window of {window_tokens(state)} tokens: from here "
        f"on the model is shown at most {most} bytes of each, head and tail"
    )
    return Say(
        events=(
            SessionWarning(warning_type="message_cut", message=message, max_message_bytes=most),
        )
    )


def is_overflowed(state: State) -> bool:
    """The last request was refused as too long."""
    return state.main.overflowed


def recover(state: State) -> Step:
    """Make it shorter, once; a request that is too long again ends the run."""
    if state.main.recovering or not removable(state):
        return _fail("context_limit", "The conversation is too long, and nothing shortens it")
    listed = state.window(state.model)
    switched = listed is not None and estimated_tokens(state) > listed
    return Compact(trigger="model_switch" if switched else "context_limit_retry")


def is_futile(state: State) -> bool:
    """It was tried often enough, and not given up yet."""
    main = state.main
    tried = main.vain_compactions >= MAX_IN_VAIN
    return tried and not main.without_compaction and is_full(state)


def give_up(state: State) -> Step:
    """Say that the run goes on without."""
    message = (
        f"Compaction did not help {MAX_IN_VAIN} times in a row: the run goes on without, as far as "
        "the context window reaches"
    )
    return Say(events=(SessionWarning(warning_type=NO_COMPACTION, message=message),))


def is_due(state: State) -> bool:
    """The context is above the threshold, and a summary can change that."""
    return not state.main.without_compaction and is_full(state) and removable(state) > 0


def compact(state: State) -> Step:
    """Make room before there is none."""
    return Compact(trigger="threshold")


def is_full(state: State) -> bool:
    """The next request is above the threshold of the window."""
    most = _limit(state)
    return state.need.compaction.enabled and most is not None and estimated_tokens(state) >= most


def _fail(error_type: str, message: str) -> Step:
    return Say(events=(SessionError(error_type=error_type, message=message),))


def _limit(state: State) -> int | None:
    window = window_tokens(state)
    return None if window is None else round(window * state.need.compaction.threshold)


def _cut_to(state: State) -> int | None:
    """How long a message may be, in bytes, when something has to be cut."""
    main, most = state.main, _limit(state)
    if most is None or not state.need.compaction.enabled:
        return None
    room = most - prefix_tokens(state)
    if room <= 0 or not (main.overflowed or is_full(state)):
        return None
    shown = main.messages[main.kept_from :]
    newest = shown[starts(shown, 0)[-1] :] if shown else ()
    sizes = [message_bound(message) for message in newest]
    largest = max(map(message_bound, shown), default=0)
    half = int(room / 2 / main.density)
    if sum(sizes) * main.density > room:
        wanted = level(sizes, half)
    elif largest * main.density > room:
        wanted = half
    else:
        return None
    wanted = max(wanted, MIN_CUT_BYTES)
    known = main.max_message_bytes
    is_shorter = wanted < largest and (known is None or wanted <= known // 2)
    return wanted if is_shorter else None
