"""What the end of a hook's process means: its exit code, and the JSON or the text it printed.

Exit codes and fields are those of Claude Code's command hooks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from runner.core.events import HookOutcome, HookOutput
from runner.core.hook_events import CANNOT_BLOCK
from runner.core.spec import HookEvent
from runner.core.wire import MAX_DEPTH, is_deeper, strict_json

MAX_CHARS: Final = 10_000
"""How much of each text in an answer is taken."""

_TEXT_IS_CONTEXT = frozenset({"UserPromptSubmit", "SessionStart"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """How a hook's process ended. `exit_code` is None when it was killed at its limit, or could
    not be started, for which `problem` gives the reason."""

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What an ended process means. `problem` is why it is no sound answer; there may be a usable
    part in it all the same. `quiet`: what it printed is not to be shown."""

    outcome: HookOutcome
    output: HookOutput | None = None
    problem: str | None = None
    quiet: bool = False


class _Malformed(ValueError):
    """The answer is not what an answer may be."""


def read(event: HookEvent, ran: HookRun, *, fail_closed: bool) -> Reading:
    """What a hook's exit means. With `fail_closed`, whatever is not sound blocks."""
    reading = _read(event, ran)
    said = reading.output or HookOutput()
    if reading.problem is None or not fail_closed or said.decision in ("deny", "block"):
        return reading
    why = f"a hook that must not fail did: {reading.problem}"
    return replace(reading, output=_blocking(event, why, said))


def _read(event: HookEvent, ran: HookRun) -> Reading:
    if ran.problem is not None:
        return Reading(outcome="error", problem=ran.problem)
    if ran.exit_code is None:
        return Reading(outcome="timeout", problem="it took longer than its limit and was killed")
    try:
        output, quiet, wrong = *_parsed(event, ran.stdout), None
    except _Malformed as malformed:
        output, quiet, wrong = None, False, f"its answer cannot be used: {malformed}"
    if ran.exit_code == 2:
        return _blocked(event, ran, output, quiet=quiet)
    if ran.exit_code == 0 and wrong is not None:
        return Reading(outcome="error", problem=wrong)
    if ran.exit_code == 0:
        plain = ran.stdout.strip()
        if output is None and plain and event in _TEXT_IS_CONTEXT:
            output = HookOutput(additional_context=plain[:MAX_CHARS])
        return Reading(outcome="success", output=output, quiet=quiet)
    problem = f"exit code {ran.exit_code}{_last_words(ran)}"
    return Reading(outcome="error", output=output, problem=problem, quiet=quiet)


def _blocked(event: HookEvent, ran: HookRun, output: HookOutput | None, *, quiet: bool) -> Reading:
    """Exit code 2. No answer of "allow" takes it back; its own reason is better than stderr."""
    said = output or HookOutput()
    if event in CANNOT_BLOCK or event == "SessionStart":
        problem = f"exit code 2, which blocks nothing here{_last_words(ran)}"
        return Reading(outcome="error", output=output, problem=problem, quiet=quiet)
    if said.decision in ("deny", "block"):
        return Reading(outcome="success", output=said, quiet=quiet)
    why = ran.stderr.strip()[:MAX_CHARS] or "no reason was given"
    return Reading(outcome="success", output=_blocking(event, why, said), quiet=quiet)


def _blocking(event: HookEvent, why: str, said: HookOutput) -> HookOutput:
    if event == "SessionStart":  # there is nothing else that could be held up
        return replace(said, stop_reason=why)
    decision: Literal["deny", "block"] = "deny" if event == "PreToolUse" else "block"
    return replace(said, decision=decision, reason=why)


def _last_words(ran: HookRun) -> str:
    said = (ran.stderr.strip() or ran.stdout.strip())[:400]
    return f": {said}" if said else ""


def _parsed(event: HookEvent, stdout: str) -> tuple[HookOutput | None, bool]:
    """The answer, and whether its text is to be hidden. Raises `_Malformed`."""
    if not stdout.lstrip().startswith("{"):
        return None, False
    try:
        said = strict_json(stdout)
    except (ValueError, RecursionError) as error:
        raise _Malformed(f"it starts with {{ and is not JSON: {str(error)[:200]}") from None
    if is_deeper(said):
        raise _Malformed(f"it is nested deeper than {MAX_DEPTH} levels")
    special = said.get("hookSpecificOutput", {})
    if not isinstance(special, dict):
        raise _Malformed("`hookSpecificOutput` is no object")
    if special.get("hookEventName", event) != event:
        raise _Malformed(f"`hookEventName` is not {event}")
    decision, reason = _decision(event, said, special)
    output = HookOutput(
        decision=decision,
        reason=reason,
        updated_input=_updated_input(event, special),
        updated_tool_output=_updated_output(event, special),
        additional_context=_text(special, "additionalContext"),
        system_message=_text(said, "systemMessage"),
        stop_reason=(_text(said, "stopReason") or "no reason was given")
        if said.get("continue") is False
        else None,
    )
    return output, said.get("suppressOutput") is True


Decided = tuple[Literal["allow", "deny", "ask", "block"] | None, str | None]


def _decision(event: HookEvent, said: dict[str, Any], special: dict[str, Any]) -> Decided:
    if event != "PreToolUse":
        match said.get("decision"):
            case None:
                return None, _text(said, "reason")
            case "block":
                return "block", _text(said, "reason") or "no reason was given"
            case other:
                raise _Malformed(f"`decision` is {_shown(other)}, and may only be block")
    reason = _text(special, "permissionDecisionReason") or _text(said, "reason")
    match special.get("permissionDecision", said.get("decision")):
        case None:
            return None, reason
        case "allow" | "approve":
            return "allow", reason
        case "deny" | "block":
            return "deny", reason or "no reason was given"
        case "ask":
            return "ask", reason
        case "defer":
            return "deny", "it wants the decision deferred, and nobody will make it later"
        case other:
            raise _Malformed(f"`permissionDecision` is {_shown(other)}: allow, deny or ask")


def _updated_input(event: HookEvent, special: dict[str, Any]) -> Mapping[str, Any] | None:
    updated: Mapping[str, Any] | None = special.get("updatedInput")
    if updated is None or event != "PreToolUse":
        return None
    if not isinstance(updated, dict):
        raise _Malformed("`updatedInput` is no object")
    return updated


def _updated_output(event: HookEvent, special: dict[str, Any]) -> str | None:
    updated = special.get("updatedToolOutput")
    if updated is None or event != "PostToolUse":
        return None
    return updated if isinstance(updated, str) else json.dumps(updated)


def _text(said: dict[str, Any], name: str) -> str | None:
    value = said.get(name)
    if value is not None and not isinstance(value, str):
        raise _Malformed(f"`{name}` is no text")
    return value[:MAX_CHARS] if value else None


def _shown(value: object) -> str:
    return json.dumps(value)[:60]
