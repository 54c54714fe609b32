"""Commands that print a table or a schema: `exit-codes`, `schema`."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import json
from typing import Literal, get_args

import click

SchemaName = Literal["task", "event", "result"]


@click.command("exit-codes", short_help="Print what every exit code means.")
@click.option(
    "--format", "kind", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def exit_codes(kind: Literal["text", "json"]) -> None:
    """Print every exit code: what it means, and what a pipeline should do.

    \b
    Example:
      autopilot exit-codes --format json | jq '.[] | select(.code == 75)'
    """
    from runner.reports.exit_codes import exit_code_lines, exit_code_rows

    if kind == "json":
        click.echo(json.dumps(exit_code_rows(), indent=2))
    else:
        click.echo("\n".join(exit_code_lines()))


@click.command(short_help="Print the JSON Schema of a spec, event or result.")
@click.argument("what", type=click.Choice(get_args(SchemaName)), default="task")
def schema(what: SchemaName) -> None:
    """Print the JSON Schema of a task spec, of an event, or of a result.

    \b
    Example:
      autopilot schema task > task.schema.json
    """
    click.echo(json.dumps(schema_of(what), indent=2))


def schema_of(what: SchemaName) -> object:
    """The schema by its name."""
    if what == "task":
        from runner.adapters.specfile import task_schema

        return task_schema()
    from runner.reports.schemas import event_schema, result_schema

    return event_schema() if what == "event" else result_schema()
