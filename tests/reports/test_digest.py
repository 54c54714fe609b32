"""The digest and the plots: what every report is made from."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from runner.core.events import (
    Event,
    HookEnd,
    Record,
    RunnerProtectionCheck,
    SessionCompactionComplete,
    SessionError,
    SessionModelChange,
    SessionResume,
)
from runner.core.events.hooks import HookError, HookOutput
from runner.core.events.own import ProtectedChange
from runner.reports.digest import Call, Note, Turn
from runner.reports.digesting import digest
from runner.reports.plots import MOST, WIDTH, plots
from tests.logs import Log, task
from tests.reports.runs import checked, ended, long_run, persisted, rendered
from tests.sample_run import SESSION_ID, denied, end, ok, reply, start, tidy_run


def shape(events: list[Event]) -> list[str]:
    """The items of a digest, in a word or two each."""
    return [
        item.kind if isinstance(item, Note) else f"turn {item.number} {item.agent}".strip()
        for item in digest(persisted(events)).items
    ]


def test_a_run_is_its_turns_and_what_is_between_them() -> None:
    """Prompt, turns with their calls and what these came to, nudge, completion."""
    assert shape(tidy_run()) == [
        "prompt",
        "turn 1",
        "turn 2",
        "turn 3",
        "nudge",
        "turn 4",
        "completion",
    ]
    run = digest(persisted(tidy_run()))
    assert [[(c.tool, c.outcome) for c in turn.calls] for turn in run.turns] == [
        [("Read", "ok")],
        [("Bash", "denied")],
        [],
        [("task_complete", "ok")],
    ]
    assert run.turns[1].calls[0].refusal.startswith("no rule allows it")
    assert run.turns[0].calls[0].output == "1\timport os"


def test_what_goes_wrong_has_a_note() -> None:
    """Failures, checks, compactions, hooks, changes of what is protected, another model."""
    hook = HookEnd(
        hook_invocation_id="h",
        hook_type="preToolUse",
        hook_event_name="PreToolUse",
        handler="x",
        position=0,
        success=True,
        outcome="success",
        subject="Bash",
        output=HookOutput(decision="deny", reason="not today"),
    )
    failed = replace(
        hook, success=False, outcome="error", output=None, error=HookError(message="no such file")
    )
    fine = replace(hook, output=HookOutput(decision="allow"))
    happened: list[Event] = [
        *checked(("tests", 1, "x")),
        SessionCompactionComplete(success=False, trigger="threshold", error="refused"),
        hook,
        failed,
        fine,
        RunnerProtectionCheck(changes=(ProtectedChange(path="a", change="changed"),)),
        RunnerProtectionCheck(),
        SessionModelChange(
            previous_model="a", new_model="b", cause="busy", reserved_cost_usd=Decimal(0)
        ),
        SessionError(error_type="quota", message="none left"),
    ]
    log = persisted([*start(), *happened])
    notes = [(note.kind, note.text) for note in digest(log).notes[1:]]
    assert notes == [
        ("checks", "attempt 1\ntests: exit code 1 after 1.2s"),
        ("compaction", "nothing came of it: refused"),
        ("hook", "PreToolUse Bash: deny: not today"),
        ("hook", "PreToolUse Bash: error: no such file"),
        ("protected", "a: changed"),
        ("model", "b takes over: busy"),
        ("error", "quota: none left"),
    ]


def test_a_sub_agent_has_turns_of_its_own() -> None:
    """Two open turns at once do not mix."""
    outer = persisted([*start(), *reply(0, "outer", ("c", "Read", {})), *reply(1, "inner"), end(1)])
    inner_from = next(i for i, r in enumerate(outer) if getattr(r.event, "turn_id", "") == "1")
    records = [
        replace(record, agent_id="agent-1") if place >= inner_from else record
        for place, record in enumerate(outer)
    ]
    tail = persisted([*ok("c", "Read", {}, "text", 0), end(0)])
    run = digest([*records, *tail])
    assert [(turn.agent, turn.text, len(turn.calls)) for turn in run.turns] == [
        ("", "outer", 1),
        ("agent-1", "inner", 0),
    ]
    assert run.calls[0].outcome == "ok"


def test_the_turns_add_up_to_the_bill() -> None:
    """What the turns cost is what the run cost, call by call."""
    run = ended()
    assert sum(turn.cost_usd for turn in run.turns) == run.state.ledger.spent_usd
    assert run.turns[-1].total_usd == run.state.ledger.spent_usd


def test_a_call_that_a_kill_left_open_is_open() -> None:
    """Asked for and begun, without a result in the log."""
    run = digest(persisted(tidy_run())[:9])
    (call,) = run.calls
    assert (call.tool, call.outcome) == ("Read", "open")
    assert isinstance(call, Call)


def test_plots_do_not_grow_with_the_run() -> None:
    """A thousand turns are drawn with a bounded number of points, inside the box."""
    for plot in plots(ended(events=long_run(1000))):
        drawn = "".join(path for _, path in plot.paths)
        assert len(drawn) < 40 * MOST * 2
        assert all(float(x) <= WIDTH for x in re.findall(r"[MH](\d+(?:\.\d+)?)", drawn))
        assert len(plot.starts) == 1000
        assert list(plot.starts) == sorted(plot.starts)


def test_a_run_without_money_or_tokens_is_drawn() -> None:
    """Nothing but zeros divides by nothing."""
    log = Log(spec=task())
    log.turn()
    run = digest(log.journal.records)
    assert [plot.title for plot in plots(run)] == ["timeline", "cost", "tokens per call", "context"]
    assert "<svg" in rendered("html", run)


def test_the_time_between_two_parts_of_a_run_is_left_out() -> None:
    """A run that was resumed a day later is no line with a point at each end."""
    first = persisted([*start(), *reply(0, "a"), end(0)])
    resume = SessionResume(
        session_id=SESSION_ID,
        resume_time="2026-01-03T03:04:05.000Z",
        event_count=len(first),
        selected_model="m",
        carries=True,
        note="Go on.",
    )
    later = persisted([resume, *reply(1, "b"), end(1)])
    records = [*first, *(replace(record, timestamp=_a_day_on(record)) for record in later)]
    run = digest(records)
    assert [item.kind for item in run.notes] == ["prompt", "resume"]
    timeline = plots(run)[0]
    assert timeline.right == "3.0s"
    assert timeline.starts == (0, 500)


def _a_day_on(record: Record) -> str:
    moment = datetime.fromisoformat(record.timestamp) + timedelta(days=1)
    return moment.isoformat(timespec="milliseconds")


def test_a_denied_call_is_seen_in_every_format() -> None:
    """Nothing is hidden: each report names it, with its reason."""
    shell = {"command": "rm -rf build"}
    asked = reply(0, "", ("c", "Bash", shell))
    run = ended(events=[*start(), *asked, *denied("c", "Bash", shell, 0), end(0)])
    for kind in ("summary", "junit", "html", "json"):
        made = rendered(kind, run)
        assert "rm -rf build" in made
        assert "no rule allows it in mode default" in made
    assert isinstance(run.items[1], Turn)
