"""Protected paths: what counts as a change, how it is told, and that it is an ending."""

from __future__ import annotations

from runner.core import protection, stops
from runner.core.endings import Ending
from runner.core.events import (
    Abort,
    ProtectedChange,
    RunnerProtection,
    RunnerProtectionCheck,
    SessionWarning,
)
from tests.fakes import call, done, reply
from tests.logs import Log

START = RunnerProtection(
    entries={
        "check.sh": "file 0755 aa",
        "conftest.py": "file 0644 bb",
        "hook": "link ../a file 0644 cc",
        "same": "file 0644 dd",
    },
    scripts=("check.sh",),
)
CHANGE = ProtectedChange(path=".git/config", change="has other content")
VIOLATION = RunnerProtectionCheck(changes=(CHANGE,))
CLEAN = RunnerProtectionCheck()


def guarded() -> Log:
    return Log().add(START)


def test_every_kind_of_difference_has_its_words() -> None:
    """In the order of the names; a script that a check runs is marked."""
    now = {
        "check.sh": "file 0700 aa",
        "conftest.py": "folder 755",
        "hook": "link ../b file 0644 cc",
        "new": "file 0644 ee",
    }
    found = [(one.path, one.change, one.is_check) for one in protection.differences(START, now)]
    assert found == [
        ("check.sh", "had mode 0755 and has 0700 now", True),
        ("conftest.py", "was a file and is a folder now", False),
        ("hook", "leads elsewhere now", False),
        ("new", "is new", False),
        ("same", "is gone", False),
    ]
    (content,) = protection.differences(START, {**START.entries, "check.sh": "file 0755 zz"})
    assert content == ProtectedChange(path="check.sh", change="has other content", is_check=True)
    assert protection.differences(START, START.entries) == ()


def test_what_was_written_between_two_looks_counts_though_it_is_the_same() -> None:
    """Only what was there both times."""
    found = protection.rewritten(START, {"check.sh": "1", "same": "1"}, {"check.sh": "2", "x": "1"})
    assert found == (
        ProtectedChange(path="check.sh", change="was written while the checks ran", is_check=True),
    )


def test_a_change_is_the_ending_and_names_what_changed() -> None:
    """An altered check is told apart; a long list is cut."""
    assert protection.violated(guarded().state) is None
    log = guarded().add(VIOLATION)
    assert stops.stop(log.state) == Ending(
        subtype="error_policy_violation",
        error_type="protected_path_changed",
        message="A protected path was changed: .git/config has other content. "
        "If that is wanted, lift it in `protected_paths`",
    )
    check = ProtectedChange(path="check.sh", change="is gone", is_check=True)
    many = tuple(ProtectedChange(path=str(n), change="is new") for n in range(30))
    ending = stops.stop(guarded().add(RunnerProtectionCheck(changes=(*many, check))).state)
    assert ending is not None
    assert ending.error_type == "check_tampered"
    assert ending.message.startswith("A check was changed: 0 is new; 1 is new; ")
    assert "19 is new; and 11 more." in ending.message


def test_a_change_is_worse_than_a_cap_and_undoes_a_completion() -> None:
    """Only a signal is stronger."""
    cap = SessionWarning(warning_type="error_max_turns", message="no turns")
    accepted = guarded().reply(done()).settle().add(VIOLATION)
    for log in (guarded().add(cap, VIOLATION), accepted):
        ending = stops.stop(log.state)
        assert ending is not None
        assert ending.subtype == "error_policy_violation"
    stopped = stops.stop(accepted.add(Abort(reason="remote_command", cause="SIGTERM")).state)
    assert stopped is not None
    assert stopped.error_type == "terminated"


def test_a_look_counts_until_something_is_done() -> None:
    """A tool, a model call, a resumption: then it has to be looked at again."""
    assert not protection.uncompared(Log().state)
    log = guarded()
    assert protection.uncompared(log.state)
    read = call("Read")
    assert not protection.uncompared(log.add(CLEAN).state)
    assert protection.uncompared(log.reply(reply("", read)).state)
    assert protection.uncompared(log.add(CLEAN).runs(read).state)
    assert not protection.uncompared(log.add(CLEAN).ends().state)
    assert protection.uncompared(log.resumes().state)


def test_a_signal_does_not_wait_for_a_look() -> None:
    """Whoever cancels a run wants it to end."""
    log = guarded().add(Abort(reason="user_initiated", cause="SIGINT"))
    assert log.rule == "stopped"


def test_the_first_violation_stands_until_a_resumption() -> None:
    """What is put back later was changed all the same; the next part looks for itself."""
    log = guarded().add(VIOLATION, CLEAN)
    assert log.state.violation == VIOLATION
    assert log.resumes().state.violation is None
