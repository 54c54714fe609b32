"""Every ending in every format, opened by a real parser of that format."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import junitparser
import pytest
from markdown_it import MarkdownIt

from runner.core.endings import Ending, exit_code
from runner.reports.digest import Digest
from runner.reports.digesting import digest
from runner.reports.junit import VERDICTS
from tests.reports.runs import ENDINGS, ended, persisted, rendered
from tests.sample_run import result_of, tidy_run

VOID = {"meta", "input", "path", "line"}


class Page(HTMLParser):
    """Opens a page: its text, its attributes, and whether every element is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that is closed at once."""
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be this one."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note the text that a reader sees."""
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        """All of it, with its white space collapsed."""
        return " ".join(" ".join(self.words).split())


def words(ending: Ending) -> str:
    """How reports call an ending."""
    return f"{ending.subtype}: {ending.error_type}" if ending.error_type else ending.subtype


@pytest.fixture(params=ENDINGS, ids=words)
def ending(request: pytest.FixtureRequest) -> Ending:
    """Each ending."""
    found: Ending = request.param
    return found


def test_every_ending_as_markdown(ending: Ending) -> None:
    """The ending, its code, its cause and the advice; whole tables."""
    text = rendered("summary", ended(ending))
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    heading = next(token for token in tokens if token.type == "inline")
    plain = "".join(child.content for child in heading.children or ())
    mark = "✅" if ending.subtype == "success" else "❌"
    assert plain == f"{mark} tidy: {words(ending)}, exit code {exit_code(ending)}"
    assert ending.message in text
    assert ("What to do" in text) == (ending.subtype != "success")


def test_every_ending_as_junit(ending: Ending) -> None:
    """Exactly one case of the task, red exactly when the run was no success."""
    text = rendered("junit", ended(ending))
    suites = junitparser.JUnitXml.fromstring(text.encode())
    cases = [case for suite in suites for case in suite]
    (task,) = [case for case in cases if case.classname == "tidy.task"]
    red = [entry for entry in task.result if not isinstance(entry, junitparser.Skipped)]
    assert len(red) == (ending.subtype != "success")
    for entry in red:
        verdict = ending.subtype in VERDICTS
        assert isinstance(entry, junitparser.Failure if verdict else junitparser.Error)
        assert entry.type == words(ending)
        assert ending.message in entry.message
    counts = (suites.tests, suites.failures, suites.errors, suites.skipped)
    suites.update_statistics()  # type: ignore[no-untyped-call]  # it has no annotations
    assert counts == (suites.tests, suites.failures, suites.errors, suites.skipped)
    assert (suites.failures + suites.errors == 0) == (ending.subtype == "success")


def test_every_ending_as_a_page(ending: Ending) -> None:
    """The ending, its code and its cause are on the page, and every element is closed."""
    page = Page(rendered("html", ended(ending)))
    assert f"tidy {words(ending)} exit code {exit_code(ending)}" in page.text
    assert ending.message in page.text
    assert "(deleted)" not in page.text


def test_every_ending_as_json(ending: Ending) -> None:
    """The ending, its cause, and the whole result."""
    run = ended(ending)
    found = json.loads(rendered("json", run))
    assert found["ending"] == words(ending)
    assert found["cause"] == (ending.message or None)
    assert found["result"]["exit_code"] == exit_code(ending)
    turns = [item for item in found["items"] if item["type"] == "turn"]
    assert [len(turn["calls"]) for turn in turns] == [1, 1, 0, 1]


@pytest.mark.parametrize("line", range(len(persisted(tidy_run())) + 1))
def test_a_log_that_breaks_off_anywhere_has_every_report(line: int) -> None:
    """A killed run has no result: each format says so, and shows what there is."""
    run = digest(persisted(tidy_run())[:line], name="tidy")
    assert "not finished" in rendered("summary", run)
    suites = junitparser.JUnitXml.fromstring(rendered("junit", run).encode())
    assert suites.errors == 1
    assert "not finished" in Page(rendered("html", run)).text
    found = json.loads(rendered("json", run))
    assert (found["finished"], found["result"]) == (False, None)
    assert len(run.turns) == sum(item["type"] == "turn" for item in found["items"])


def test_a_run_that_never_had_a_log_has_every_report() -> None:
    """A session that cannot be had leaves a result alone."""
    ending = Ending(
        subtype="error_during_execution", error_type="locked", message="another run has it"
    )
    run: Digest = digest((), name="tidy", result=result_of([], ending))
    assert "another run has it" in rendered("summary", run)
    ET.fromstring(rendered("junit", run))
    assert "another run has it" in Page(rendered("html", run)).text
    assert json.loads(rendered("json", run))["ending"] == words(ending)
