"""The formats a run can be reported in, each made from its digest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal, assert_never

from runner.reports.digest import Digest

ReportFormat = Literal["summary", "junit", "html", "json"]


def render(
    kind: ReportFormat,
    run: Digest,
    *,
    visible: Callable[[str], str],
    config_text: Callable[[str], str],
    patch: str = "",
) -> str:
    """The report in one format. Each imports what it needs and no more.

    `visible` writes out characters that act or hide, `config_text` reads a packed file, `patch`
    is the diff of the workspace, which only the page shows.
    """
    match kind:
        case "summary":
            from runner.reports.summary import summary  # noqa: PLC0415

            return summary(run, visible=visible)
        case "junit":
            from runner.reports.junit import junit  # noqa: PLC0415

            return junit(run, visible=visible)
        case "html":
            from runner.reports.page import PARTS, Parts, page  # noqa: PLC0415

            template, style, script = (config_text(f"reports/{name}") for name in PARTS)
            parts = Parts(template=template, style=style, script=script)
            return page(run, parts=parts, visible=visible, patch=patch)
        case "json":
            from runner.reports.machine import report_object  # noqa: PLC0415

            return json.dumps(report_object(run), indent=2) + "\n"
        case _:
            assert_never(kind)
