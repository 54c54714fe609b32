"""The command that writes a first spec, and a file for a CI system: `init`."""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from runner.cli.log import NotWritten
from runner.cli.look import FolderPath, Refused

SPEC = "autopilot.yaml"

FILES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "github": (
        ("ci/github/autopilot-scheduled.yml", ".github/workflows/autopilot-scheduled.yml"),
        ("ci/github/autopilot-labelled.yml", ".github/workflows/autopilot-labelled.yml"),
    ),
    "gitlab": (("ci/gitlab/autopilot.gitlab-ci.yml", "autopilot.gitlab-ci.yml"),),
    "jenkins": (("ci/jenkins/Jenkinsfile.autopilot", "Jenkinsfile.autopilot"),),
    "cron": (
        ("ci/cron/autopilot-cron.sh", "autopilot-cron.sh"),
        ("ci/cron/autopilot.service", "autopilot.service"),
        ("ci/cron/autopilot.timer", "autopilot.timer"),
    ),
    "systemd": (
        ("ci/cron/autopilot.service", "autopilot.service"),
        ("ci/cron/autopilot.timer", "autopilot.timer"),
    ),
    "kubernetes": (("ci/kubernetes/autopilot.yaml", "autopilot.kubernetes.yaml"),),
}
"""For each CI system: the packed file, and where it goes."""


@click.command(short_help="Write a first spec, and a file for your CI system.")
@click.option(
    "--ci",
    "systems",
    type=click.Choice(list(FILES)),
    multiple=True,
    help="Write what this system needs as well. Repeatable.",
)
@click.option(
    "--directory",
    type=FolderPath(file_okay=False),
    default=Path(),
    help="Where to write. Default: here.",
)
def init(systems: tuple[str, ...], directory: Path) -> None:
    """Write a commented spec, autopilot.yaml, and by choice what a CI system needs to run it.

    Nothing that is there is overwritten: when one of the files exists, none is written. A spec
    that is there already stays, and is used.

    \b
    Examples:
      autopilot init
      autopilot init --ci github
    """
    wanted = list(dict.fromkeys(pair for system in systems for pair in FILES[system]))
    spec = directory / SPEC
    if not systems or not os.path.lexists(spec):
        wanted.insert(0, (f"ci/{SPEC}", SPEC))
    there = [name for _, name in wanted if os.path.lexists(directory / name)]
    if there:
        raise Refused(f"{', '.join(there)}: already there, so nothing was written")
    for source, name in wanted:
        _write(source, directory / name)
        click.echo(f"wrote {directory / name}")


def _write(source: str, path: Path) -> None:
    """A new file; one that appeared meanwhile stays."""
    from runner.adapters import configs

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(configs.read_text(source))
        if path.suffix == ".sh":
            path.chmod(path.stat().st_mode | 0o111)
    except OSError as error:
        raise NotWritten(f"{path} was not written: {error.strerror}") from error
