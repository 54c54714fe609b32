"""From a task to an engine: check, prepare, wire, and write what stands first in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runner.adapters.hooks import CommandHooks
from runner.adapters.litellm_search import LitellmSearch
from runner.adapters.mcp.servers import Servers
from runner.adapters.output_schema import output_errors
from runner.adapters.protected import Protection
from runner.adapters.redact import Mask
from runner.adapters.retry import retry_policy
from runner.adapters.sandbox.choice import Chosen
from runner.adapters.skills import Found
from runner.app import (
    agents,
    boundary,
    custom_tools,
    guarding,
    hooking,
    instructions,
    mcp_servers,
    opening,
    project_agents,
    skilled,
    startup,
    web,
    wiring,
)
from runner.app.session import Opened, prompts_differ
from runner.app.worksite import Worksite
from runner.app.world import World
from runner.core.events import Check, SessionError, SystemMessage, UserMessage
from runner.core.messages import ToolSpec
from runner.core.spec import TaskSpec
from runner.engine.engine import Engine
from runner.engine.guard import compare
from runner.engine.recorder import Recorder
from runner.engine.recover import recover
from runner.ports import Model, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a run starts from. `began` and `deadline` are on the event loop's clock."""

    spec: TaskSpec
    world: World
    mask: Mask
    opened: Opened
    site: Worksite
    recorder: Recorder
    began: float
    deadline: float | None


@dataclass(slots=True, kw_only=True)
class Parts:
    """What is there so far: the run lets go of it, however far the set-up came."""

    model: Model | None = None
    search: LitellmSearch | None = None
    guard: Protection | None = None
    where: Chosen | None = None
    servers: Servers | None = None
    skills: Found = field(default_factory=Found)
    deferred: tuple[str, ...] = ()
    engine: Engine | None = None


async def set_up(setting: Setting, parts: Parts) -> Engine | None:
    """The engine, its log up to the first request; None when a check failed (and is recorded).

    Raises `JournalError`, `WorkspaceError`, and `TimeoutError` at the deadline.
    """
    spec, world, opened = setting.spec, setting.world, setting.opened
    checks = await _prepare(setting, parts)
    failed = [check for check in checks if not check.ok]
    toolbox = _toolbox(setting, parts)
    shown = wiring.offered_tools(spec, toolbox)
    if not failed:
        parts.engine = _wire(setting, parts, toolbox, shown)
    if parts.engine is not None:
        await hooking.start(parts.engine, opened, setting.deadline)
    report = parts.where.report if parts.where else None
    servers = parts.servers.listings() if parts.servers else ()
    opening.record_preflight(
        setting.recorder,
        spec,
        checks,
        shown,
        setting.site,
        world.versions,
        report,
        servers,
        skilled.listings(spec, parts.skills),
        parts.deferred,
    )
    opening.warn_of_unmasked(setting.recorder, spec, world.environ)
    if parts.engine is None or parts.guard is None:
        message = "; ".join(f"{check.name}: {check.detail}" for check in failed)
        setting.recorder.record(SessionError(error_type="preflight", message=message))
        return None
    await guarding.record(setting.recorder, parts.guard, opened.state)
    await _say_first(setting, parts.engine, parts.where, parts.skills)
    return parts.engine


async def _prepare(setting: Setting, parts: Parts) -> tuple[Check, ...]:
    """The checks, and what only makes sense once they passed: model, workspace, sandbox."""
    spec, environ, opened = setting.spec, setting.world.environ, setting.opened
    checks = opening.check(spec, environ, setting.recorder.state)
    if not all(check.ok for check in checks):
        return checks
    parts.model = wiring.model(spec, environ, opened.state.attempts_over)
    parts.search = web.search(spec, environ)
    await startup.prepare(
        setting.site,
        setting.recorder,
        setting.world.clock,
        began=setting.began,
        limit_s=spec.limits.start,
        deadline=setting.deadline,
    )
    path, folder = setting.site.path, opened.journal.folder
    parts.guard = await guarding.protection(spec, path)
    async with asyncio.timeout_at(setting.deadline):
        parts.where = await boundary.establish(spec, path, folder, environ, parts.guard.existing)
    parts.skills = skilled.find(spec, path, setting.mask)
    skilled.warn(setting.recorder, spec, parts.skills)
    checks = (*checks, *skilled.checks(spec, parts.skills), parts.where.check)
    checks += agents.checks(spec, parts.skills.skills)
    lacking = agents.missing_skills(spec, parts.skills.skills)
    opening.warn(setting.recorder, project_agents.WARNING, lacking)
    if not parts.where.check.ok:
        return checks
    ground = _ground(setting, parts)
    async with asyncio.timeout_at(setting.deadline):
        checks += await custom_tools.tried(spec, ground)
    if not spec.mcp_servers:
        return checks
    parts.servers = await mcp_servers.start(spec, ground, setting.recorder, setting.deadline)
    before = opened.state.preflight
    mcp_servers.warn(spec, setting.recorder, parts.servers, before.mcp_servers if before else ())
    return (*checks, *mcp_servers.checks(parts.servers))


def _ground(setting: Setting, parts: Parts) -> mcp_servers.Ground:
    """Where what the task brings is started, and what it may see."""
    return mcp_servers.Ground(
        workspace=setting.site.path,
        session=setting.opened.journal.folder,
        environ=setting.world.environ,
        mask=setting.mask,
        enclosure=parts.where.enclosure if parts.where else None,
    )


def _toolbox(setting: Setting, parts: Parts) -> Mapping[str, Tool]:
    """Every tool, in the order in which the model is shown them."""
    found = mcp_servers.tools(parts.servers)
    parts.deferred = mcp_servers.kept_back(setting.spec, found)
    return {
        **_built_in(setting, parts),
        **web.tools(setting.spec, parts.search),
        **agents.tool(setting.spec),
        **skilled.tool(setting.spec, parts.skills),
        **custom_tools.tools(setting.spec, _ground(setting, parts), setting.world.functions),
        **mcp_servers.search(found, parts.deferred, parts.servers),
        **found,
    }


def _built_in(setting: Setting, parts: Parts) -> Mapping[str, Tool]:
    """A fresh set of those tools that remember."""
    return wiring.toolbox(
        setting.spec,
        setting.site.path,
        setting.world.environ,
        setting.opened.journal.folder,
        parts.guard.why if parts.guard else lambda path: None,
        mask=setting.mask,
        enclosure=parts.where.enclosure if parts.where else None,
    )


def _wire(
    setting: Setting, parts: Parts, toolbox: Mapping[str, Tool], shown: tuple[ToolSpec, ...]
) -> Engine | None:
    """The engine, once everything it needs is there."""
    if parts.model is None or parts.guard is None or parts.where is None:
        return None
    spec, world, journal = setting.spec, setting.world, setting.opened.journal
    bench = wiring.bench(
        spec,
        setting.site.path,
        world.environ,
        journal.folder,
        mask=setting.mask,
        enclosure=parts.where.enclosure,
    )
    return Engine(
        recorder=setting.recorder,
        model=parts.model,
        retry=retry_policy(spec.retry),
        tools=toolbox,
        offered=shown,
        clock=world.clock,
        new_id=world.new_id,
        files_dir=journal.files,
        bench=bench,
        guard=parts.guard,
        output_errors=output_errors,
        gates=setting.site.gates if spec.require_changes or spec.forbid_changes else None,
        ask=world.ask,
        hooks=CommandHooks(
            sandbox=bench.sandbox,
            workspace=bench.workspace,
            session=journal.folder,
            env=bench.env,
        ),
        crew=agents.crew(
            spec,
            setting.site.path,
            parts.where.report,
            parts.skills.skills,
            lambda: {**toolbox, **_built_in(setting, parts)},
        ),
    )


async def _say_first(setting: Setting, engine: Engine, where: Chosen | None, found: Found) -> None:
    """The prompts; in a session that goes on, what became of what a kill left open."""
    spec, recorder, opened, site = setting.spec, setting.recorder, setting.opened, setting.site
    if prompts_differ(opened.state, spec, site.path):
        now, report = setting.world.clock.now(), where.report if where else None
        recorder.record(SystemMessage(content=wiring.system_prompt(spec, site.path, now, report)))
    instructions.record(recorder, spec, site.path)
    if opened.is_new:
        mode: Literal["autopilot"] | None = "autopilot" if spec.autopilot else None
        if await hooking.may_ask(engine, opened, setting.deadline):
            recorder.record(UserMessage(content=spec.prompt, agent_mode=mode))
            skilled.invoke(recorder, spec, found)
        return
    await compare(engine)  # what was changed before ends the run before it costs anything
    await _recover(engine)
    allowed = await hooking.may_ask(engine, opened, setting.deadline)
    if allowed and spec.prompt in (recorder.state.note or ""):
        skilled.invoke(recorder, spec, found)


async def _recover(engine: Engine) -> None:
    """Close what a killed run left open; stop there if the spec wants a person to look."""
    unknown = await recover(engine)
    if unknown and engine.recorder.state.need.resume.on_unknown == "stop":
        names = ", ".join(call.name for call in unknown)
        message = f"the outcome of {names} is unknown, and `resume.on_unknown` is stop"
        engine.recorder.record(SessionError(error_type="preflight", message=message))
