"""A session goes on: what is kept, what is told, what is paid, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from runner import app
from runner.adapters import log_reader
from runner.adapters.journal import FileJournal
from runner.adapters.trees import remove_tree
from runner.app.session import open_session, widened
from runner.core.events import Record
from runner.core.spec import AutoModeSpec
from tests.app.scene import BASH, DONE, LOOK, SESSION, TALK, Scene, hash_of
from tests.e2e.papers import check_calls, check_chain, check_turns
from tests.fakes import FakeClock, RecordingSink, counted_ids
from tests.logs import task

UNKNOWN = "Its outcome is unknown: it may have had its effect"


def check_log(scene: Scene) -> None:
    """The log is one chain, its turns and calls are whole, and the result is its last word."""
    events = scene.events()
    check_chain(scene.lines(), events, SESSION)
    check_turns(events)
    check_calls(events)
    assert [e["type"] for e in events[-2:]] == ["runner.result", "session.shutdown"]
    assert events[-2]["data"] == json.loads((scene.session / "result.json").read_text())


# -- going on --------------------------------------------------------------------------------


def test_a_resumed_run_appends_and_changes_nothing_before(tmp_path: Path) -> None:
    """Row 45: the old bytes stay, then comes `session.resume` with their count, then the note."""
    scene = Scene(folder=tmp_path, replies=[LOOK, BASH, DONE])
    assert scene.run().exit_code == 0
    count = scene.kill("assistant.turn_end")
    old = scene.lines()
    assert scene.resume().exit_code == 0
    assert scene.lines()[:count] == old
    resumed = scene.events()[count]
    assert (resumed["type"], resumed["data"]["eventCount"]) == ("session.resume", count)
    assert resumed["data"]["eventsFileSizeBytes"] == len(b"".join(old))
    assert (resumed["data"]["sessionId"], resumed["data"]["carries"]) == (SESSION, True)
    (said,) = scene.of("user.message", since=count)
    assert (said["source"], "was killed" in said["content"]) == ("resume", True)
    check_log(scene)


def test_a_finished_task_is_asked_another_one(tmp_path: Path) -> None:
    """The prompt is said again, as it is, when the session had succeeded; the bill starts anew."""
    scene = Scene(folder=tmp_path, replies=[DONE, TALK, DONE])
    first = scene.run()
    scene.keys["prompt"] = "Now the other one."
    second = scene.resume()
    assert [m["content"] for m in scene.of("user.message")][:2] == ["Do it.", "Now the other one."]
    assert (second.exit_code, second.result["num_llm_calls"]) == (0, 2)
    spent = [Decimal(str(c["costUsd"])) for c in scene.of("session.usage_checkpoint")]
    bills = [Decimal(str(run.result["total_cost_usd"])) for run in (first, second)]
    assert (bills, bills[0] > 0) == ([spent[0], sum(spent[1:])], True)


def test_more_turns_let_a_capped_run_go_on(tmp_path: Path) -> None:
    """Row 47: it succeeds with a higher cap, and every call of the history has its one result."""
    scene = Scene(folder=tmp_path, replies=[LOOK, BASH, BASH, DONE], keys={"max_turns": 1})
    assert scene.run().result["subtype"] == "error_max_turns"
    scene.keys["max_turns"] = 2
    finished = scene.resume()
    assert (finished.exit_code, finished.result["num_tool_turns"]) == (0, 1)
    assert scene.outcomes() == ["ok", "not_run", "ok", "ok"]
    assert "had stopped at a limit" in scene.of("user.message")[-1]["content"]
    check_log(scene)


def test_a_first_kill_before_the_first_line_costs_nothing(tmp_path: Path) -> None:
    """The session begins where it was to begin, under its own id."""
    scene = Scene(folder=tmp_path, replies=[DONE])
    scene.run()
    (scene.session / "events.jsonl").write_bytes(b"")
    (scene.session / "result.json").unlink()
    assert scene.resume().exit_code == 0
    assert scene.events()[0]["type"] == "session.start"
    assert scene.of("session.resume") == []
    check_log(scene)


@pytest.mark.parametrize("event", ["session.start", "runner.spec", "runner.preflight"])
def test_a_kill_before_the_prompt_loses_neither_prompt_nor_system_prompt(
    tmp_path: Path, event: str
) -> None:
    """Both are on the log once, and the prompt is no word about a kill."""
    scene = Scene(folder=tmp_path, replies=[DONE])
    scene.run()
    wanted = scene.of("system.message")
    scene.kill(event)
    assert scene.resume().exit_code == 0
    assert [m["content"] for m in scene.of("user.message")] == ["Do it."]
    (system,) = scene.of("system.message")
    assert system["content"].splitlines()[0] == wanted[0]["content"].splitlines()[0]


def test_the_system_prompt_stays_byte_for_byte(tmp_path: Path) -> None:
    """It is not made again when nothing in it changed: the provider's cache holds."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE])
    scene.run()
    count = scene.kill("assistant.turn_end")
    scene.resume()
    assert scene.of("system.message", since=count) == []
    scene.keys["append_system_prompt"] = "Be brief."
    before = len(scene.events())
    scene.replies = [*scene.replies, DONE]
    scene.resume()
    (system,) = scene.of("system.message", since=before)
    assert system["content"].endswith("Be brief.")


def test_only_what_happens_now_is_shown(tmp_path: Path) -> None:
    """Row 46: the sinks get the state that was, and no record from before the resume."""
    scene = Scene(folder=tmp_path, replies=[LOOK, TALK, DONE])
    scene.run()
    count = scene.kill("assistant.turn_end")
    before = scene.state()
    scene.resume()
    old = {event["id"] for event in scene.events()[:count]}
    shown = [record for record in scene.sink.records if record.seq is not None]
    assert [record.id for record in shown] == [e["id"] for e in scene.events()[count:]]
    assert [record.id for record in scene.sink.records if record.id in old] == []
    assert scene.sink.begun_from == [before]
    assert [r.event.type for r in scene.sink.records].count("session.idle") == 1


def test_the_old_result_is_out_of_the_way_while_a_run_goes_on(tmp_path: Path) -> None:
    """It is kept under another name, and `result.json` is that of the last run."""
    scene = Scene(folder=tmp_path, replies=[TALK, DONE], keys={"max_autopilot_continues": 0})
    scene.run()
    old, count = (scene.session / "result.json").read_bytes(), len(scene.lines())
    seen: list[bool] = []

    class Watch(RecordingSink):
        def show(self, record: Record) -> None:
            seen.append((scene.session / "result.json").exists())

    scene.keys["max_autopilot_continues"] = 5
    options = app.RunOptions(home=scene.home, resume=SESSION)
    finished = app.run(scene.spec(), options, (Watch(),))
    assert finished.exit_code == 0
    assert (set(seen), len(seen) > 5) == ({False}, True)
    assert (scene.session / f"result-{count}.json").read_bytes() == old
    check_log(scene)


# -- calls and money -------------------------------------------------------------------------


def test_a_command_that_was_running_is_never_run_again(tmp_path: Path) -> None:
    """Row 51: the open call gets an `interrupted` result, and the run works on."""
    scene = Scene(folder=tmp_path, replies=[BASH, DONE])
    scene.run()
    count = scene.kill("tool.execution_start")
    assert scene.resume().exit_code == 0
    assert (scene.runs_of_bash, scene.outcomes(since=count)) == (1, ["interrupted", "ok"])
    (told, _) = scene.of("tool.execution_complete", since=count)
    assert UNKNOWN in told["error"]["message"]
    check_log(scene)


def test_a_person_is_waited_for_when_the_spec_says_so(tmp_path: Path) -> None:
    """`on_unknown: stop`: exit 78 without a model call, and the next resume goes on."""
    scene = Scene(folder=tmp_path, replies=[BASH, DONE], keys={"resume": {"on_unknown": "stop"}})
    scene.run()
    count = scene.kill("tool.execution_start")
    stopped = scene.resume()
    assert (stopped.exit_code, stopped.result["error_type"]) == (78, "preflight")
    assert stopped.result["errors"] == [
        "the outcome of Bash is unknown, and `resume.on_unknown` is stop"
    ]
    assert (scene.of("assistant.turn_start", since=count), scene.runs_of_bash) == ([], 1)
    assert scene.outcomes(since=count) == ["interrupted"]
    check_log(scene)
    assert (scene.resume().exit_code, scene.runs_of_bash) == (0, 1)


def test_without_a_doubt_nobody_is_waited_for(tmp_path: Path) -> None:
    """`on_unknown: stop` stops nothing when the kill came between two calls."""
    scene = Scene(folder=tmp_path, replies=[BASH, DONE], keys={"resume": {"on_unknown": "stop"}})
    scene.run()
    scene.kill("tool.execution_complete")
    assert (scene.resume().exit_code, scene.runs_of_bash) == (0, 1)


def test_a_resume_that_cannot_start_says_no_untruth_and_forgets_no_charge(tmp_path: Path) -> None:
    """The interrupted command is doubted and the call in flight is paid, exit 78 or not."""
    scene = Scene(folder=tmp_path, replies=[BASH, DONE], keys={"max_budget_usd": 1})
    scene.run()
    whole = scene.lines()
    count = scene.kill("tool.execution_start")
    script, scene.replies = scene.replies, [{"txt": "no such key"}]
    assert scene.resume().exit_code == 78
    assert scene.outcomes(since=count) == ["interrupted"]
    check_log(scene)

    (scene.session / "events.jsonl").write_bytes(b"".join(whole))
    scene.kill("assistant.turn_start")
    (held,) = scene.of("assistant.turn_start")
    failed = scene.resume()
    assert (failed.exit_code, failed.result["total_cost_usd"]) == (78, held["reservedCostUsd"])
    scene.replies = script
    finished = scene.resume()
    assert (finished.exit_code, finished.result["cost_basis"]) == (0, "mixed")
    assert finished.result["total_cost_usd"] > held["reservedCostUsd"]
    check_log(scene)


def test_one_cap_holds_over_a_kill(tmp_path: Path) -> None:
    """What the killed run spent and had reserved is spent: both parts stay under the cap."""
    usage = {"usage": {"input_tokens": 200_000, "output_tokens": 0}}
    replies = [{**LOOK, **usage}] * 10
    scene = Scene(folder=tmp_path, replies=replies, keys={"max_budget_usd": 0.9})
    scene.run()
    count = scene.kill("assistant.turn_start", 3)
    finished = scene.resume()
    assert finished.result["subtype"] == "error_max_budget_usd"
    charges = [Decimal(str(c["costUsd"])) for c in scene.of("session.usage_checkpoint")]
    bases = [c["basis"] for c in scene.of("session.usage_checkpoint", since=count)]
    assert bases[0] == "reserved"
    assert Decimal("0.6") < sum(charges) <= Decimal("0.9")
    assert Decimal(str(finished.result["total_cost_usd"])) == sum(charges)
    check_log(scene)


@pytest.mark.parametrize(("scope", "exit_code"), [("session", 4), ("run", 0)])
def test_the_spec_says_whether_an_ended_run_still_counts(
    tmp_path: Path, scope: str, exit_code: int
) -> None:
    """`budget_scope: session`: what earlier runs spent stays under the cap; run: it is paid for."""
    usage = {"usage": {"input_tokens": 400_000, "output_tokens": 0}}
    scene = Scene(
        folder=tmp_path,
        replies=[{**TALK, **usage}, {**DONE, **usage}],
        keys={
            "max_budget_usd": 0.7,
            "max_autopilot_continues": 0,
            "resume": {"budget_scope": scope},
        },
    )
    assert scene.run().result["error_type"] == "continues_exhausted"
    count = len(scene.lines())
    assert scene.resume().exit_code == exit_code
    assert scene.of("session.resume")[0]["carries"] == (scope == "session")
    assert len(scene.of("assistant.turn_start", since=count)) == (0 if exit_code else 1)
    check_log(scene)


def test_the_clock_goes_on_where_the_kill_stopped_it(tmp_path: Path) -> None:
    """`timeout` counts the time before the kill, not the time in between."""
    clock = FakeClock()

    class Slow(RecordingSink):
        def show(self, record: Record) -> None:
            clock.tick(1)

    scene = Scene(folder=tmp_path, replies=[LOOK, TALK, DONE], keys={"timeout": "1h"})
    world = app.World(clock=clock, new_id=counted_ids())
    options = app.RunOptions(home=scene.home, session_id=SESSION)
    app.run(scene.spec(), options, (Slow(),), world)
    scene.kill("assistant.turn_end", 2)
    used_s = scene.state().duration_ms // 1000
    assert used_s > 10
    clock.tick(10_000)
    scene.keys["timeout"] = f"{used_s - 1}s"
    late = scene.run(world, resume=SESSION)
    assert (late.exit_code, late.result["subtype"]) == (9, "error_timeout")
    assert late.result["num_llm_calls"] == 2
    assert late.result["duration_ms"] // 1000 == used_s
    check_log(scene)


@pytest.mark.parametrize("wide", [False, True])
def test_time_that_is_left_is_enough(tmp_path: Path, wide: bool) -> None:
    """A night between kill and resume, and a torn line found in the morning, use up nothing."""
    clock = FakeClock()
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE], keys={"timeout": "1h"})
    world = app.World(clock=clock, new_id=counted_ids())
    scene.run(world)
    scene.kill("assistant.turn_end")
    if wide:
        with (scene.session / "events.jsonl").open("ab") as log:
            log.write(b'{"id":"torn')
    clock.tick(36_000)
    finished = scene.run(world, resume=SESSION)
    assert (finished.exit_code, finished.result["duration_ms"]) == (0, 0)


# -- a crash loop ----------------------------------------------------------------------------


def test_a_task_that_dies_each_time_is_stopped(tmp_path: Path) -> None:
    """`limits.max_resumes`: exit 78 and the number, under one bill, until somebody allows more."""
    scene = Scene(
        folder=tmp_path,
        replies=[LOOK, DONE],
        keys={"limits": {"max_resumes": 2}, "max_budget_usd": 1},
    )
    scene.run()
    scene.kill("assistant.turn_start", 1)
    for resumes in (1, 2):
        assert scene.resume().exit_code == 0
        scene.kill("assistant.turn_start", resumes + 1)
    count = len(scene.lines())
    for stopped in (scene.resume(), scene.resume()):  # asking again changes nothing
        assert (stopped.exit_code, stopped.result["error_type"]) == (78, "preflight")
        assert stopped.result["errors"] == [
            "resumes: killed 3 times in a row; `limits.max_resumes` allows 2"
        ]
    assert scene.of("assistant.turn_start", since=count) == []
    charges = [Decimal(str(c["costUsd"])) for c in scene.of("session.usage_checkpoint")]
    assert Decimal(str(scene.state().need.max_budget_usd)) >= sum(charges)
    assert scene.state().ledger.spent_usd == sum(charges)
    scene.keys["limits"] = {"max_resumes": 3}
    assert scene.resume().exit_code == 0


def test_a_resume_that_could_not_start_uses_up_none(tmp_path: Path) -> None:
    """Four bad scripts in a row are four mistakes and no kill."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE], keys={"limits": {"max_resumes": 1}})
    scene.run()
    scene.kill("assistant.turn_end")
    script, scene.replies = scene.replies, [{"txt": "no such key"}]
    assert [scene.resume().exit_code for _ in range(4)] == [78] * 4
    scene.replies = script
    assert scene.resume().exit_code == 0


def test_mode_auto_is_wider_than_editing_and_narrower_than_everything() -> None:
    """Another model that decides may be wider, too."""
    auto = task(permission_mode="auto", auto_mode=AutoModeSpec(model="m/x"))
    assert widened(task(permission_mode="acceptEdits"), auto) == ("the mode is auto now",)
    assert widened(task(), auto) == widened(auto, task(permission_mode="default")) == ()
    other = replace(auto, auto_mode=AutoModeSpec(model="m/y"))
    assert widened(auto, other) == (
        "another model, or the same with other instructions, decides in mode auto now",
    )


# -- other spec, other place -----------------------------------------------------------------


def test_wider_rules_are_warned_about_and_told(tmp_path: Path) -> None:
    """Whoever reads the log and the model itself know what is allowed now and was not."""
    scene = Scene(
        folder=tmp_path,
        replies=[LOOK, DONE],
        keys={"allowed_tools": [], "permission_mode": "default", "disallowed_tools": ["Glob"]},
    )
    scene.run()
    count = scene.kill("assistant.turn_end")
    scene.keys |= {
        "allowed_tools": ["Bash"],
        "permission_mode": "acceptEdits",
        "disallowed_tools": [],
        "add_dirs": [str(tmp_path)],
        "env": {"pass": ["SHELL"]},
    }
    assert scene.resume().exit_code == 0
    more = (
        "`Bash` is allowed now; `Glob` is no longer denied; the mode is acceptEdits now; "
        f"{tmp_path} is open now; SHELL is passed now"
    )
    warnings = {w["warningType"]: w["message"] for w in scene.of("session.warning", since=count)}
    assert warnings == {
        "permissions_widened": f"the rules are wider than before: {more}",
        "task_changed": f"the task is not as it was when the session began: {tmp_path}/task.yaml",
    }
    (said,) = scene.of("user.message", since=count)
    assert f"The rules have changed: {more}." in said["content"]


def test_a_task_in_the_workspace_can_be_edited_after_an_ending(tmp_path: Path) -> None:
    """It was compared there, so it was not the agent."""
    scene = Scene(folder=tmp_path, replies=[LOOK, LOOK, DONE], keys={"workspace": "."})
    scene.keys |= {"max_turns": 1}
    assert scene.run().exit_code == 3
    scene.keys |= {"max_turns": 9}
    assert scene.resume().exit_code == 0


def test_an_agent_cannot_give_itself_another_task_and_kill_the_run(tmp_path: Path) -> None:
    """A task in the workspace that changed before a kill: refused, in words that help."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE], keys={"workspace": "."})
    scene.run()
    scene.kill("assistant.turn_end")
    scene.keys |= {"max_turns": 90}
    for _ in range(2):
        refused = scene.resume()
        assert (refused.exit_code, refused.result["error_type"]) == (78, "preflight")
        assert "task.yaml in the workspace is not as it was" in refused.result["errors"][0]
    del scene.keys["max_turns"]
    assert scene.resume().exit_code == 0


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (["Read"], None, "every tool is offered now"),
        (["Read"], ["Read", "Bash"], "Bash is offered now"),
        (None, ["Read"], None),
        (["Read", "Bash"], ["Read"], None),
    ],
)
def test_more_tools_are_wider_and_fewer_are_not(
    tmp_path: Path, before: list[str] | None, after: list[str] | None, words: str | None
) -> None:
    """Only what widens is said."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE])
    scene.keys |= {} if before is None else {"tools": before}
    scene.run()
    count = scene.kill("assistant.turn_end")
    scene.keys.pop("tools", None)
    scene.keys |= {} if after is None else {"tools": after}
    scene.resume()
    told = scene.of("session.warning", since=count)
    said = [w["message"] for w in told if w["warningType"] == "permissions_widened"]
    assert said == ([f"the rules are wider than before: {words}"] if words else [])


def test_another_prompt_is_said_after_the_note(tmp_path: Path) -> None:
    """The model hears why it goes on and what is asked of it now."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE])
    scene.run()
    count = scene.kill("assistant.turn_end")
    scene.keys["prompt"] = "Do it well."
    scene.resume()
    (said,) = scene.of("user.message", since=count)
    first, _, second = said["content"].partition("\n\n")
    assert (first.startswith("The run was killed"), second) == (True, "Do it well.")


def test_a_session_can_be_carried_to_another_home(tmp_path: Path) -> None:
    """A copy of its folder resumes where it is, in the same workspace."""
    scene = Scene(folder=tmp_path, replies=[LOOK, BASH, DONE])
    scene.run()
    scene.kill("assistant.turn_end")
    there = tmp_path / "elsewhere"
    shutil.copytree(scene.home, there)
    shutil.rmtree(scene.home)
    finished = scene.resume(home=there)
    assert (finished.exit_code, finished.folder) == (0, there / "session-state" / SESSION)
    assert finished.result["workspace_diff"] is not None


def test_a_moved_workspace_is_told_and_in_the_system_prompt(tmp_path: Path) -> None:
    """The model works where the files are, not where they were."""
    scene = Scene(folder=tmp_path, replies=[LOOK, LOOK, DONE])
    scene.run()
    count = scene.kill("assistant.turn_end")
    (tmp_path / "work").rename(tmp_path / "moved")
    scene.keys["workspace"] = "moved"
    assert scene.resume().exit_code == 0
    assert scene.outcomes(since=count) == ["ok", "ok"]
    (said,) = scene.of("user.message", since=count)
    assert f"The workspace is now {tmp_path / 'moved'}." in said["content"]
    (system,) = scene.of("system.message", since=count)
    assert str(tmp_path / "moved") in system["content"]


# -- forks -----------------------------------------------------------------------------------


def test_a_fork_leaves_the_original_alone(tmp_path: Path) -> None:
    """Row 48: not a byte of it changes; the copy has its history, another id, and goes on."""
    scene = Scene(folder=tmp_path, replies=[LOOK, BASH, DONE])
    scene.run()
    count = scene.kill("assistant.turn_end")
    before = hash_of(scene.session)
    forked = scene.resume(fork=True, session_id="fork")
    assert hash_of(scene.session) == before
    assert (forked.exit_code, forked.result["session_id"]) == (0, "fork")
    fork = scene.home / "session-state" / "fork"
    assert forked.folder == fork
    events = scene.events(fork)
    assert events[:count] == scene.events()
    resume = events[count]["data"]
    assert (resume["sessionId"], resume["forkedFrom"], resume["eventCount"]) == (
        "fork",
        SESSION,
        count,
    )
    assert "id: fork" in (fork / "workspace.yaml").read_text()
    check_chain((fork / "events.jsonl").read_bytes().splitlines(True), events, SESSION)
    assert scene.resume().exit_code == 0


def test_a_fork_of_a_finished_session_is_a_run(tmp_path: Path) -> None:
    """The result of the original is not taken for its own."""
    scene = Scene(folder=tmp_path, replies=[DONE, TALK, DONE])
    scene.run()
    before = hash_of(scene.session)
    forked = scene.resume(fork=True, session_id="fork")
    assert (forked.exit_code, forked.result["num_llm_calls"]) == (0, 2)
    assert hash_of(scene.session) == before


def test_a_fork_has_its_own_copy_of_the_workspace(tmp_path: Path) -> None:
    """The model is told where it works now, and the other copy stays as it was."""
    write = {"name": "Write", "arguments": {"file_path": "new.txt", "content": "hello\n"}}
    scene = Scene(
        folder=tmp_path,
        replies=[LOOK, {"tools": [write]}, DONE],
        keys={"workspace": {"path": "work", "isolation": "copy"}},
    )
    scene.run()
    scene.kill("assistant.turn_end")
    (scene.session / "workspace" / "new.txt").unlink()
    forked = scene.resume(fork=True, session_id="fork")
    fork = scene.home / "session-state" / "fork"
    assert forked.exit_code == 0
    assert (fork / "workspace" / "new.txt").read_text() == "hello\n"
    assert not (scene.session / "workspace" / "new.txt").exists()
    said = [e["data"]["content"] for e in scene.events(fork) if e["type"] == "user.message"]
    assert f"The workspace is now {fork / 'workspace'}." in said[-1]
    systems = [e["data"]["content"] for e in scene.events(fork) if e["type"] == "system.message"]
    assert (str(fork / "workspace") in systems[-1], len(systems)) == (True, 2)


def test_a_fork_copies_a_deep_workspace_with_a_pipe_in_it(tmp_path: Path) -> None:
    """A pipe nobody writes to is left out, 1,500 folders are not too many, no draft stays."""
    keys = {"workspace": {"path": "work", "isolation": "copy"}}
    scene = Scene(folder=tmp_path, replies=[LOOK, TALK, DONE], keys=keys)
    scene.run()
    scene.kill("assistant.turn_end")
    copy, fork = scene.session / "workspace", scene.home / "session-state" / "fork"
    os.mkfifo(copy / "pipe")
    here = copy
    for _ in range(1500):
        here /= "d"
        here.mkdir()
    (here / "file").write_text("x")
    try:
        options = app.RunOptions(home=scene.home, resume=SESSION, fork=True, session_id="fork")
        opened = open_session(scene.spec(), options, app.World(), "fork")
        opened.journal.close()
        copied = fork / "workspace" / here.relative_to(copy) / "file"
        assert (copied.read_text(), (fork / "workspace" / "pipe").exists()) == ("x", False)
        assert sorted(p.name for p in (scene.home / "session-state").iterdir()) == ["fork", SESSION]
    finally:
        for folder in (copy / "d", fork):
            if folder.exists():
                remove_tree(folder)  # pytest could not


def test_a_fork_to_an_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    """Neither session changes."""
    scene = Scene(folder=tmp_path, replies=[DONE])
    scene.run()
    scene.run(session_id="fork")
    before = hash_of(scene.home)
    refused = scene.resume(fork=True, session_id="fork")
    assert (refused.exit_code, refused.result["error_type"]) == (78, "preflight")
    assert "session fork is already there" in refused.result["errors"][0]
    assert hash_of(scene.home) == before


# -- what is in the way ----------------------------------------------------------------------


def test_a_session_that_is_written_is_refused(tmp_path: Path) -> None:
    """Row 54: exit 75, and not a byte of it changes."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE])
    scene.run()
    scene.kill("assistant.turn_end")
    before = hash_of(scene.session)
    other = FileJournal(scene.session, clock=FakeClock(), new_id=counted_ids(), reopen=True)
    refused = scene.resume()
    other.close()
    assert (refused.exit_code, refused.result["error_type"]) == (75, "locked")
    assert refused.result["errors"] == [f"session {SESSION} is being written by another run"]
    assert hash_of(scene.session) == before
    assert scene.resume().exit_code == 0


def test_a_torn_line_is_set_aside_and_recorded(tmp_path: Path) -> None:
    """Its bytes are kept in `torn/`, the log says so, and the run goes on."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE])
    scene.run()
    count = scene.kill("assistant.turn_end")
    size = len(b"".join(scene.lines()))
    torn = b'{"id":"x","type":"user.mess\xff'
    with (scene.session / "events.jsonl").open("ab") as log:
        log.write(torn)
    assert scene.resume().exit_code == 0
    assert scene.of("runner.log_recovered") == [
        {"offset": size, "tornBytes": len(torn), "tornFile": f"torn/{size}"}
    ]
    assert (scene.session / "torn" / str(size)).read_bytes() == torn
    assert scene.events()[count]["data"]["eventCount"] == count
    check_log(scene)


def test_a_damaged_log_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Exit 1 with line and byte, and nothing is rewritten."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE])
    scene.run()
    lines = scene.lines()
    lines[3] = lines[3].replace(b"careful", b"CAREFUL").replace(b'"seq":3', b'"seq":9')
    (scene.session / "events.jsonl").write_bytes(b"".join(lines))
    before = hash_of(scene.session)
    refused = scene.resume()
    assert (refused.exit_code, refused.result["error_type"]) == (1, "invalid_request")
    assert f"{scene.session / 'events.jsonl'}:4: " in refused.result["errors"][0]
    assert hash_of(scene.session) == before


def test_a_result_that_was_lost_is_written_and_nothing_is_asked(tmp_path: Path) -> None:
    """The run had ended in its log: the same result, the same code, no line more."""
    scene = Scene(folder=tmp_path, replies=[LOOK, TALK], keys={"max_autopilot_continues": 0})
    ended = scene.run()
    result, log = (scene.session / "result.json").read_bytes(), scene.lines()
    (scene.session / "result.json").unlink()
    again = scene.resume()
    assert (again.exit_code, again.result) == (6, ended.result)
    assert (scene.session / "result.json").read_bytes() == result
    assert (scene.lines(), scene.sink.results) == (log, [ended.result])


def test_a_resume_that_was_killed_before_its_first_line_goes_on(tmp_path: Path) -> None:
    """The old result was moved away, so it was not lost: it is not handed out once more."""
    scene = Scene(folder=tmp_path, replies=[TALK, DONE], keys={"max_autopilot_continues": 0})
    assert scene.run().exit_code == 6
    old, count = (scene.session / "result.json").read_bytes(), len(scene.lines())
    (scene.session / "result.json").rename(scene.session / f"result-{count}.json")
    scene.keys["max_autopilot_continues"] = 5
    assert scene.resume().exit_code == 0
    assert scene.events()[count]["type"] == "session.resume"
    assert (scene.session / f"result-{count}.json").read_bytes() == old
    check_log(scene)


def test_a_log_that_the_disk_withholds_is_the_disks_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 74 when it cannot be opened, read or repaired, or the lost result not written."""
    scene = Scene(folder=tmp_path, replies=[TALK, DONE], keys={"max_autopilot_continues": 0})
    scene.run()
    log, result = scene.session / "events.jsonl", scene.session / "result.json"
    with log.open("ab") as file:
        file.write(b'{"torn')

    def refused(path: Path, problem: str) -> None:
        before = hash_of(scene.session)
        ended = scene.resume()
        assert (ended.exit_code, ended.result["error_type"]) == (74, "log_write")
        assert (str(path) in ended.result["errors"][0], problem) == (True, problem)
        assert problem in ended.result["errors"][0]
        assert hash_of(scene.session) == before

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", fails)
        (scene.session / "torn").mkdir()
        (scene.session / "torn" / str(log.stat().st_size - 6)).write_bytes(b'{"torn')
        refused(log, "cannot repair")
    with monkeypatch.context() as patched:
        patched.setattr(log_reader.LogReader, "_end", fails)
        refused(log, "cannot read")
    kept = log.read_bytes()
    log.unlink()
    log.mkdir()
    refused(log, "cannot write")
    log.rmdir()
    log.write_bytes(kept)
    result.unlink()
    (scene.session / "result.json.part").mkdir()
    os.truncate(log, len(kept) - 6)
    refused(result, "cannot write")


def test_a_moved_head_is_told_to_both(tmp_path: Path) -> None:
    """The user gets a warning, the model a sentence; once, and neither when nothing moved."""
    scene = Scene(folder=tmp_path, replies=[LOOK, TALK, DONE])
    head = tmp_path / "work" / ".git" / "HEAD"
    head.parent.mkdir()
    head.write_text("a" * 40)
    scene.run()
    assert scene.of("session.start")[0]["context"]["headCommit"] == "a" * 40
    count = scene.kill("assistant.turn_end")
    scene.resume()
    assert "HEAD" not in scene.of("user.message", since=count)[0]["content"]

    scene.kill("assistant.turn_end")
    head.write_text("b" * 40)
    scene.resume()
    (warning,) = scene.of("session.warning", since=count)
    assert warning["warningType"] == "head_changed"
    wanted = f"HEAD of the workspace's repository was commit {'a' * 40}"
    told = scene.of("user.message", since=count)[0]["content"]
    assert (wanted in told, f"is {'b' * 40} now" in told) == (True, True)
    assert scene.of("session.resume")[0]["context"]["headCommit"] == "b" * 40

    again = scene.kill("user.message", 2)
    scene.resume()
    assert scene.of("session.warning", since=again) == []


def test_a_huge_torn_tail_is_set_aside_piece_by_piece(tmp_path: Path) -> None:
    """It may be larger than memory: no more than some pieces of it are held at once."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE])
    scene.run()
    scene.kill("assistant.turn_end")
    size, torn_bytes = (scene.session / "events.jsonl").stat().st_size, 24 * 1024 * 1024
    os.truncate(scene.session / "events.jsonl", size + torn_bytes)
    journal = FileJournal(scene.session, clock=FakeClock(), new_id=counted_ids(), reopen=True)
    tracemalloc.start()
    try:
        assert len(list(journal.replay())) > 3
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        journal.close()
    assert (scene.session / "torn" / str(size)).stat().st_size == torn_bytes
    assert peak_bytes < torn_bytes / 2


def test_processes_of_the_killed_run_are_ended_first(tmp_path: Path) -> None:
    """What still runs with the session's mark is killed and named before anything else."""
    scene = Scene(folder=tmp_path, replies=[LOOK, DONE])
    scene.run()
    count = scene.kill("assistant.turn_end")
    left = subprocess.Popen(["sleep", "300"], env={"AUTOPILOT_SESSION": SESSION + "-x"})
    mine = subprocess.Popen(["sleep", "301"], env={"AUTOPILOT_SESSION": SESSION})
    try:
        finished = scene.resume()
        assert (mine.wait(10), left.poll()) == (-9, None)
    finally:
        for process in (left, mine):
            process.kill()
            process.wait()
    assert finished.result["survivors"] == [f"{mine.pid} (sleep 301)"]
    types = [event["type"] for event in scene.events()[count:]]
    assert types[:3] == ["session.resume", "session.warning", "runner.spec"]
