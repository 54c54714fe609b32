"""Options that change a spec, and the one way a command loads it."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from runner.adapters.specfile import Override, SpecError
    from runner.core.spec import TaskSpec

F = TypeVar("F", bound=Callable[..., Any])

_FLAGS = {
    "model": ("--model", "MODEL", "The model to ask."),
    "max_turns": ("--max-turns", "N", "Cap on turns that use tools."),
    "max_budget_usd": ("--max-budget-usd", "USD", "Cap on cost, in US dollars."),
    "timeout": ("--timeout", "TIME", "Wall clock for the whole run: 90s, 30m."),
}
"""Spec keys with an option of their own: the flag, its placeholder, its help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What the command line changes about a spec, as it was typed."""

    inputs: tuple[str, ...]
    settings: tuple[str, ...]
    flags: tuple[tuple[str, str], ...] = ()

    def overrides(self) -> list[str | Override]:
        """`--set` first, then the options that have a name of their own."""
        from runner.adapters.specfile import Override

        named = (Override(source=_FLAGS[key][0], path=key, value=text) for key, text in self.flags)
        return [*self.settings, *named]

    def given_inputs(self) -> dict[str, str]:
        """Inputs by name. Raises `click.BadParameter` when one is malformed or given twice."""
        given: dict[str, str] = {}
        for text in self.inputs:
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise click.BadParameter(f"`{text}` is not of the form NAME=TEXT or NAME=@FILE")
            if name in given:
                raise click.BadParameter(f"the input `{name}` is given twice")
            given[name] = value
        return given


def change_options(command: F) -> F:
    """`--input` and `--set`."""
    for option in (
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set a key of the spec: --set limits.tool=10m. Repeatable.",
        ),
        click.option(
            "--input",
            "inputs",
            multiple=True,
            metavar="NAME=TEXT",
            help="Give an input of the spec; NAME=@FILE reads it. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def flag_options(command: F) -> F:
    """An option for each spec key that has one."""
    for key, (flag, metavar, text) in reversed(_FLAGS.items()):
        command = click.option(flag, key, metavar=metavar, help=text)(command)
    return command


def flags_of(values: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The flags that were given, out of a command's parameters."""
    return tuple((key, values.pop(key)) for key in _FLAGS if values.get(key) is not None)


def load(
    path: str,
    changes: Changes,
    *,
    demand_inputs: bool = True,
    demand_prompt: bool = True,
    stdin: Callable[[], str] | None = None,
) -> TaskSpec:
    """The spec at this path, `-` for stdin, which is read in no other case.

    Raises `SpecError`, and `click.UsageError` when the changes are malformed.
    """
    from runner.adapters.specfile import load_spec

    return load_spec(
        "-" if path == "-" else Path(path),
        overrides=changes.overrides(),
        inputs=changes.given_inputs(),
        stdin=stdin or _read_stdin,
        demand_inputs=demand_inputs,
        demand_prompt=demand_prompt,
    )


def load_or_exit(path: str, changes: Changes, **how: Any) -> TaskSpec:
    """The same; problems go to stderr, one a line, and end the command with code 2."""
    from runner.adapters.specfile import SpecError

    try:
        return load(path, changes, **how)
    except SpecError as error:
        tell_problems(error)
        raise click.exceptions.Exit(2) from error


def tell_problems(error: SpecError) -> None:
    """Every problem of a spec on stderr, each with its place."""
    from runner.adapters.ci_text import inert

    click.echo(inert(str(error)), err=True)


def _read_stdin() -> str:
    if sys.stdin is None:  # it was closed
        return ""
    # What is not UTF-8 comes through, so that the spec's own checks can say where it is.
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
