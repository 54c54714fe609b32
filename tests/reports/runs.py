"""Runs to report: each ending there is, a hostile one, and one of any length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

from runner.adapters import configs
from runner.adapters.ci_text import visible
from runner.core.endings import EXIT_ROWS, Ending
from runner.core.events import (
    Event,
    Record,
    RunnerVerifyComplete,
    RunnerVerifyStart,
    SessionWarning,
    ToolContent,
    ToolExecutionComplete,
    ToolExecutionStart,
    VerifyCheck,
)
from runner.core.spec import VerifySpec
from runner.reports.digest import Digest
from runner.reports.digesting import digest
from runner.reports.formats import ReportFormat, render
from tests.sample_run import SPEC, end, ok, reply, result_of, stamped, start, tidy_run

ENDINGS = [
    Ending(subtype=row.subtype, error_type=kind, message="" if row.code == 0 else f"why {kind}")
    for row in EXIT_ROWS
    if row.subtype is not None
    for kind in (row.error_types or (None,))
]
"""Every ending of the table, each error type by itself."""

FORMATS: tuple[ReportFormat, ...] = ("summary", "junit", "html", "json")

EVIL = (
    "</script></style></pre><img src=x onerror=document.title='pwned'>"
    "<script>document.title='pwned'</script>]]><!--\"'`````\n```\n::error::x\n##vso[task.x]y\n"
    "| a \\| ![](http://evil.test/x.png) {{ 7*7 }} {% raw %}\x1b[31m\x00\u202egnp\ud800\u2028&amp;"
)
"""Text that tries to leave every place it could be put in."""


def persisted(events: list[Event]) -> list[Record]:
    """The records that are in the log."""
    return [record for record in stamped(events) if record.seq is not None]


def ended(ending: Ending | None = None, events: list[Event] | None = None) -> Digest:
    """A run that ended like this; `tidy_run` unless told otherwise."""
    records = persisted(tidy_run() if events is None else events)
    diff = {
        "files": [
            {
                "path": "src/a|b.py",
                "status": "modified",
                "lines_added": 3,
                "lines_removed": 1,
                "binary": False,
            }
        ],
        "files_total": 1,
        "lines_added": 3,
        "lines_removed": 1,
        "skipped": [],
        "patch": "/home/session/patch.diff",
    }
    return digest(records, result=result_of(records, ending, workspace_diff=diff))


def checked(*outcomes: tuple[str, int | None, str]) -> list[Event]:
    """A verification: name, exit code and output of each check."""
    checks = tuple(
        VerifyCheck(name=name, passed=code == 0, exit_code=code, duration_ms=1200, output=output)
        for name, code, output in outcomes
    )
    return [
        RunnerVerifyStart(attempt=1, commands=tuple(check.name for check in checks)),
        RunnerVerifyComplete(
            attempt=1, passed=all(check.passed for check in checks), checks=checks
        ),
    ]


def with_checks(
    *outcomes: tuple[str, int | None, str], on_denied: Literal["report", "fail"] = "report"
) -> list[Event]:
    """A short run whose checks were run."""
    spec = replace(
        SPEC,
        verify=tuple(VerifySpec(run=name) for name, _, _ in outcomes),
        on_denied=on_denied,
    )
    return [*start(spec), *reply(0, "Done."), *checked(*outcomes), end(0)]


def hostile() -> list[Event]:
    """Hostile text wherever a model, a tool, a file name or a check could put it."""
    call: Mapping[str, Any] = {"command": EVIL, EVIL: EVIL, "deep": {"a": [EVIL]}}
    return [
        *start(replace(SPEC, prompt=EVIL, verify=(VerifySpec(run=EVIL),))),
        *reply(0, EVIL, ("c1", EVIL, call), ("c2", "Edit", {"file_path": EVIL})),
        *ok("c1", EVIL, call, EVIL, 0),
        ToolExecutionStart(
            tool_call_id="c2", tool_name="Edit", arguments={"file_path": EVIL}, turn_id="0"
        ),
        ToolExecutionComplete(
            tool_call_id="c2",
            tool_name="Edit",
            success=True,
            turn_id="0",
            result=ToolContent(content="ok", detailed_content=f"--- a/{EVIL}\n+{EVIL}\n-{EVIL}"),
            output_file=EVIL,
        ),
        SessionWarning(warning_type="x", message=EVIL),
        *checked((EVIL, 1, EVIL)),
        end(0),
    ]


def hostile_digest() -> Digest:
    """The same, with an ending and a diff in the same spirit."""
    records = persisted(hostile())
    result = result_of(records, Ending(subtype="error_task_blocked", message=EVIL))
    file = {"path": EVIL, "status": "added", "lines_added": 1, "lines_removed": 0, "binary": False}
    result["workspace_diff"] = {"files": [file], "lines_added": 1, "lines_removed": 0}
    result["result"] = EVIL
    return digest(records, result=result)


def long_run(turns: int) -> list[Event]:
    """A run of so many turns, two calls each, with outputs of some length."""
    spec = replace(SPEC, max_turns=turns + 1, max_budget_usd=Decimal(1000))
    events: list[Event] = list(start(spec))
    output = "\n".join(f"{number}\tdef function_{number}(value):" for number in range(40))
    for turn in range(turns):
        read, shell = {"file_path": f"src/module_{turn}.py"}, {"command": "make test"}
        first, second = f"r{turn}", f"b{turn}"
        said = f"Step {turn}: I look at the next module and run the tests."
        events += reply(turn, said, (first, "Read", read), (second, "Bash", shell))
        events += [*ok(first, "Read", read, output, turn), *ok(second, "Bash", shell, output, turn)]
        events.append(end(turn))
    return events


def rendered(kind: ReportFormat, run: Digest, patch: str = "") -> str:
    """A report as the command makes it."""
    return render(kind, run, visible=visible, config_text=configs.read_text, patch=patch)
