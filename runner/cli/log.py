"""Commands that look after the log of a run: `log check`, `log recover`."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import json
import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from runner.cli.look import HOME_OPTION, Refused, home_of, write_lines

if TYPE_CHECKING:
    from runner.adapters.log_check import LogReport

BUSY = 75
NOT_WRITTEN = 74


class Busy(click.ClickException):
    """A run is writing the session; later it can be done."""

    exit_code = BUSY


class NotWritten(click.ClickException):
    """What was made could not be put on the disk."""

    exit_code = NOT_WRITTEN


@click.group(short_help="Check the log of a run, or recover a killed run.")
def log() -> None:
    """Look after the log of a run.

    \b
    Examples:
      autopilot log check 5d0c
      autopilot log recover 5d0c
    """


@log.command("check")
@click.argument("session_id", metavar="ID")
@click.option(
    "--format", "kind", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@HOME_OPTION
@click.pass_context
def check(
    context: click.Context, session_id: str, kind: Literal["text", "json"], home: Path | None
) -> None:
    """Tell whether a session is what its run wrote. Nothing is changed.

    Every line must be whole, numbered and chained to the one before, every file that a line names
    must have the content it had, and result.json must be the log's own. Exit code 0 when all of
    that holds, 1 when it does not, 2 when there is no such session.

    \b
    Example:
      autopilot log check 5d0c --format json
    """
    from runner.adapters.ci_text import inert_json
    from runner.adapters.journal import SessionError
    from runner.adapters.log_check import check_log

    folder = _folder(home, session_id)
    try:
        report = check_log(folder)
    except SessionError as error:
        raise click.ClickException(str(error)) from error
    if kind == "json":
        told = json.dumps({**asdict(report), "problems": report.problems}, indent=2)
        click.echo(inert_json(told))
    else:
        write_lines(_told(report))
    context.exit(1 if report.problems else 0)


@log.command("recover")
@click.argument("session_id", metavar="ID")
@click.option("--salvage", "new_id", metavar="NEW_ID", help="The id of the new session.")
@HOME_OPTION
def recover(session_id: str, new_id: str | None, home: Path | None) -> None:
    """Make the result and the patch of a run that was killed. Its log stays as it is.

    When the log says how the run ended, that is the result; else the result says that it was
    killed. A log that is damaged in the middle is refused; --salvage copies what stands before the
    damage, with the files and the workspace of the session, into a new session.

    \b
    Examples:
      autopilot log recover 5d0c
      autopilot log recover 5d0c --salvage rescued
    """
    from runner.adapters.journal import LogDamaged, SessionError, SessionExists, SessionLocked

    folder = _folder(home, session_id)
    try:
        lines = _recover(folder) if new_id is None else _salvage(folder, new_id)
    except SessionLocked as error:
        raise Busy(str(error)) from error
    except SessionExists as error:
        raise Refused(str(error)) from error
    except (LogDamaged, SessionError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise NotWritten(f"cannot write {folder}: {error.strerror}") from error
    write_lines(lines)


def _folder(home: Path | None, session_id: str) -> Path:
    from runner.adapters.journal import SessionError
    from runner.adapters.sessions import find_session

    try:
        return find_session(home_of(home), session_id)
    except SessionError as error:
        raise Refused(str(error)) from error


def _told(report: LogReport) -> list[str]:
    verdict = f"not whole: {', '.join(report.problems)}" if report.problems else "whole"
    rows = [
        ("log", report.log),
        ("lines", f"{report.lines}, in {report.valid_bytes} of {report.bytes} bytes"),
        ("head", report.head or "none"),
    ]
    if report.damage is not None:
        place = f"line {report.damage.line}, byte {report.damage.offset}"
        rows.append(("damage", f"{place}: {report.damage.problem}"))
    if report.torn_bytes:
        rows.append(("torn", f"{report.torn_bytes} bytes of a line that was not finished"))
    rows.append(("result", _RESULT_WORDS[report.result]))
    rows.append(("files", f"{report.files_named} named, {len(report.file_problems)} wrong"))
    rows += [("", f"line {wrong.line}: {wrong.problem}") for wrong in report.file_problems]
    if (advice := _advice(report)) is not None:
        rows.append(("to do", advice))
    return [f"{report.session_id}: {verdict}", *(f"  {name:<8} {text}" for name, text in rows)]


_RESULT_WORDS: dict[str, str] = {
    "equal": "result.json is the log's",
    "recovered": "result.json was recovered from this log",
    "none": "none: the run is going on, or was killed",
    "missing": "the log has one, result.json is missing",
    "differs": "result.json is not the log's",
    "unknown": "not compared: the log is damaged",
}


def _advice(report: LogReport) -> str | None:
    home = shlex.quote(str(Path(report.log).parent.parent.parent))
    if report.damage is not None:
        command = f"autopilot log recover {report.session_id} --salvage NEW_ID --home {home}"
        return f"`{command}` copies what stands before the damage into a new session"
    if report.result in ("missing", "differs"):
        command = f"autopilot log recover {report.session_id} --home {home}"
        return f"`{command}` writes result.json from the log"
    if report.torn_bytes:
        command = f"autopilot run SPEC --resume {report.session_id} --home {home}"
        return f"`{command}` sets the torn piece aside and goes on"
    return None


def _recover(folder: Path) -> list[str]:
    import asyncio

    from runner.adapters.log_recover import recover

    done = asyncio.run(recover(folder, environ=os.environ))
    torn = f", and {done.torn_bytes} bytes of a torn one" if done.torn_bytes else ""
    cause = "the run was killed" if done.was_killed else "as the log has it"
    return [
        folder.name,
        f"  log      {done.lines} lines{torn}: left as they are",
        f"  result   written: {done.result['subtype']}, exit code {done.result['exit_code']}: "
        f"{cause}",
        f"  patch    {done.patch}",
    ]


def _salvage(folder: Path, new_id: str) -> list[str]:
    from runner.adapters.journal import SessionError, session_dir
    from runner.adapters.log_recover import salvage

    try:
        session_dir(folder, new_id)
    except SessionError as error:
        raise click.BadParameter(str(error), param_hint="--salvage") from error
    done = salvage(folder, new_id)
    line, home = done.damage.line, shlex.quote(str(folder.parent.parent))
    return [
        done.folder.name,
        f"  log      {done.lines} lines, {done.size_bytes} bytes, copied from {folder.name}",
        f"  left     from line {line}, byte {done.damage.offset}: {done.damage.problem}",
        f"  beware   what the run did from line {line} on is done, but not in this log: look at "
        "the workspace before going on",
        f"  to do    `autopilot run SPEC --resume {done.folder.name} --home {home}` goes on from "
        "there",
    ]
