"""The view of a conversation that a model is sent, and how large it is.

The log keeps everything; this file decides what of it is shown. The prefix (tools, system
prompt, instruction files) comes first and never changes within a run, so that provider caches hold.
A `bound` is never exceeded and guards money; an estimate is the likely size and guards the window.
"""

from __future__ import annotations

from runner.core.events import SessionUsageInfo
from runner.core.messages import Message, ModelRequest, ToolSpec, User
from runner.core.state import State
from runner.core.thread import Thread
from runner.core.weight import message_bound, text_bound, tools_bound


def request(state: State, tools: tuple[ToolSpec, ...]) -> ModelRequest:
    """The next model call of the main loop, with everything it remembers.

    Near the end of a known window the reply's limit is lowered to what is left of it.
    """
    spec = state.need
    most, window = spec.max_output_tokens, state.window(state.model)
    if window is not None:
        left = window - estimated_tokens(state)
        most = min(most, max(left, spec.limits.min_output_tokens))
    return ModelRequest(
        model=state.model,
        system=state.system,
        messages=(*_told(state), *state.main.view),
        tools=tools,
        max_output_tokens=most,
        effort=spec.effort,
    )


def _told(state: State) -> tuple[Message, ...]:
    return (User(text=state.instructions),) if state.instructions else ()


def input_bound(thread: Thread) -> int | None:
    """At most this many tokens will be read; None before the provider has measured anything.

    What the provider reported stands for the messages it saw. A token is at least one byte of
    UTF-8 in every byte-level vocabulary, so the bytes of what came since are a bound for it.
    """
    if thread.measured_tokens is None:
        return None
    added = thread.messages[thread.measured_messages :]
    return thread.measured_tokens + sum(map(message_bound, added))


def request_bound(request: ModelRequest) -> int:
    """An upper bound for the tokens of a whole request, from its bytes alone."""
    messages = sum(map(message_bound, request.messages))
    return text_bound(request.system) + tools_bound(request.tools) + messages


# -- the window ------------------------------------------------------------------------------


def window_tokens(state: State) -> int | None:
    """How many tokens the model that is asked next can read, as far as that is known.

    What the spec or the model table says; less, once a provider has refused less as too long.
    """
    known = (state.window(state.model), state.main.refused_tokens)
    return min((tokens for tokens in known if tokens is not None), default=None)


def estimated_tokens(state: State) -> int:
    """About how many tokens the next request has: what the provider measured last, and what came
    since at the same density; all of it at that density while nothing has been measured."""
    main = state.main
    if main.measured_tokens is not None:
        grown = main.weight - main.measured_weight
        return main.measured_tokens + round(grown * main.density)
    return prefix_tokens(state) + round(main.weight * main.density)


def prefix_tokens(state: State) -> int:
    """About how many tokens stand before the conversation in every request."""
    return round(state.prefix_bytes * state.main.density)


def fits(state: State, request: ModelRequest) -> bool:
    """Whether the model a request names can read it, by all that is known."""
    window = state.window(request.model)
    return window is None or request_bound(request) * state.main.density <= window


def usage_info(state: State) -> SessionUsageInfo | None:
    """How full the window is; None when nobody knows how large it is."""
    window = window_tokens(state)
    if window is None:
        return None
    main = state.main
    definitions = state.preflight.tool_definitions_bytes if state.preflight else 0
    tools = round(definitions * main.density)
    current = estimated_tokens(state)
    return SessionUsageInfo(
        token_limit=window,
        current_tokens=current,
        messages_length=len(main.view),
        system_tokens=max(prefix_tokens(state) - tools, 0),
        conversation_tokens=max(current - prefix_tokens(state), 0),
        tool_definitions_tokens=tools,
        is_initial=True if main.turns_started == 0 else None,
    )
