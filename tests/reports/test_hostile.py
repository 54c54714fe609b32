"""Text of a model, a tool or a file name stays text in every report."""

from __future__ import annotations

import itertools
import re
from decimal import Decimal
from xml.etree import ElementTree as ET

import junitparser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from runner.adapters.ci_text import visible
from runner.reports import github
from runner.reports.github import output_file, step_outputs
from runner.reports.junit import junit
from runner.reports.summary import MAX_BYTES, summary
from tests.reports.runs import EVIL, ended, hostile_digest, long_run, rendered
from tests.reports.test_endings import Page
from tests.sample_run import tidy_run

OURS = {"details", "/details", "summary", "/summary", "code", "/code"}
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\ud800-\udfff]")

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def flat(tokens: list[Token]) -> list[Token]:
    """All tokens, the inner ones too."""
    return [found for token in tokens for found in (token, *flat(token.children or []))]


def active(text: str) -> list[str]:
    """What a Markdown text does besides being read: pictures, links, elements that are not ours."""
    found = []
    for token in flat(MARKDOWN.parse(text)):
        if token.type in ("image", "link_open"):
            found.append(token.type)
        if token.type in ("html_inline", "html_block"):
            names = re.findall(r"<\s*(/?[\w!?]+)", token.content)
            found += [name for name in names if name not in OURS]
    return found


@given(text=st.text(alphabet="`|\\<>![]()#*_~\n ab:/.'\"-=&;{}\x00\x1b\u202e", max_size=60))
def test_no_text_is_markdown(text: str) -> None:
    """Answers, arguments and reasons draw nothing: they stand in code, whatever they hold."""
    run = ended(events=tidy_run(prompt=text, answer=text + "![](http://evil.test)<b>"))
    made = summary(run, visible=visible)
    assert active(made) == []
    headings = [token.tag for token in MARKDOWN.parse(made) if token.type == "heading_open"]
    assert headings == ["h2", "h3", "h3", "h3"]


def test_a_hostile_run_is_a_quiet_summary() -> None:
    """Nothing of it is active, nothing unseen is left, and no table has a cell too many."""
    made = rendered("summary", hostile_digest())
    assert active(made) == []
    assert not UNSEEN.search(made)
    for token in flat(MARKDOWN.parse(made)):
        assert "evil.test" not in str(token.attrs)


def test_a_hostile_run_is_whole_xml() -> None:
    """Two parsers read it, and the words are all there."""
    made = rendered("junit", hostile_digest())
    root = ET.fromstring(made)
    junitparser.JUnitXml.fromstring(made.encode())
    assert not UNSEEN.search(made)
    (failed,) = root.findall(".//testsuite[@name='tidy.verify']/testcase/failure")
    assert "</script></style></pre><img src=x" in (failed.text or "")
    assert "\\x1b[31m\\x00\\u202egnp\\ud800\\u2028&amp;" in (failed.text or "")


@given(text=st.text())
def test_any_text_is_legal_xml(text: str) -> None:
    """Whatever a tool prints, the document parses."""
    run = ended(events=tidy_run(answer=text))
    ET.fromstring(junit(run, visible=visible))
    ET.fromstring(junit(run, visible=lambda found: found))


def test_a_hostile_run_adds_nothing_to_the_page() -> None:
    """The same elements as ours alone; no attribute that acts; no character that hides."""
    made = rendered("html", hostile_digest(), patch=f"+{EVIL}\n-{EVIL}")
    page = Page(made)
    assert "</script></style></pre><img src=x onerror=document.title='pwned'>" in page.text
    assert "{{ 7*7 }}" in page.text
    assert not UNSEEN.search(made)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert not [name for _, name, _ in page.attributes if name in ("src", "href", "style")]
    assert made.count("<script") == made.count("<style") == 1


def test_the_page_forbids_everything_but_itself() -> None:
    """Its policy names the hashes of its own style and script, and allows no address at all."""
    page = Page(rendered("html", ended()))
    (policy,) = [
        value for _, name, value in page.attributes if name == "content" and "src" in str(value)
    ]
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]{44}'; script-src 'sha256-[\w+/=]{44}'; "
        r"base-uri 'none'; form-action 'none'",
        policy,
    )


def test_style_and_script_begin_no_command() -> None:
    """Sent to the log of a job, the page is as harmless as the text in it."""
    made = rendered("html", ended())
    assert not re.search(r"^\s*::|##", made, re.MULTILINE)


# -- what a GitHub job is told ------------------------------------------------------------------


def test_an_output_ends_only_at_a_delimiter_nobody_could_foresee() -> None:
    """A value that holds the delimiter gets another one."""
    numbers = itertools.count()
    made = output_file({"a": "x\nautopilot-0\nb=evil", "c": "y"}, lambda: str(next(numbers)))
    assert made == (
        "a<<autopilot-1\nx\nautopilot-0\nb=evil\nautopilot-1\nc<<autopilot-2\ny\nautopilot-2\n"
    )


def test_the_outputs_are_those_of_the_result() -> None:
    """The finer name of the ending, the code, the session, the money, the patch."""
    result = {
        "subtype": "error_during_execution",
        "error_type": "quota",
        "exit_code": 69,
        "session_id": "s",
        "total_cost_usd": Decimal("0.25"),
    }
    assert step_outputs(result, patch="/p") == {
        "ending": "quota",
        "exit-code": "69",
        "session-id": "s",
        "cost": "0.25",
        "patch": "/p",
    }


def test_an_annotation_is_one_line_and_one_command() -> None:
    """A hostile cause neither ends the line nor begins a second command."""
    made = github.annotation(hostile_digest(), visible=visible)
    assert made is not None
    assert len(made.splitlines()) == 1
    assert made.startswith("::error title=autopilot%3A tidy::error_task_blocked: ")
    assert "%0A::error%3A" not in made.partition("::error_task")[0]
    assert not UNSEEN.search(made)


def test_a_success_with_denials_is_a_warning() -> None:
    """Denials are seen although the run is green."""
    made = github.annotation(ended(), visible=visible)
    assert made is not None
    assert made.startswith("::warning title=autopilot%3A tidy::1 call denied: no rule allows it")


@pytest.mark.parametrize("room", [0, 300, 2_000, 20_000, MAX_BYTES])
def test_a_summary_never_outgrows_its_room(room: int) -> None:
    """What is least needed is left out first; the head is the last to go."""
    run = ended(events=[*long_run(300)])
    made = summary(run, visible=visible, max_bytes=room)
    assert len(made.encode()) <= room
    assert ("exit code 0" in made) == (room >= 2_000)
    assert ("the last 100 of 300 turns" in made) == (room >= 20_000)
