"""The command that makes a report of a run from its log: `report`."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.log import NotWritten
from runner.cli.look import HOME_OPTION, FolderPath, Refused, home_of

if TYPE_CHECKING:
    from runner.reports.formats import ReportFormat

PATCH_CHARS = 1_000_000


@click.command(short_help="Make a report of a run: Markdown, JUnit, HTML, JSON.")
@click.argument("session_id", metavar="ID")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["summary", "junit", "html", "json"]),
    default="summary",
    show_default=True,
    help="Markdown, JUnit XML, one HTML page that needs nothing else, or one JSON object.",
)
@click.option(
    "--output",
    type=FolderPath(),
    metavar="FILE",
    help="Where to put it. Default: stdout.",
)
@HOME_OPTION
def report(session_id: str, kind: ReportFormat, output: Path | None, home: Path | None) -> None:
    """Make a report of a run from its log alone. ID may be a unique beginning of one.

    The log may be that of a run that was killed, or that still goes on: the report says so.

    \b
    Examples:
      autopilot report 5d0c
      autopilot report 5d0c --format html --output report.html
      autopilot report 5d0c --format json | jq '.items[] | select(.type == "turn") | .cost_usd'
    """
    from runner.adapters.journal import LogDamaged, SessionError
    from runner.adapters.sessions import find_session

    try:
        folder = find_session(home_of(home), session_id)
    except SessionError as error:
        raise Refused(str(error)) from error
    try:
        text = _rendered(folder, kind)
    except (LogDamaged, SessionError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if output is None:
        click.echo(_inert(kind, text), nl=False)
        return
    from runner.adapters.report_files import write_report

    if output.exists() and not output.is_file():  # a device, also behind a link: /dev/stdout
        raise NotWritten(f"{output} was not written: not a file")
    path = output.absolute()
    path = path.parent.resolve() / path.name
    problem = write_report(path, [text.encode("utf-8", "backslashreplace")])
    if problem is not None:
        raise NotWritten(problem)


def _rendered(folder: Path, kind: ReportFormat) -> str:
    from runner.adapters import configs
    from runner.adapters.ci_text import visible
    from runner.adapters.journal import read_log
    from runner.adapters.sessions import read_session
    from runner.reports.digesting import digest
    from runner.reports.formats import render

    run = digest(read_log(folder), name=read_session(folder).name)
    patch = ""
    if kind == "html" and (folder / "patch.diff").exists():
        with (folder / "patch.diff").open(encoding="utf-8", errors="replace") as file:
            patch = file.read(PATCH_CHARS)
    return render(kind, run, visible=visible, config_text=configs.read_text, patch=patch)


def _inert(kind: ReportFormat, text: str) -> str:
    """The same document, with no line that a CI system takes for a command."""
    from runner.adapters.ci_text import inert, inert_json

    if kind == "json":
        return inert_json(text)
    if kind == "summary":
        return inert(text)
    at_start = re.sub(r"^(\s*):(?=:)", r"\1&#58;", text, flags=re.MULTILINE)
    return re.sub(r"#(?=#)", "&#35;", at_start)
