"""Commands that take a spec: `run`, `validate`, `plan`."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.conversation import converse, refuse_other_stream
from runner.cli.look import HOME_OPTION, FolderPath, Refused, home_of, write_lines
from runner.cli.options import (
    Changes,
    change_options,
    flag_options,
    flags_of,
    load,
    load_or_exit,
    tell_problems,
)
from runner.cli.running import run_once

if TYPE_CHECKING:
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
    "--input-format",
    type=click.Choice(["text", "stream-json"]),
    default="text",
    show_default=True,
    help="With stream-json the prompts are Claude's user messages on stdin, one a line.",
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
    refuse_idle_options(options, spec)
    streamed = options["input_format"] == "stream-json"
    task = load_or_exit(spec, changes, demand_prompt=not streamed)
    options["resume"] = session_to_resume(task, options)
    if options["dry_run"]:
        context.exit(_rehearse(task, as_json=options["output_format"] == "json"))
    if streamed:
        context.exit(converse(task, options, _no_keys))
    context.exit(run_once(task, options))


def session_to_resume(task: TaskSpec, options: dict[str, Any]) -> str | None:
    """The session to go on with. An id that is none, unknown or ambiguous ends with code 2."""
    from runner.adapters.journal import SessionError, session_dir
    from runner.adapters.sessions import find_session, newest_session

    home = home_of(options["home"])
    try:
        if options["session_id"] is not None:
            session_dir(home, options["session_id"])
        if options["newest"]:
            return newest_session(home, Path(task.workspace.path), task.name).id
        return None if options["resume"] is None else find_session(home, options["resume"]).name
    except SessionError as error:
        raise Refused(str(error)) from error


def refuse_idle_options(options: dict[str, Any], spec: str) -> None:
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
    refuse_other_stream(options, reads_spec=spec == "-")
    if options["dry_run"] and streams:
        raise click.UsageError("--dry-run has no stream: use --output-format text or json")


def _no_keys(keys: Mapping[str, Any]) -> TaskSpec:
    names = " and ".join(keys)
    raise ValueError(f"{names} are not taken from the host program: name them in the spec")


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
    from runner.adapters.check_scripts import unprotected
    from runner.adapters.shell_syntax import shell_script
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
            warnings = (*advice(_with_agents(task)), *unprotected(task, shell_script))
            bad = bad or (strict and bool(warnings))
            for line in warnings:
                click.echo(f"{path}: {'error' if strict else 'warning'}: {line}", err=True)
            if resolved or not (strict and warnings):
                click.echo(resolved_yaml(task).rstrip() if resolved else f"{path}: ok")
    context.exit(2 if bad else 0)


def _with_agents(task: TaskSpec) -> TaskSpec:
    """With the agents of the project, where rules name agents: only then are the files read."""
    rules = (*task.allowed_tools, *task.disallowed_tools, *task.ask_tools)
    if not any("Agent(" in rule for rule in rules):
        return task
    from runner.app.project_agents import join

    return join(task).spec


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
