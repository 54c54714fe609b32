"""stderr: text of others made inert, then colour and the markers of CI systems, or JSON."""

from __future__ import annotations

import json
import logging
import os
import warnings
from typing import Any

import pytest

from runner.adapters.ci_text import Ci
from runner.adapters.log import Line, LogFormat, open_log
from runner.adapters.outlet import Outlet

AT = "2026-01-02T03:04:05.000Z"
OPEN = Line(event="turn", spans=(("plain", "turn 3  100%"),), fields={"id": 3}, group="open", at=AT)
CLOSE = Line(event="turn", fields={"id": 3}, group="close", at=AT)


def logged(
    *lines: Line,
    log_format: LogFormat = "plain",
    colour: bool = False,
    ci: Ci | None = None,
    meanwhile: Any = None,
) -> str:
    """What comes out on the descriptor."""
    reader, writer = os.pipe()
    outlet = Outlet(writer)
    with open_log(outlet, log_format=log_format, colour=colour, ci=ci) as say:
        for line in lines:
            say(line)
        if meanwhile is not None:
            meanwhile()
    outlet.close()
    os.close(writer)
    with os.fdopen(reader, newline="") as file:
        return file.read()


def test_text_of_others_is_inert() -> None:
    """Commands and control characters in a line are written out, in every part of it."""
    line = Line(event="x", spans=(("plain", "::error::x\n"), ("bad", "##vso[x]\x1b[2J")))
    assert logged(line) == "\\::error::x\n#\\#vso[x]\\x1b[2J\n"


def test_colour_is_added_after_that_and_only_when_asked_for() -> None:
    """Styles are colours on a terminal and nothing anywhere else."""
    line = Line(event="x", spans=(("good", "ok"), ("plain", " Read")))
    assert logged(line, log_format="console", colour=True) == "\x1b[32mok\x1b[0m Read\n"
    assert logged(line) == "ok Read\n"


@pytest.mark.parametrize(
    ("ci", "text"),
    [
        (None, "turn 3  100%\n"),
        ("other", "turn 3  100%\n"),
        ("github", "::group::turn 3  100%25\n::endgroup::\n"),
        (
            "gitlab",
            "\x1b[0Ksection_start:1767323045:turn_3\r\x1b[0Kturn 3  100%\n"
            "\x1b[0Ksection_end:1767323045:turn_3\r\x1b[0K\n",
        ),
    ],
)
def test_a_group_is_marked_where_a_ci_system_folds_it(ci: Ci | None, text: str) -> None:
    """GitHub and GitLab get their markers, all others the title alone."""
    assert logged(OPEN, CLOSE, ci=ci) == text


def test_json_is_one_object_a_line_with_words_and_numbers() -> None:
    """The event, its time, its words and its fields; a closed group says nothing."""
    text = logged(OPEN, CLOSE, log_format="json", ci="github")
    assert json.loads(text) == {
        "event": "turn",
        "level": "info",
        "timestamp": AT,
        "message": "turn 3 100%",
        "id": 3,
    }
    assert text.count("\n") == 1


def test_the_warnings_of_libraries_come_out_the_same_way() -> None:
    """A library's log record is a line like any other, inert and named after its logger."""

    def meanwhile() -> None:
        logging.getLogger("some_library").warning("odd\n::error::%s", "x")
        logging.getLogger("some_library").info("chatter")

    assert logged(meanwhile=meanwhile) == "warning some_library: odd\n\\::error::x\n"


def test_python_warnings_come_out_the_same_way() -> None:
    """A warning of the interpreter does not bypass the log."""

    def meanwhile() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            logging.captureWarnings(True)
            warnings.warn("old", DeprecationWarning, stacklevel=1)

    assert "py.warnings: " in logged(meanwhile=meanwhile)


def test_a_library_error_keeps_its_trace() -> None:
    """An exception that a library logs is shown with where it came from."""

    def meanwhile() -> None:
        try:
            raise ValueError("bad")
        except ValueError:
            logging.getLogger("asyncio").exception("task failed")

    text = logged(meanwhile=meanwhile)
    assert text.startswith("error asyncio: task failed\nTraceback")
    assert text.endswith("ValueError: bad\n")


def test_logging_is_as_before_afterwards() -> None:
    """No handler of ours stays behind."""
    before = list(logging.getLogger().handlers)
    logged(OPEN)
    assert logging.getLogger().handlers == before
