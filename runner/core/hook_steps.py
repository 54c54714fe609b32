"""When hooks are due, and what follows from what they said: the rows of the table about hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runner.core.events import SessionError, UserMessage
from runner.core.hooks import Handler, block_reason, handlers, in_order, key, ruling
from runner.core.spec import HookEvent
from runner.core.state import MAIN, State
from runner.core.steps import HookPoint, RunHooks, Say, Step
from runner.core.thread import HOOK_CONTEXT, STOP_HOOK, Thread

MAX_STOP_BLOCKS: Final = 8
"""How often in a row hooks may keep an agent from stopping."""


def stopped_unrecorded(state: State) -> bool:
    """A hook wants the run to end, and nothing that ends it is recorded."""
    return state.hook_stop is not None and state.failure is None


def record_stop(state: State) -> Step:
    """Record the hook's word as the failure that ends the run."""
    message = state.hook_stop or ""
    return Say(events=(SessionError(error_type="hook_stopped", message=message),))


def calls_due(state: State) -> bool:
    """A call has ended and hooks are still to be told of it."""
    return bool(_call_points(state))


def tell_of_calls(state: State) -> Step:
    """Run the hooks that are about ended calls."""
    return RunHooks(points=_call_points(state))


def call_handlers(state: State, agent_id: str, point: HookPoint) -> tuple[Handler, ...]:
    """Those hooks of an ended call that were found to be about it and have not answered."""
    thread = state.threads[agent_id]
    due = thread.hooks_due.get(point.subject, ())
    known = handlers(state.need, point.event, thread.results[point.subject].name)
    return tuple(h for h in known if h.id in due and h.id not in _answered(thread, point))


def _call_points(state: State) -> tuple[HookPoint, ...]:
    points = (
        HookPoint(event="PostToolUseFailure" if result.is_error else "PostToolUse", subject=call_id)
        for call_id, result in state.main.results.items()
        if state.main.hooks_due.get(call_id)
    )
    return tuple(point for point in points if call_handlers(state, MAIN, point))


def _answered(thread: Thread, point: HookPoint) -> frozenset[str]:
    return frozenset(end.handler for end in thread.heard.get(key(point.event, point.subject), ()))


# -- stopping -----------------------------------------------------------------------------------


def stop_unasked(state: State) -> bool:
    """The main loop would end well and its Stop hooks have not been asked. After an abort or a
    cap nobody asks them."""
    is_stopped = state.abort or state.tripped or state.failure
    return bool(_stop_handlers(state)) and not is_stopped


def stop_unvouched(state: State) -> bool:
    """A Stop hook that must not fail has not answered."""
    return any(handler.hook.fail_closed for handler in _stop_handlers(state))


def ask_stop(state: State) -> Step:
    """Ask the Stop hooks."""
    return RunHooks(points=(HookPoint(event="Stop"),))


def stop_refused(state: State) -> bool:
    """A Stop hook wants the agent to work on, and may still have its way."""
    return stop_block(state.main, "Stop") is not None and state.main.stop_blocks < MAX_STOP_BLOCKS


def work_on(state: State) -> Step:
    """The hook's reason is the next thing the user says."""
    reason = stop_block(state.main, "Stop") or ""
    text = state.sentences.get("stop_blocked", "{reason}").replace("{reason}", reason)
    return Say(events=(UserMessage(content=text, source=STOP_HOOK),))


def stop_block(thread: Thread, event: HookEvent, subject: str = "") -> str | None:
    """Why hooks that were asked keep the agent from stopping; None when they do not."""
    return block_reason(in_order(thread.heard.get(key(event, subject), ())))


def _stop_handlers(state: State) -> tuple[Handler, ...]:
    point = HookPoint(event="Stop")
    asked = _answered(state.main, point)
    return tuple(h for h in handlers(state.need, "Stop") if h.id not in asked)


# -- context ------------------------------------------------------------------------------------


def context_untold(state: State) -> bool:
    """Hooks of the start or of the prompt add something to the conversation."""
    return bool(state.main.told)


def tell_context(state: State) -> Step:
    """Say it, as one message."""
    added = "\n\n".join(state.main.told)
    text = state.sentences.get("hook_context", "{text}").replace("{text}", added)
    return Say(events=(UserMessage(content=text, source=HOOK_CONTEXT),))


# -- calls --------------------------------------------------------------------------------------


def arguments_of(thread: Thread, call_id: str) -> Mapping[str, Any]:
    """What a call of the open turn was run with: what was asked for, unless a hook changed it."""
    said = ruling(in_order(thread.heard.get(key("PreToolUse", call_id), ())))
    if said.updated_input is not None:
        return said.updated_input
    calls = thread.reply.calls if thread.reply else ()
    return next((call.arguments for call in calls if call.id == call_id), {})
