"""JUnit: a case for the task, each check, each cap and each denied call."""

from __future__ import annotations

import junitparser
import pytest

from runner.core.endings import Ending
from tests.reports.runs import ended, rendered, with_checks
from tests.sample_run import SPEC, denied, end, reply, start

FAILED = Ending(subtype="error_verification_failed", error_type="check_failed", message="no")


def cases(text: str) -> dict[str, tuple[str, str]]:
    """Each case by its class and name: what it came to, and the message of that."""
    found = {}
    for suite in junitparser.JUnitXml.fromstring(text.encode()):
        for case in suite:
            kind, message = "passed", ""
            for entry in case.result:
                kind, message = type(entry).__name__.lower(), entry.message
            found[f"{case.classname} {case.name}"] = (kind, message)
    return found


def test_checks_are_cases_with_their_output() -> None:
    """Each says how it ended; what it printed is there to read."""
    run = ended(FAILED, with_checks(("tests", 1, "1 failed"), ("types", 0, ""), ("slow", None, "")))
    text = rendered("junit", run)
    found = cases(text)
    assert found["tidy.verify tests"] == ("failure", "exit code 1 after 1.2s")
    assert found["tidy.verify types"] == ("passed", "")
    assert found["tidy.verify slow"] == ("failure", "stopped at its limit, after 1.2s")
    assert "1 failed" in text


def test_checks_that_were_not_run_are_skipped() -> None:
    """A run that ended before them has them as cases all the same."""
    events = [event for event in with_checks(("tests", 0, "")) if "verify" not in event.type]
    found = cases(rendered("junit", ended(Ending(subtype="error_timeout"), events)))
    assert found["tidy.verify tests"] == ("skipped", "not run")


@pytest.mark.parametrize(
    ("ending", "red"),
    [
        (Ending(subtype="error_max_turns", message="m"), "max_turns"),
        (Ending(subtype="error_max_budget_usd", message="m"), "max_budget_usd"),
        (Ending(subtype="error_timeout", message="m"), "timeout"),
        (
            Ending(subtype="error_task_incomplete", error_type="continues_exhausted", message="m"),
            "max_autopilot_continues",
        ),
        (Ending(subtype="success"), None),
        (FAILED, None),
    ],
)
def test_a_cap_is_red_when_it_ended_the_run(ending: Ending, red: str | None) -> None:
    """Each cap of the spec is a case; only the one that was reached fails."""
    found = cases(rendered("junit", ended(ending)))
    caps = {name.split()[1]: kind for name, (kind, _) in found.items() if ".caps " in name}
    assert caps == {
        name: "failure" if name == red else "passed"
        for name in ("max_turns", "max_budget_usd", "timeout", "max_autopilot_continues")
    }


@pytest.mark.parametrize(("on_denied", "kind"), [("report", "skipped"), ("fail", "failure")])
def test_a_denial_is_red_only_where_it_is_fatal(on_denied: str, kind: str) -> None:
    """A green run has no red case."""
    from dataclasses import replace

    shell = {"command": "rm -rf build"}
    spec = replace(SPEC, on_denied=on_denied)  # type: ignore[arg-type]  # one of its two words
    events = [
        *start(spec),
        *reply(0, "", ("c", "Bash", shell)),
        *denied("c", "Bash", shell, 0),
        end(0),
    ]
    found = cases(rendered("junit", ended(events=events)))
    assert found["tidy.permissions 1. Bash rm -rf build"] == (
        kind,
        "denied: no rule allows it in mode default; `allowed_tools: [Bash]` in the spec would",
    )
