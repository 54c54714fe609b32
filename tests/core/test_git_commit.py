"""The fold of where the workspace's repository was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from runner.core.events import Record, SessionResume, SessionStart
from runner.core.fold import apply
from runner.core.state import State

A, B = "a" * 40, "b" * 40


def started(context: Mapping[str, Any] | None) -> State:
    """A session that has begun."""
    event = SessionStart(
        session_id="s", copilot_version="1", start_time="t", selected_model="m", context=context
    )
    return apply(State(), Record(id="1", timestamp=TIME, parent_id=None, seq=0, event=event))


def resumed(state: State, context: Mapping[str, Any] | None) -> State:
    """The session has gone on."""
    event = SessionResume(
        session_id="s",
        resume_time="t",
        event_count=1,
        selected_model="m",
        carries=True,
        note="",
        context=context,
    )
    return apply(state, Record(id="2", timestamp=TIME, parent_id="1", seq=1, event=event))


TIME = "2026-01-02T03:04:05.000Z"


@pytest.mark.parametrize(
    ("before", "after", "commits"),
    [
        ({"headCommit": A}, {"headCommit": B}, (A, B)),
        ({"headCommit": A}, {"cwd": "/"}, (A, A)),
        ({"headCommit": A}, None, (A, A)),
        ({"cwd": "/"}, {"headCommit": B}, (None, B)),
        (None, None, (None, None)),
    ],
)
def test_the_last_commit_that_was_known_is_kept(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, commits: tuple[str, str]
) -> None:
    """A start and a resume say it; one that does not know it forgets nothing."""
    state = started(before)
    assert (state.head_commit, resumed(state, after).head_commit) == commits
