"""A run as JUnit XML, for the test page of a CI system.

The task is a case, and so are every check, every cap and every denied call. Rules of this file: a
case fails exactly when it is why the run failed, so that a green run has no red case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree as ET

from runner.core.truncate import fit
from runner.core.words import gist, one_line
from runner.reports import facts
from runner.reports.digest import Digest
from runner.reports.wording import how_it_went

MAX_TEXT_BYTES = 64 * 1024
MAX_DENIALS = 500

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even as a reference."""

VERDICTS = frozenset(
    {
        "error_task_incomplete",
        "error_task_blocked",
        "error_verification_failed",
        "error_permission_denied",
        "error_policy_violation",
        "error_max_structured_output_retries",
    }
)
"""Endings that are a verdict on the work, `failure`; the others are an `error`: no verdict."""


def junit(run: Digest, *, visible: Callable[[str], str]) -> str:
    """The document. `visible` writes out characters that act or hide."""

    def legal(text: str) -> str:
        return _ILLEGAL.sub("\ufffd", visible(text))

    suites = [
        _suite(run, "task", [_task(run, legal)], legal),
        _suite(run, "verify", _checks(run, legal), legal),
        _suite(run, "caps", _caps(run, legal), legal),
        _suite(run, "permissions", _denials(run, legal), legal),
    ]
    root = ET.Element("testsuites", {"name": legal(run.name), **_counts(suites)})
    root.set("time", f"{run.state.duration_ms / 1000:.3f}")
    root.extend([suite for suite in suites if len(suite)])
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(
    run: Digest, part: str, cases: list[ET.Element], legal: Callable[[str], str]
) -> ET.Element:
    suite = ET.Element("testsuite", {"name": legal(f"{run.name}.{part}")})
    for case in cases:
        case.set("classname", legal(f"{run.name}.{part}"))
    for key, value in _counts(cases).items():
        suite.set(key, value)
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")
    if run.state.first_timestamp:
        suite.set("timestamp", run.state.first_timestamp[:19])
    suite.extend(cases)
    return suite


def _counts(elements: list[ET.Element]) -> dict[str, str]:
    """How many cases there are in these suites or cases, and how many of each kind."""
    cases = [case for element in elements for case in element.iter("testcase")]
    kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counted = {name: sum(c.find(tag) is not None for c in cases) for name, tag in kinds.items()}
    return {name: str(number) for name, number in {"tests": len(cases), **counted}.items()}


def _case(name: str, seconds: float = 0.0) -> ET.Element:
    return ET.Element("testcase", {"name": name, "time": f"{max(seconds, 0):.3f}"})


def _mark(case: ET.Element, tag: str, message: str, kind: str = "", body: str = "") -> ET.Element:
    """Say how the case went, unless it went well."""
    mark = ET.SubElement(case, tag, {"message": message} | ({"type": kind} if kind else {}))
    mark.text = fit(body, MAX_TEXT_BYTES) or None
    return case


def _task(run: Digest, legal: Callable[[str], str]) -> ET.Element:
    case = _case("task", run.state.duration_ms / 1000)
    if not run.is_good:
        ending, cause = legal(facts.ending(run)), legal(facts.cause(run))
        subtype = run.result["subtype"] if run.result else ""
        tag = "failure" if subtype in VERDICTS else "error"
        body = f"{cause}\nto do: {legal(facts.advice(run))}"
        _mark(case, tag, one_line(f"{ending}: {cause}", 500), ending, body)
    out = ET.SubElement(case, "system-out")
    answer = (run.result or {}).get("result") or ""
    told = "\n".join(f"{name:<8} {text}" for name, text in facts.rows(run).items())
    out.text = fit(legal(f"{told}\n\n{answer}".rstrip()), MAX_TEXT_BYTES)
    return case


def _checks(run: Digest, legal: Callable[[str], str]) -> list[ET.Element]:
    spec, last = run.state.spec, run.state.verified
    if last is not None and last.checks:
        cases = []
        for one in last.checks:
            case = _case(legal(one.name), one.duration_ms / 1000)
            if not one.passed:
                _mark(case, "failure", how_it_went(one), "check_failed", legal(one.output))
            cases.append(case)
        return cases
    wanted = spec.verify if spec else ()
    return [_mark(_case(legal(one.name or one.run)), "skipped", "not run") for one in wanted]


def _caps(run: Digest, legal: Callable[[str], str]) -> list[ET.Element]:
    cases = []
    for cap in facts.caps(run):
        case = _case(cap.key)
        used = f"{cap.used} of {cap.limit}"
        if cap.tripped:
            cause = one_line(legal(facts.cause(run)), 500)
            _mark(case, "failure", cause or f"reached: {used}", "cap", used)
        else:
            ET.SubElement(case, "system-out").text = used
        cases.append(case)
    return cases


def _denials(run: Digest, legal: Callable[[str], str]) -> list[ET.Element]:
    """A denial is red only where the spec makes it fatal; else the run may still be green."""
    fatal = run.state.spec is not None and run.state.spec.on_denied == "fail"
    cases = []
    for number, denial in enumerate(facts.denials(run)[:MAX_DENIALS], start=1):
        what = one_line(legal(f"{denial.tool} {gist(denial.arguments, 200)}"), 200)
        tag = "failure" if fatal else "skipped"
        reason = one_line(legal(denial.reason), 500)
        cases.append(_mark(_case(f"{number}. {what}"), tag, f"denied: {reason}"))
    return cases
