"""Commands that take a spec: `run`, `validate`, `plan`."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.look import HOME_OPTION, FolderPath, home_of, write_lines
from runner.cli.options import (
    Changes,
    change_options,
    flag_options,
    flags_of,
    load,
    load_or_exit,
    tell_problems,
)
from runner.cli.standard import cleaner, mask_stderr, stdout_for_one

if TYPE_CHECKING:
    from runner.adapters.ci_text import Ci
    from runner.adapters.log import LogFormat
    from runner.adapters.outlet import Outlet
    from runner.core.spec import TaskSpec

NOT_READY = 78


@click.command(short_help="Run a task to its ending.")
@click.argument("spec")
@click.option("--session-id", metavar="ID", help="The id of the new session. Default: a UUID.")
@click.option(
    "--resume", metavar="ID", help="Go on with this session: its id or a beginning of it."
)
@click.option(
    "--continue",
    "newest",
    is_flag=True,
    help="Go on with the newest session of the spec's workspace.",
)
@click.option("--fork", is_flag=True, help="Go on with a copy of the session; it stays as it is.")
@change_options
@flag_options
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "stream-json", "events"]),
    default="text",
    show_default=True,
    help="What stdout carries: the answer, the result, Claude's messages, or our events.",
)
@click.option(
    "--include-partial-messages",
    is_flag=True,
    help="With stream-json and events: replies and outputs in pieces, as they come.",
)
@click.option(
    "--include-hook-events",
    is_flag=True,
    help="With stream-json: also when a hook starts and what it answers.",
)
@HOME_OPTION
@click.option(
    "--artifacts",
    type=FolderPath(file_okay=False),
    help="Copy events.jsonl, result.json and patch.diff to this folder at the end.",
)
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but how it ended.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Stop before the first model call: the plan, and whether all is ready.",
)
@click.option(
    "--log-format",
    type=click.Choice(["console", "plain", "json"]),
    help="How stderr looks. Default: console on a terminal, else plain.",
)
@click.pass_context
def run(context: click.Context, /, spec: str, **options: Any) -> None:
    """Run a task to its ending. SPEC is a file, or `-` for stdin.

    stdout carries what --output-format says, stderr tells how it goes; the exit code says how it
    ended (`autopilot exit-codes`).

    \b
    Examples:
      autopilot run task.yaml
      autopilot run task.yaml --max-budget-usd 2 --timeout 30m --output-format json
      autopilot run review.yaml --input diff=@pr.diff > review.md
      autopilot run task.yaml --continue --max-turns 80
    """
    changes = Changes(
        inputs=options.pop("inputs"), settings=options.pop("settings"), flags=flags_of(options)
    )
    _refuse_idle_options(options)
    task = load_or_exit(spec, changes)
    options["resume"] = _session_to_resume(task, options)
    if options["dry_run"]:
        context.exit(_rehearse(task, as_json=options["output_format"] == "json"))
    context.exit(_run(task, options))


def _session_to_resume(task: TaskSpec, options: dict[str, Any]) -> str | None:
    """The session to go on with. An id that is none, unknown or ambiguous ends with code 2."""
    from runner.adapters.journal import SessionError, session_dir
    from runner.adapters.sessions import find_session, newest_session

    home = home_of(options["home"])
    try:
        if options["session_id"] is not None:
            session_dir(home, options["session_id"])
        if options["newest"]:
            return newest_session(home, Path(task.workspace.path)).id
        return None if options["resume"] is None else find_session(home, options["resume"]).name
    except SessionError as error:
        raise click.UsageError(str(error)) from error


def _refuse_idle_options(options: dict[str, Any]) -> None:
    """An option that would do nothing is a mistake, not a wish to be ignored."""
    resumes = options["resume"] is not None or options["newest"]
    if options["resume"] is not None and options["newest"]:
        raise click.UsageError("--resume and --continue exclude each other")
    if options["fork"] and not resumes:
        raise click.UsageError("--fork needs --resume or --continue")
    if options["session_id"] is not None and resumes and not options["fork"]:
        raise click.UsageError("--session-id names a new session: leave it out, or add --fork")
    streams = options["output_format"] in ("stream-json", "events")
    if options["include_partial_messages"] and not streams:
        text = "--include-partial-messages needs --output-format stream-json or events"
        raise click.UsageError(text)
    if options["dry_run"] and streams:
        raise click.UsageError("--dry-run has no stream: use --output-format text or json")


def _run(task: TaskSpec, options: dict[str, Any]) -> int:
    """Run, with the format on stdout and the progress on stderr; the exit code."""
    from runner.adapters.undumpable import close_to_own_user

    close_to_own_user(os.environ)
    with stdout_for_one() as stdout:
        from runner.adapters.outlet import Outlet

        answer, talk = Outlet(stdout), Outlet(2)
        try:
            return _run_on(task, options, answer, talk)
        finally:
            with contextlib.suppress(KeyboardInterrupt):  # gives up on a reader that stalls
                lost = answer.close()
                if lost is not None:
                    talk.write(f"error    stdout could not be written: {lost.strerror}\n")
                talk.close()


def _run_on(task: TaskSpec, options: dict[str, Any], answer: Outlet, talk: Outlet) -> int:
    _begin_slow_import(task)
    from runner import app
    from runner.adapters.log import Line, Span, open_log
    from runner.adapters.progress import Progress
    from runner.adapters.secret_values import mask_of, names_to_forget
    from runner.adapters.streams import format_sink
    from runner.adapters.undumpable import forget

    home = home_of(options["home"])
    where = app.RunOptions(
        home=home,
        session_id=options["session_id"],
        resume=options["resume"],
        fork=options["fork"],
        artifacts=None if options["artifacts"] is None else options["artifacts"].resolve(),
    )
    stdout = format_sink(
        options["output_format"],
        answer,
        partial=options["include_partial_messages"],
        hooks=options["include_hook_events"],
        clean=cleaner(os.environ, is_terminal=answer.isatty()),
    )
    log_format, colour = _look(options["log_format"])
    world = app.World()
    mask = mask_of(task, world.environ)
    mask_stderr(mask.text)
    forget(names_to_forget(task, world.environ), os.environ)
    with open_log(talk, log_format=log_format, colour=colour, ci=_ci(), mask=mask) as say:
        progress = Progress(say, home=home, quiet=options["quiet"])
        finished = app.run(task, where, (stdout, progress), world)
        _keep_code(finished.exit_code)
        for problem in finished.problems:
            words: tuple[Span, ...] = (("warn", "warning"), ("plain", f"  {problem}"))
            say(Line(event="reports", spans=words, level="warning"))
        if log_format != "json":
            talk.write("".join(f"{notice}\n" for notice in finished.notices))
        return finished.exit_code


def _begin_slow_import(task: TaskSpec) -> None:
    """litellm takes seconds to import: everything else of the start-up happens meanwhile."""
    from runner.adapters.preflight import is_embedded

    if not is_embedded(task):
        from runner.adapters.litellm_model import start_import

        start_import()


def _keep_code(code: int) -> None:
    """The ending is written: a SIGTERM or SIGHUP from now on hurries the exit, not its code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))


def _look(wanted: LogFormat | None) -> tuple[LogFormat, bool]:
    """The format of stderr, and whether it may have colour."""
    terminal = os.isatty(2)
    log_format = wanted or ("console" if terminal else "plain")
    return log_format, terminal and log_format == "console" and not os.environ.get("NO_COLOR")


def _ci() -> Ci | None:
    from runner.adapters.ci_text import ci_of

    return ci_of(os.environ)


def _rehearse(task: TaskSpec, *, as_json: bool) -> int:
    """Everything up to the first model call; 0 when a run would start, else 78."""
    from runner import app
    from runner.adapters.streams import json_line
    from runner.cli.plan_text import plan_json, plan_lines

    planned = app.plan(task)
    if as_json:
        click.echo(json_line(plan_json(planned)), nl=False)
    else:
        write_lines(plan_lines(planned))
    return 0 if all(check.ok for check in planned.checks) else NOT_READY


@click.command(short_help="Check specs; nothing runs.")
@click.argument("specs", metavar="SPEC...", nargs=-1, required=True)
@click.option("--resolved", is_flag=True, help="Print the whole spec, with every default.")
@click.option("--strict", is_flag=True, help="Take warnings for errors.")
@change_options
@click.pass_context
def validate(
    context: click.Context,
    specs: tuple[str, ...],
    resolved: bool,
    strict: bool,
    inputs: tuple[str, ...],
    settings: tuple[str, ...],
) -> None:
    """Check specs, and report every mistake with its file and line. Nothing runs.

    A required input may be missing here: only a run needs it.

    \b
    Examples:
      autopilot validate tasks/*.yaml
      autopilot validate task.yaml --resolved --set max_turns=5
      autopilot validate task.yaml --strict
    """
    from runner.adapters.specfile import SpecError, resolved_yaml
    from runner.core.rule_advice import advice

    bad = False
    for path in specs:
        try:
            task = load(path, Changes(inputs=inputs, settings=settings), demand_inputs=False)
        except SpecError as error:
            bad = True
            tell_problems(error)
        else:
            warnings = advice(task)
            bad = bad or (strict and bool(warnings))
            for line in warnings:
                click.echo(f"{path}: {'error' if strict else 'warning'}: {line}", err=True)
            if resolved or not (strict and warnings):
                click.echo(resolved_yaml(task).rstrip() if resolved else f"{path}: ok")
    context.exit(2 if bad else 0)


@click.command(short_help="Show what would run; no model is asked.")
@click.argument("spec")
@change_options
def plan(spec: str, inputs: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Show what would run: prompt, tools, permissions, limits, worst cost. No model is asked.

    \b
    Example:
      autopilot plan task.yaml --input ticket=@ticket.md
    """
    from runner import app
    from runner.cli.plan_text import plan_lines

    changes = Changes(inputs=inputs, settings=settings)
    write_lines(plan_lines(app.plan(load_or_exit(spec, changes))))
