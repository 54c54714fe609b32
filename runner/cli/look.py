"""Commands that look at what was run: `show`, `sessions`."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.standard import own_markup

if TYPE_CHECKING:
    from runner.adapters.sessions import Session
    from runner.reports.show import Said


class FolderPath(click.Path):
    """The path of a folder. An empty one comes from an unset variable, and means no folder."""

    def __init__(self, *, file_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """See click."""
        if not os.fspath(value):
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


HOME_OPTION = click.option(
    "--home",
    type=FolderPath(),
    metavar="DIRECTORY",
    help="Where sessions are kept. Default: $AUTOPILOT_HOME, else the user's state folder.",
)

_TURNS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_COLOURS = {
    "head": "\x1b[1m",
    "good": "\x1b[32m",
    "warn": "\x1b[33m",
    "bad": "\x1b[31m",
    "dim": "\x1b[2m",
}
_AGE = re.compile(r"(\d+)([smhdw])")
_AGE_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Refused(click.ClickException):
    """What was asked for cannot be done as it was asked."""

    exit_code = 2


def home_of(home: Path | None) -> Path:
    """The folder that `--home` names, else the default; absolute."""
    from runner.adapters.sessions import default_home

    return (home or default_home(os.environ)).absolute()


@click.command(short_help="Show a run: turns, calls, results.")
@click.argument("session_id", metavar="ID")
@click.option(
    "--at",
    "at_line",
    type=click.IntRange(min=1),
    metavar="LINE",
    help="The state after that many lines of the log, and what would come next.",
)
@click.option(
    "--turn",
    "turns",
    metavar="N[-M]",
    help="Only these turns, and nothing of them cut.",
)
@HOME_OPTION
def show(session_id: str, at_line: int | None, turns: str | None, home: Path | None) -> None:
    """Show a run: its turns, its calls and their results. ID may be a unique beginning of one.

    Long texts are cut; `--turn` shows a turn whole. There is colour on a terminal only.

    \b
    Examples:
      autopilot show 5d0c
      autopilot show 5d0c --turn 7-9
      autopilot show 5d0c --at 40
    """
    from runner.adapters.journal import LogDamaged, SessionError, read_log
    from runner.adapters.sessions import find_session, read_session

    try:
        folder = find_session(home_of(home), session_id)
    except SessionError as error:
        raise Refused(str(error)) from error
    try:
        if at_line is not None:
            from runner.reports.moment import moment_lines

            lines = moment_lines(read_log(folder), at_line)
            if lines is None:
                raise Refused(f"the log of {folder.name} has fewer than {at_line} lines")
            write_lines(lines)
            return
        from runner.reports.show import header, story

        session, picked = read_session(folder), None if turns is None else _turns(turns)
        if picked is None:
            _write_said(header(session.result, session.name, session.id))
        if not _write_said(story(read_log(folder), turns=picked, whole=picked is not None)):
            lacking = "nothing in its log" if turns is None else f"no turn {turns}"
            raise Refused(f"{folder.name} has {lacking}")
    except (LogDamaged, SessionError, OSError) as error:
        raise click.ClickException(str(error)) from error


@click.group(invoke_without_command=True, short_help="List the sessions, or remove some.")
@HOME_OPTION
@click.pass_context
def sessions(context: click.Context, home: Path | None) -> None:
    """List the sessions, newest first.

    \b
    Examples:
      autopilot sessions
      autopilot sessions rm 5d0c 77ab
      autopilot sessions prune --older-than 30d
    """
    context.obj = home
    if context.invoked_subcommand is not None:
        return
    from runner.adapters.journal import SessionError
    from runner.adapters.sessions import list_sessions

    try:
        found = list_sessions(home_of(home))
    except SessionError as error:
        raise click.ClickException(str(error)) from error
    if found:
        write_lines(_table(found))
    else:
        click.echo(f"no sessions in {home_of(home)}", err=True)


@sessions.command("rm")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@HOME_OPTION
@click.pass_obj
def remove(outer_home: Path | None, ids: tuple[str, ...], home: Path | None) -> None:
    """Remove sessions: their logs, files, and copies of the workspace.

    \b
    Example:
      autopilot sessions rm 5d0c
    """
    from runner.adapters.journal import SessionError
    from runner.adapters.sessions import find_session, remove_session

    try:
        # All are looked up before the first goes: a wrong id removes nothing.
        for folder in [find_session(home_of(home or outer_home), wanted) for wanted in ids]:
            remove_session(folder)
            click.echo(f"removed {folder.name}")
    except SessionError as error:
        raise Refused(str(error)) from error


@sessions.command()
@click.option(
    "--older-than",
    "age",
    required=True,
    metavar="AGE",
    help="How long ago they were last written: 12h, 30d, 8w.",
)
@HOME_OPTION
@click.pass_obj
def prune(outer_home: Path | None, age: str, home: Path | None) -> None:
    """Remove the sessions that were not written for a while. Those that run stay.

    \b
    Example:
      autopilot sessions prune --older-than 30d
    """
    from datetime import datetime

    from runner.adapters.clock import SystemClock
    from runner.adapters.journal import SessionError, SessionLocked
    from runner.adapters.sessions import list_sessions, remove_session

    matched = _AGE.fullmatch(age)
    if matched is None:
        raise click.BadParameter(f"`{age}` is no age; write it like 12h, 30d or 8w")
    now_s = datetime.fromisoformat(SystemClock().now()).timestamp()
    limit_s = now_s - int(matched[1]) * _AGE_SECONDS[matched[2]]
    try:
        for session in list_sessions(home_of(home or outer_home)):
            if session.last_written_s >= limit_s:
                continue
            try:
                remove_session(session.folder)
            except SessionLocked:
                continue
            click.echo(f"removed {session.id}")
    except SessionError as error:
        raise click.ClickException(str(error)) from error


def write_lines(lines: Iterable[str]) -> None:
    """Write lines that may hold text of others to stdout, one by one as they come."""
    from runner.adapters.ci_text import inert

    for line in lines:
        click.echo(inert(line))


def _turns(text: str) -> range:
    """`7` or `7-9` as a range of turns."""
    matched = _TURNS.fullmatch(text)
    if matched is None:
        raise click.BadParameter(f"`{text}` is no turn; write it like 7 or 7-9")
    return range(int(matched[1]), int(matched[2] or matched[1]) + 1)


def _write_said(lines: Iterable[Said]) -> int:
    """Write lines, with colour where somebody looks at them; how many there were."""
    from runner.adapters.ci_text import inert

    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    written = 0
    with own_markup():
        for look, line in lines:
            code = _COLOURS.get(look) if colour else None
            click.echo(f"{code}{inert(line)}\x1b[0m" if code else inert(line), color=colour)
            written += 1
    return written


def _table(found: list[Session]) -> Iterable[str]:
    from decimal import Decimal

    from runner.core.words import usd

    width = max(len(session.id) for session in found)
    for session in found:
        result = session.result or {}
        cost = usd(Decimal(str(result["total_cost_usd"]))) if "total_cost_usd" in result else "-"
        when = session.created_at[:19].replace("T", " ")
        ending = result.get("error_type") or session.ending  # the finer of its two names
        yield f"{session.id:<{width}}  {when:<19}  {ending:<24}  {cost:>9}  {session.name}"
