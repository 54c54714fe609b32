"""What a resumed session keeps of its last part, and what begins anew."""

from __future__ import annotations

from dataclasses import replace

from runner.core.events import SessionResume
from runner.core.ledger import Ledger
from runner.core.messages import Usage
from runner.core.state import State
from runner.core.subagents import going_on
from runner.core.thread import Thread, fresh_counters, past_its_ending


def resume(state: State, event: SessionResume) -> State:
    """Go on: the last ending no longer stands, unless it was a completion nobody recorded."""
    ended = state.ended
    threads = {n: _calmed(t) for n, t in state.threads.items()}
    if ended:
        threads = {name: past_its_ending(thread) for name, thread in threads.items()}
    going = replace(
        state,
        threads=threads,
        agents=going_on(state.agents, event.agents_note),
        abort=None,
        tripped=None,
        failure=None,
        result=None,
        closed=False,
        hook_stop=None if ended else state.hook_stop,
        completion=None if ended else state.completion,
        verified=None if ended else state.verified,
        judged=None,  # the files may have been changed in between
        output=None if ended else state.output,
        output_check=None,
        output_attempts=0 if ended else state.output_attempts,
        guarded=None,
        violation=None,  # what is still changed will be found again
        verify_attempts=0 if ended else state.verify_attempts,
        resumes=0 if ended else state.resumes + (0 if state.closed else 1),
        note=event.note,
        head_commit=(event.context or {}).get("headCommit", state.head_commit),
        elapsed_ms=state.duration_ms if event.carries else 0,
        first_timestamp=None,
    )
    if event.carries:
        return going
    fresh = {name: fresh_counters(thread) for name, thread in threads.items()}
    return replace(going, threads=fresh, ledger=Ledger(), usage=Usage(), denials=(), survivors=())


def _calmed(thread: Thread) -> Thread:
    """Without what was asked for by hand, and without what skills allowed: the files they stand in
    may be others now."""
    skills = tuple(replace(skill, allowed_tools=()) for skill in thread.skills)
    return replace(thread, command=None, compacted=None, skills=skills)
