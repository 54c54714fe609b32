"""The end of a run over fakes: one result, one shutdown, whatever happened."""

from __future__ import annotations

from decimal import Decimal

import pytest

from runner.core.endings import Ending
from runner.core.events import RunnerResult, SessionIdle, SessionShutdown
from runner.engine.finish import record_result
from runner.engine.recorder import Recorder
from runner.ports import ModelError
from tests.fakes import MemoryJournal, call, done, reply
from tests.logs import MODEL, task
from tests.stage import play_out, set_stage

DIFF = {
    "files": [{"path": "a.txt", "status": "modified"}],
    "lines_added": 2,
    "lines_removed": 1,
    "patch": "patch.diff",
}
DENIED = ModelError("authentication", "bad key", status_code=401)


def test_the_result_is_an_event_and_what_is_returned() -> None:
    """The event, its line and the object are one, and it names the line before it."""
    stage = play_out(set_stage([done()]))
    (event,) = stage.events(RunnerResult)
    assert event.result == stage.result
    before = MemoryJournal(lines=stage.journal.lines[:-2])
    assert event.result["log_head"] == before.head


def test_the_shutdown_sums_the_run_up() -> None:
    """Totals, models and changes are in it when the run succeeded."""
    stage = set_stage([])
    assert record_result(
        stage.recorder,
        Ending(subtype="success"),
        session_id="session-1",
        uuid="u",
        workspace_diff=DIFF,
    )["workspace_diff"] == dict(DIFF)
    assert stage.events(SessionShutdown) == [
        SessionShutdown(
            shutdown_type="routine",
            session_start_time=1767323045000,
            total_api_duration_ms=0,
            code_changes={"linesAdded": 2, "linesRemoved": 1, "filesModified": ["a.txt"]},
            model_metrics={},
            result_subtype="success",
            exit_code=0,
            total_cost_usd=Decimal(0),
            current_model=MODEL,
        )
    ]


def test_a_list_of_files_that_is_cut_comes_with_how_many_there_are() -> None:
    """The shutdown names as many files as the result does, and counts all."""
    journal, ending = MemoryJournal(), Ending(subtype="success")
    recorder = Recorder(journal=journal)
    cut = {**DIFF, "files_total": 20_000}
    record_result(recorder, ending, session_id="s", uuid="u", workspace_diff=cut)
    shutdown = journal.records[-1].event
    assert isinstance(shutdown, SessionShutdown)
    assert shutdown.code_changes["filesModified"] == ["a.txt"]
    assert shutdown.code_changes["filesModifiedTotal"] == 20_000


def test_the_shutdown_knows_each_model() -> None:
    """Requests, tokens and dollars stand by model; no change is an empty change."""
    stage = play_out(set_stage([reply("", call("Read")), done()]))
    (shutdown,) = stage.events(SessionShutdown)
    assert shutdown.model_metrics == {
        MODEL: {
            "requests": {"count": 2, "cost": 0},
            "usage": {
                "inputTokens": 200,
                "outputTokens": 20,
                "cacheReadTokens": 0,
                "cacheWriteTokens": 0,
            },
            "costUsd": 0.00022,
        }
    }
    assert shutdown.code_changes == {"linesAdded": 0, "linesRemoved": 0, "filesModified": []}


@pytest.mark.parametrize(
    ("ending", "kind", "reason"),
    [
        (Ending(subtype="success"), "routine", None),
        (Ending(subtype="error_max_turns", message="m"), "routine", None),
        (Ending(subtype="error_max_budget_usd", message="m"), "routine", None),
        (Ending(subtype="error_timeout", message="m"), "routine", None),
        (Ending(subtype="error_task_blocked", message="m"), "error", "m"),
        (
            Ending(subtype="error_during_execution", error_type="internal"),
            "error",
            "internal",
        ),
        (Ending(subtype="error_permission_denied"), "error", "error_permission_denied"),
    ],
)
def test_caps_are_routine_and_the_rest_is_an_error(
    ending: Ending, kind: str, reason: str | None
) -> None:
    """The shutdown has the SDK's two words, and a reason when it is an error."""
    recorder = set_stage([]).recorder
    record_result(recorder, ending, session_id="s", uuid="u", workspace_diff=None)
    (shutdown,) = (
        record.event
        for record in recorder.journal.records  # type: ignore[attr-defined]  # the fake's
        if isinstance(record.event, SessionShutdown)
    )
    assert (shutdown.shutdown_type, shutdown.error_reason) == (kind, reason)


def test_a_run_without_any_event_has_a_result_and_a_shutdown() -> None:
    """The two lines are there when nothing else is."""
    journal = MemoryJournal()
    ending = Ending(subtype="error_during_execution", error_type="internal", message="KeyError")
    recorder = Recorder(journal=journal)
    record_result(recorder, ending, session_id="s", uuid="u", workspace_diff=None)
    assert [record.event.type for record in journal.records] == [
        "runner.result",
        "session.shutdown",
    ]


def test_idle_is_shown_once_and_last() -> None:
    """It is not aborted when the run ended by itself, with an error too."""
    stage = play_out(set_stage([DENIED]))
    assert stage.events(SessionIdle) == [SessionIdle()]
    assert stage.sink.records[-1].event == SessionIdle()
    assert stage.result is not None
    assert (stage.result["exit_code"], stage.result["api_error_status"]) == (77, 401)


def test_the_same_run_gives_the_same_log() -> None:
    """Every byte is the same when answers, clock and ids are."""
    runs = [play_out(set_stage([reply("half"), done()], spec=task())) for _ in range(2)]
    assert runs[0].journal.lines == runs[1].journal.lines
