"""Text of others: written out where it would act, inert where a CI system would obey it."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.adapters.ci_text import ci_of, inert, inert_json, visible


def _obeyed(line: str) -> bool:
    """What the runners of GitHub, Azure and TeamCity take for a command.

    GitHub trims white space and looks for `::`; all look for their `##` prefix anywhere.
    """
    prefixes = ("##[", "##vso[", "##teamcity[")
    return line.strip().startswith("::") or any(p in line.lower() for p in prefixes)


def _lines(text: str) -> list[str]:
    """Lines by every convention there is, a lone carriage return included."""
    return re.split("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::set-output name=a::b", r"\::set-output name=a::b"),
        ("  ::add-mask::x", r"  \::add-mask::x"),
        ("\t::error file=a.py::b", "\t\\::error file=a.py::b"),
        ("fine\n::warning::x\nfine", "fine\n\\::warning::x\nfine"),
        ("ok\r::stop-commands::t", r"ok\r::stop-commands::t"),
        ("ok\r\n::stop-commands::t", "ok\n\\::stop-commands::t"),
        ("ok\x85::error::x", r"ok\x85::error::x"),
        ("ok\u2028::error::x", r"ok\u2028::error::x"),
        ("\u00a0::error::x", "\u00a0\\::error::x"),
        ("\u3000::error::x", "\u3000\\::error::x"),
        ("##vso[task.setvariable variable=PATH]x", r"#\#vso[task.setvariable variable=PATH]x"),
        ("see ##vso[task.complete]", r"see #\#vso[task.complete]"),
        ("##[group]x", r"#\#[group]x"),
        ("###vso[x]", r"##\#vso[x]"),
        ("##TeamCity[x]", r"#\#TeamCity[x]"),
        ("## A heading", "## A heading"),
        ("std::vector<int> a;", "std::vector<int> a;"),
    ],
)
def test_a_workflow_command_is_shown_and_does_nothing(text: str, shown: str) -> None:
    """`::` at a line's start and the `##` prefixes anywhere lose their effect when made inert."""
    assert inert(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b]52;c;aGk=\x1b\\", r"\x1b]52;c;aGk=\x1b" + "\\"),
        ("\x9b31m", r"\x9b31m"),
        ("\x90q\x9c", r"\x90q\x9c"),
        ("a\bb\x7f\x00", r"a\x08b\x7f\x00"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u2066b\u2069", r"a\u2066b\u2069"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
        ("section_start:1:x\r\x1b[0K", r"section_start:1:x\r\x1b[0K"),
        ("tab\tand\nline, Grüße 你好 ✓", "tab\tand\nline, Grüße 你好 ✓"),
    ],
)
def test_what_acts_on_a_terminal_or_hides_is_written_out(text: str, shown: str) -> None:
    """Control, reordering and invisible characters show as escapes; all else is unchanged."""
    assert visible(text) == shown


@given(st.text(alphabet=st.sampled_from("#:[]vso \n\r\t\x85\u2028\u00a0\u200b\x1ba\\")))
def test_no_line_of_inert_text_is_obeyed(text: str) -> None:
    """Whatever the text, no line of what comes out is a command, however lines are split."""
    assert not any(_obeyed(line) for line in _lines(inert(text)))


@given(st.text())
def test_nothing_that_acts_is_left(text: str) -> None:
    """No control character but tab and newline, and no format character, comes through."""
    kinds = {unicodedata.category(char) for char in visible(text) if char not in "\t\n"}
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}


@given(st.text())
def test_inert_text_stays_as_it_is(text: str) -> None:
    """Made inert twice is made inert once."""
    assert inert(inert(text)) == inert(text)


@given(st.recursive(st.text(alphabet='#\\[v"u'), lambda inner: st.lists(inner)))
def test_inert_json_means_the_same(value: object) -> None:
    """JSON loses every `##` and still parses to the same value."""
    text = inert_json(json.dumps(value))
    assert "##" not in text
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("environ", "ci"),
    [
        ({}, None),
        ({"CI": ""}, None),
        ({"CI": "false"}, None),
        ({"CI": "0"}, None),
        ({"CI": "true"}, "other"),
        ({"CI": "true", "GITHUB_ACTIONS": "true"}, "github"),
        ({"CI": "true", "GITLAB_CI": "true"}, "gitlab"),
        ({"TF_BUILD": "True"}, "other"),
        ({"TEAMCITY_VERSION": "2025.1"}, "other"),
        ({"JENKINS_URL": "http://jenkins"}, "other"),
    ],
)
def test_a_ci_system_is_known_by_its_variables(environ: dict[str, str], ci: str | None) -> None:
    """The kind of CI follows from its marker; an empty or false marker is none."""
    assert ci_of(environ) == ci
