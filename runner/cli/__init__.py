"""The command line: parse, call, write, exit. Only this package writes to stdout and exits.

Rules of this package: stdout carries the answer of the command and nothing else; a reader that
leaves early changes no exit code. The modules of the commands import what they work with inside
the command: a litellm or a schema library costs seconds, and `--help` needs neither. That is the
one sanctioned place for local imports.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from runner import __version__
from runner.cli.claude import claude, is_meant
from runner.cli.doctor import doctor
from runner.cli.init import init
from runner.cli.log import log
from runner.cli.look import Refused, sessions, show
from runner.cli.report import report
from runner.cli.standard import standard_streams
from runner.cli.tables import exit_codes, schema
from runner.cli.task import plan, run, validate

INTERRUPTED = 130

EXIT_CODES = """\b
Exit codes:
  0 done                5 no valid output     10 call denied       75 busy, try later
  1 could not go on     6 incomplete          11 policy violation  77 key refused
  2 bad usage or spec   7 blocked             69 no credit         78 not ready
  3 turn cap            8 checks failed       70 bug in here       130 SIGINT
  4 budget              9 time                74 log not written   143 SIGTERM

`autopilot exit-codes` says what each means and what to do.
"""


class _InOrder(click.Group):
    """A group that lists its commands in the order they were added: the main one first."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="autopilot", message="%(prog)s %(version)s")
def cli() -> None:
    """Run an agent on a task, unattended: spec in, one result out, one exit code.

    \b
    Example:
      autopilot run task.yaml
    """
    try:
        Path.cwd()
    except OSError as error:
        text = f"the current folder cannot be used ({error.strerror}): start from another one"
        raise Refused(text) from error


for command in (run, validate, plan, doctor, init, show, report, log, sessions, exit_codes, schema):
    cli.add_command(command)


PROGRAM_OF: dict[click.Command, str] = {
    cli: "autopilot",
    claude: "autopilot --input-format stream-json",
}
"""What the help of each is called by."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The console script `autopilot`: run a command and exit with its code."""
    with standard_streams() as lost:
        code = _code_of(argv)
        if error := lost():
            click.echo(f"Error: stdout could not be written: {error.strerror}", err=True)
            code = code or 1
    sys.exit(code)


def _code_of(argv: Sequence[str] | None) -> int:
    try:
        meant = claude if is_meant(sys.argv[1:] if argv is None else argv) else cli
        code = meant.main(args=argv, prog_name=PROGRAM_OF[meant], standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return code if isinstance(code, int) else 0
