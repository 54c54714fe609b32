"""May a call run? Hooks first, then the rules; the decision goes into the log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from runner.core.events import PermissionCompleted, PermissionRequested
from runner.core.hook_verdicts import concerns, refusal, vouched
from runner.core.hooks import Handler, Ruling, handlers, ruling
from runner.core.messages import AGENT_TOOL, SKILL_TOOL, ToolCall
from runner.core.own_tools import is_free
from runner.core.path_patterns import Places
from runner.core.permissions import looks_inside
from runner.core.rules import WEB_TOOL
from runner.core.skill_rules import decide_under, under
from runner.core.spawning import agent_name
from runner.core.spec import HookEvent, TaskSpec
from runner.core.steps import HookPoint
from runner.core.subjects import FileCall, NamedCall, Subject
from runner.core.verdicts import Verdict
from runner.core.web_rules import call_of
from runner.engine import hooks
from runner.engine.classify import classify, close_question, decided_before
from runner.engine.engine import Ask, Engine
from runner.ports import CommandTool, Tool


async def ask_hooks(engine: Engine, call: ToolCall, tool: Tool) -> Ruling:
    """What the PreToolUse hooks say about a call that is sound. Raises `JournalError`."""
    about = _handlers(engine, "PreToolUse", call, tool)
    if not about:
        return Ruling()
    payload = {"tool_name": call.name, "tool_input": call.arguments, "tool_use_id": call.id}
    point = HookPoint(event="PreToolUse", subject=call.id)
    return ruling(await hooks.ask(engine, about, point, payload))


async def permit(engine: Engine, call: ToolCall, tool: Tool, said: Ruling) -> Verdict:
    """Decide, put request and decision into the log, and tell who wants to be notified."""
    recorder = engine.recorder
    request = tool.permission(call.arguments)
    spec = recorder.state.need
    verdict = refusal(said)
    if verdict is None or (verdict.asks and engine.ask is not None):
        invoked = recorder.state.main.skills
        looks = looks_inside(under(spec, invoked), call.name)
        subject = _subject(engine, call, tool, request) if looks else None
        kind = str(request["kind"])
        ruled = decide_under(spec, invoked, call.name, kind, subject, call.arguments)
        verdict = vouched(spec, said, call.name, ruled)
    if verdict.open:
        return await _left_to_a_model(engine, call, request)
    if engine.ask is not None and (verdict.asks or _is_undecided(verdict, spec)):
        verdict = await _left_to_the_host(engine.ask, engine, call)
    if verdict.allowed and verdict.rule is None and is_free(spec, call.name, str(request["kind"])):
        if call.name == "AskUserQuestion":
            await hooks.notify(engine, "agent_needs_input", "The agent asks a question")
        return verdict  # nothing had to be decided
    return await _record(engine, call, request, verdict)


async def _left_to_a_model(engine: Engine, call: ToolCall, request: Mapping[str, Any]) -> Verdict:
    """What the model of mode auto says; it is asked about one call at a time, whoever makes it."""
    async with engine.judging:
        if (known := decided_before(engine, call)) is not None:
            return known
        return await _record(engine, call, request, await classify(engine, call))


def _is_undecided(verdict: Verdict, spec: TaskSpec) -> bool:
    """No rule is about the call, and the mode leaves that to whoever can be asked."""
    asks = spec.permission_mode in ("default", "acceptEdits")
    return asks and verdict.kind == "denied-no-approval-rule-and-could-not-request-from-user"


async def _left_to_the_host(ask: Ask, engine: Engine, call: ToolCall) -> Verdict:
    """What the program that has it run says."""
    phase, engine.phase = engine.phase, f"the host program is asked: {call.name}"
    try:
        denied = await ask(call)
    finally:
        engine.phase = phase
    if denied is None:
        return Verdict(kind="approved", reason="the host program allowed it", rule="can_use_tool")
    return Verdict(kind="denied-interactively-by-user", reason=denied)


async def _record(
    engine: Engine, call: ToolCall, request: Mapping[str, Any], verdict: Verdict
) -> Verdict:
    record_decision(engine, call, request, verdict)
    close_question(engine, call)
    if verdict.kind == "denied-no-approval-rule-and-could-not-request-from-user":
        await hooks.notify(engine, "permission_prompt", f"{call.name}: {verdict.reason}")
    return verdict


def hooks_after(engine: Engine, call: ToolCall, tool: Tool, *, ok: bool) -> tuple[str, ...] | None:
    """The hooks that are to be told how the call ended; None when there are none."""
    about = _handlers(engine, "PostToolUse" if ok else "PostToolUseFailure", call, tool)
    return tuple(handler.id for handler in about) or None


def _handlers(engine: Engine, event: HookEvent, call: ToolCall, tool: Tool) -> tuple[Handler, ...]:
    """The hooks about this call. An `if` is looked into only when there is one."""
    spec = engine.recorder.state.need
    named = handlers(spec, event, call.name)
    if not any(handler.hook.if_ for handler in named):
        return named
    request = tool.permission(call.arguments)
    subject = _subject(engine, call, tool, request)
    kind = str(request["kind"])
    return tuple(
        handler
        for handler in named
        if handler.hook.if_ is None
        or concerns(spec, handler.hook.if_, call.name, kind, subject, call.arguments)
    )


def _subject(engine: Engine, call: ToolCall, tool: Tool, request: Mapping[str, Any]) -> Subject:
    """What rules with a specifier look at."""
    if isinstance(tool, CommandTool):
        return tool.command(call.arguments)
    if call.name == AGENT_TOOL:
        return NamedCall(name=agent_name(call))
    if call.name == SKILL_TOOL:
        return NamedCall(name=str(call.arguments["skill"]))
    if call.name == WEB_TOOL:
        return call_of(str(call.arguments["url"]))
    path = request.get("fileName", request.get("path"))
    preflight = engine.recorder.state.preflight
    if path is None or preflight is None:
        return None
    home = os.path.expanduser("~")  # noqa: PTH111  # stays a text, and never fails
    workspace = os.path.realpath(preflight.workspace)
    return FileCall(
        paths=(str(path), os.path.realpath(str(path))),
        places=Places(workspace=workspace, home=home),
        searches=call.name == "Grep" and os.path.isdir(str(path)),  # noqa: PTH112  # as above
    )


def record_decision(
    engine: Engine, call: ToolCall, request: Mapping[str, Any], verdict: Verdict
) -> None:
    """Put a request and its decision into the log. Raises `JournalError`."""
    request_id = engine.new_id()
    asked = {**request, "toolCallId": call.id}
    engine.recorder.record(PermissionRequested(request_id=request_id, permission_request=asked))
    engine.recorder.record(
        PermissionCompleted(
            request_id=request_id,
            tool_call_id=call.id,
            result=verdict.to_wire(request),
            reason=verdict.reason,
        )
    )
