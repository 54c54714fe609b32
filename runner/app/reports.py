"""The reports of a run that is over: those its spec asks for, and what a GitHub job is told.

Rules of this file: a report is made from the log; one that cannot be made or written is a problem
to tell, and changes no ending.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runner.adapters import configs
from runner.adapters.ci_text import ci_of, visible
from runner.adapters.journal import LogDamaged, SessionError, read_log
from runner.adapters.report_files import (
    append_line_file,
    copy_report,
    remove_report,
    size_of,
    write_report,
)
from runner.app.world import Finished, World
from runner.core.events import Record
from runner.core.spec import TaskSpec
from runner.reports import github
from runner.reports.digest import Digest
from runner.reports.digesting import digest
from runner.reports.formats import ReportFormat, render
from runner.reports.summary import MAX_BYTES, summary

PATCH = "patch.diff"
PATCH_CHARS = 1_000_000
"""How much of a patch the page is given; it shows less."""


def write_reports(spec: TaskSpec, finished: Finished, world: World) -> Finished:
    """Write everything; the same `Finished` with the problems, and what the CI log is to say."""
    wanted = spec.reports
    asked: tuple[tuple[ReportFormat, str | None], ...] = (
        ("summary", wanted.summary),
        ("junit", wanted.junit),
        ("html", wanted.html),
    )
    on_github = wanted.github == "auto" and ci_of(world.environ) == "github"
    problems = [] if wanted.patch is None else _patch(finished.folder, Path(wanted.patch))
    notices: list[str] = []
    if on_github or any(path for _, path in asked):
        run = digest(_records(finished.folder, problems), name=spec.name, result=finished.result)
        for kind, path in asked:
            if path is not None:
                problems += _write(kind, Path(path), run, finished.folder)
        if on_github:
            problems += _tell_github(run, finished, wanted.patch, world)
            told = github.annotation(run, visible=visible)
            notices += [told] if told else []
    return finished.with_more(problems, notices)


def _records(folder: Path | None, problems: list[str]) -> Iterator[Record]:
    """The log as far as it can be read."""
    if folder is None:
        return
    try:
        yield from read_log(folder)
    except (LogDamaged, SessionError, OSError) as error:
        problems.append(f"the reports end where the log cannot be read: {error}")


def _write(kind: ReportFormat, path: Path, run: Digest, folder: Path | None) -> list[str]:
    patch = patch_text(folder) if kind == "html" else ""
    text = render(kind, run, visible=visible, config_text=configs.read_text, patch=patch)
    problem = write_report(path, [text.encode("utf-8", "backslashreplace")])
    return [problem] if problem else []


def patch_text(folder: Path | None) -> str:
    """The beginning of what the run changed; empty when nobody looked."""
    try:
        with (folder or Path()).joinpath(PATCH).open(encoding="utf-8", errors="replace") as file:
            return "" if folder is None else file.read(PATCH_CHARS)
    except OSError:
        return ""


def _patch(folder: Path | None, path: Path) -> list[str]:
    source = None if folder is None else folder / PATCH
    if source is None or not source.exists():
        remove_report(path)
        return [f"{path} was not written: the run has no patch"]
    problem = copy_report(source, path)
    return [problem] if problem else []


def _tell_github(run: Digest, finished: Finished, patch: str | None, world: World) -> list[str]:
    """Add to the files the job reads after the step."""
    problems = []
    if page := world.environ.get("GITHUB_STEP_SUMMARY"):
        room = MAX_BYTES - size_of(Path(page)) - 2
        text = "\n" + summary(run, visible=visible, max_bytes=room) + "\n"
        problems.append(append_line_file(Path(page), text, max_bytes=MAX_BYTES))
    if outputs := world.environ.get("GITHUB_OUTPUT"):
        own = None if finished.folder is None else str(finished.folder / PATCH)
        there = [path for path in (patch, own) if path and Path(path).exists()]
        values = github.step_outputs(finished.result, patch=there[0] if there else "")
        problems.append(append_line_file(Path(outputs), github.output_file(values, world.new_id)))
    return [problem for problem in problems if problem]
