"""TaskCreate and TaskUpdate: one list, shown after every change."""

from __future__ import annotations

import pytest
from jsonschema import ValidationError

from tests.tools.bench import Bench


def test_the_list_is_shown_as_it_grows_and_changes(bench: Bench) -> None:
    """Every call answers with the list: ids in order, a mark per status, deleted ones gone."""
    assert bench.text("TaskCreate", subject="Fix it") == "Task 1 added.\n1. [ ] Fix it"
    assert bench.text("TaskCreate", subject="Test it", description="all of it") == (
        "Task 2 added.\n1. [ ] Fix it\n2. [ ] Test it"
    )
    assert bench.text("TaskUpdate", taskId="1", status="in_progress") == (
        "Task 1 is in_progress.\n1. [>] Fix it\n2. [ ] Test it"
    )
    assert bench.text("TaskUpdate", taskId="1", status="completed", subject="Fixed") == (
        "Task 1 is completed.\n1. [x] Fixed\n2. [ ] Test it"
    )
    assert bench.text("TaskUpdate", taskId="2", status="deleted") == (
        "Task 2 is deleted.\n1. [x] Fixed"
    )
    assert bench.text("TaskCreate", subject="More") == "Task 3 added.\n1. [x] Fixed\n3. [ ] More"


def test_a_task_that_is_not_there_is_named(bench: Bench) -> None:
    """The failure lists the ids there are when the id is unknown or deleted."""
    assert str(bench.failure("TaskUpdate", taskId="1", status="completed")) == (
        "there is no task '1'; there are: none"
    )
    bench.text("TaskCreate", subject="a")
    bench.text("TaskCreate", subject="b")
    bench.text("TaskUpdate", taskId="1", status="deleted")
    assert str(bench.failure("TaskUpdate", taskId="1", subject="c")) == (
        "there is no task '1'; there are: 2"
    )


def test_an_update_changes_something(bench: Bench) -> None:
    """The failure says what can be given when an update has nothing but an id."""
    bench.text("TaskCreate", subject="a")
    assert "nothing to change" in str(bench.failure("TaskUpdate", taskId="1"))


def test_the_list_has_an_end(bench: Bench) -> None:
    """The 101st task is refused."""
    for number in range(100):
        bench.text("TaskCreate", subject=str(number))
    assert "already has 100 tasks" in str(bench.failure("TaskCreate", subject="more"))


def test_a_status_outside_the_list_does_not_fit_the_schema(bench: Bench) -> None:
    """`done` is no status."""
    with pytest.raises(ValidationError):
        bench.call("TaskUpdate", taskId="1", status="done")
