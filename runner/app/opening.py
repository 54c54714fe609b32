"""What stands first in a log: the start or resumption, the spec, the preflight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from runner import __version__
from runner.adapters import leftovers, preflight, secret_values
from runner.adapters.sandbox.choice import RANKS
from runner.adapters.specfile import spec_hash
from runner.app import custom_tools, wiring
from runner.app.session import (
    Opened,
    head_change,
    resume_event,
    start_context,
    widened,
)
from runner.app.worksite import Worksite
from runner.core import wire
from runner.core.events import (
    Check,
    McpListing,
    RunnerPreflight,
    RunnerSpec,
    SandboxReport,
    SessionResume,
    SessionStart,
    SessionWarning,
    SkillListing,
    ToolListing,
)
from runner.core.messages import ToolSpec
from runner.core.spec import TaskSpec
from runner.core.state import State
from runner.core.weight import tools_bound
from runner.engine.hooks import close_hooks
from runner.engine.recorder import Recorder
from runner.engine.recover import close_model_call


def record_start(
    recorder: Recorder, opened: Opened, spec: TaskSpec, session_id: str, now: str
) -> None:
    """The start or the resumption, and the spec that holds from here on."""
    journal = opened.journal
    sentences = wiring.sentences()
    if opened.is_new:
        recorder.record(
            SessionStart(
                session_id=session_id,
                copilot_version=__version__,
                start_time=now,
                selected_model=spec.model,
                context=start_context(Path(spec.workspace.path)),
            )
        )
    else:
        resume = resume_event(opened, spec, sentences, now)
        journal.retire_result()
        recorder.record(resume)
        if journal.torn is not None:
            recorder.record(journal.torn)
        close_model_call(recorder)
        close_hooks(recorder)
        sweep(recorder, session_id)
        _warn_of_head(recorder, opened.state, resume)
    recorder.record(
        RunnerSpec(spec=wire.encode(spec), spec_hash=spec_hash(spec), sentences=sentences)
    )
    if opened.state.spec is not None and (more := widened(opened.state.spec, spec)):
        message = f"the rules are wider than before: {'; '.join(more)}"
        recorder.record(SessionWarning(warning_type="permissions_widened", message=message))


def check(spec: TaskSpec, environ: Mapping[str, str], now: State) -> tuple[Check, ...]:
    """The checks before the first paid call, and whether the session may go on once more."""
    checks = (*preflight.run_checks(spec, environ), *secret_values.checks(spec, environ))
    checks += custom_tools.checks(spec, environ)
    most = spec.limits.max_resumes
    if now.resumes > most:
        detail = f"killed {now.resumes} times in a row; `limits.max_resumes` allows {most}"
        checks = (*checks, Check(name="resumes", ok=False, detail=detail))
    return checks


def record_preflight(
    recorder: Recorder,
    spec: TaskSpec,
    checks: tuple[Check, ...],
    shown: tuple[ToolSpec, ...],
    site: Worksite,
    versions: Mapping[str, str],
    sandbox: SandboxReport | None = None,
    servers: tuple[McpListing, ...] = (),
    skills: tuple[SkillListing, ...] = (),
    deferred: tuple[str, ...] = (),
) -> None:
    """What was checked, what is offered, what a call costs, and where commands run."""
    before = recorder.state.preflight
    recorder.record(
        RunnerPreflight(
            checks=checks,
            tools=tuple(ToolListing(name=t.name, read_only=t.read_only) for t in shown),
            sandbox=sandbox.tier if sandbox else "none",
            sandbox_report=sandbox,
            workspace=str(site.path),
            prices=preflight.prices(spec),
            windows=preflight.windows(spec),
            mcp_servers=servers,
            skills=skills,
            deferred=deferred,
            tool_definitions_bytes=tools_bound(t for t in shown if t.name not in deferred),
            versions={"runner": __version__, **versions},
        )
    )
    if before is not None and sandbox is not None and RANKS[sandbox.tier] < RANKS[before.sandbox]:
        message = f"commands ran in tier {before.sandbox} before, and in {sandbox.tier} now"
        recorder.record(SessionWarning(warning_type="sandbox_weaker", message=message))
    warn_of_no_diff(recorder, site)


def warn(recorder: Recorder, warning_type: str, messages: Iterable[str]) -> None:
    """Record what a person should know."""
    for message in messages:
        recorder.record(SessionWarning(warning_type=warning_type, message=message))


def warn_of_unmasked(recorder: Recorder, spec: TaskSpec, environ: Mapping[str, str]) -> None:
    """Say which secrets of the spec are shown all the same, and why."""
    for message in secret_values.unmasked(spec, environ):
        recorder.record(SessionWarning(warning_type="secret_not_masked", message=message))


def sweep(recorder: Recorder, session_id: str) -> None:
    """End what tools left running, now or before the last kill, and say so."""
    survivors = leftovers.sweep(session_id)
    if survivors:
        text = f"killed {len(survivors)} left-over processes: {', '.join(survivors)}"
        recorder.record(SessionWarning(warning_type="survivors", message=text, survivors=survivors))


def warn_of_no_diff(recorder: Recorder, site: Worksite) -> None:
    """Say once that, and why, the changes cannot be told; and what else a person should know."""
    if site.notice is not None:
        recorder.record(SessionWarning(warning_type="uncommitted", message=site.notice))
        site.notice = None
    if site.problem is not None:
        recorder.record(SessionWarning(warning_type="no_diff", message=site.problem))
        site.problem = None


def _warn_of_head(recorder: Recorder, before: State, resume: SessionResume) -> None:
    if change := head_change(before, resume.context):
        message = f"HEAD of the workspace was {change[0]} and is {change[1]} now"
        recorder.record(SessionWarning(warning_type="head_changed", message=message))
