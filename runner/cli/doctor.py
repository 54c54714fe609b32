"""The command that looks at the machine: `doctor`."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from runner.cli.look import HOME_OPTION, home_of, write_lines
from runner.cli.options import Changes, change_options, load_or_exit

if TYPE_CHECKING:
    from runner.app.doctor import Findings
    from runner.core.events import SandboxReport

NOT_READY = 78


@click.command(short_help="Check whether this machine can run tasks.")
@click.argument("spec", required=False)
@click.option(
    "--format", "kind", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@HOME_OPTION
@change_options
@click.pass_context
def doctor(
    context: click.Context,
    spec: str | None,
    kind: Literal["text", "json"],
    home: Path | None,
    inputs: tuple[str, ...],
    settings: tuple[str, ...],
) -> None:
    """Check whether this machine can run tasks, or the one of SPEC; exit 0, or 78 when it cannot.

    The sandbox is tried out as a run would: what holds here, what does not, and how to get more.

    \b
    Examples:
      autopilot doctor
      autopilot doctor task.yaml --format json
    """
    from runner.app.doctor import examine

    task = None
    if spec is not None:
        task = load_or_exit(spec, Changes(inputs=inputs, settings=settings))
    found = examine(task, home_of(home))
    if kind == "json":
        click.echo(json.dumps(_json(found), indent=2))
    else:
        write_lines(_lines(found))
    context.exit(0 if found.ok else NOT_READY)


def _json(found: Findings) -> dict[str, Any]:
    from runner.core import wire

    return {
        "ok": found.ok,
        "place": found.place,
        "checks": [wire.encode(check) for check in found.checks],
        "sandbox": None if found.sandbox is None else wire.encode(found.sandbox),
    }


def _lines(found: Findings) -> Iterator[str]:
    for check in found.checks:
        yield f"{'ok' if check.ok else 'FAILED':<8}{check.name:<17}{check.detail}"
    if found.sandbox is not None:
        yield ""
        yield from _sandbox_lines(found.sandbox, found.place)
    failed = sum(not check.ok for check in found.checks)
    yield ""
    yield "ready" if not failed else f"not ready: {failed} of {len(found.checks)} checks failed"


def _sandbox_lines(report: SandboxReport, place: str) -> Iterator[str]:
    yield f"sandbox on {place}: {report.tier}, network {report.network}"
    for title, lines in (
        ("holds", report.enforced),
        ("does not", report.unenforced),
        ("tried", tuple(_tried(report))),
        ("for more", report.skipped),
    ):
        for number, line in enumerate(lines):
            yield f"  {title if number == 0 else '':<10}{line}"


def _tried(report: SandboxReport) -> Iterator[str]:
    for canary in report.canaries:
        yield f"{canary.name}: {canary.detail}"
