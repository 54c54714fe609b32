"""What a summary of the conversation is asked of, and what it stands for afterwards.

Rules of this file: only what a model is shown shrinks, the log keeps everything; a call and its
results are shown together or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from runner.core.context import estimated_tokens, request, usage_info, window_tokens
from runner.core.events import (
    CompactionTokens,
    CompactionTrigger,
    SessionCompactionComplete,
    SessionCompactionStart,
)
from runner.core.messages import Message, ModelReply, ModelRequest, ToolResult, ToolSpec, User
from runner.core.shrink import summarised
from runner.core.state import MAIN, State
from runner.core.truncate import fit
from runner.core.weight import cut, message_bound

TAIL_SHARE = 0.25
"""How much of what is shown the newest messages may be that are kept as they are."""

TAIL_WINDOW_SHARE = 0.2
"""And how much of the window they may take at most."""

SUMMARY_SHARE = 0.25
"""How much of the window the summary may take at most, if that is enough for one."""

SUMMARY_TOKENS = 1_000
"""What is always enough for one."""

TASK_SHARE = 0.1
TASK_BYTES = 16_000
"""How much of the task is repeated word for word beside the summary."""

MARGIN = 0.95
"""Estimates are estimates: so much of the window is used where everything has to fit."""

MIN_PART_BYTES = 200

CUT_OFF = "\n[cut off here: the summary reached its output limit]"


def removable(state: State) -> int:
    """How many of the oldest messages that are shown a summary would stand for.

    The newest part of the conversation is kept whole: as much as fits into its shares, and the
    newest message (a reply with its results) in any case.
    """
    main = state.main
    first, *later = starts(main.messages, main.kept_from) or [main.kept_from]
    share, window = main.weight * TAIL_SHARE, window_tokens(state)
    if window is not None:
        share = min(share, window * TAIL_WINDOW_SHARE / main.density)
    keep, size, end = first, 0, len(main.messages)
    for start in reversed(later):
        size += sum(map(message_bound, main.messages[start:end]))
        if size > share and keep != first:
            break
        keep, end = start, start
    return keep - first


def starts(messages: Sequence[Message], first: int) -> list[int]:
    """Where each part begins that must not be divided: a message, and the results that follow."""
    return [
        number
        for number in range(first, len(messages))
        if number == first or not isinstance(messages[number], ToolResult)
    ]


def level(sizes: Iterable[int], total: int) -> int:
    """The largest cap under which the sizes come to at most `total`, cut to the cap."""
    rest, left = sorted(sizes), max(total, 0)
    for number, size in enumerate(rest):
        share = left // (len(rest) - number)
        if size > share:
            return share
        left -= size
    return left


# -- asking for it -----------------------------------------------------------------------------


def focus(state: State) -> str | None:
    """What the spec and the prompt say about the summary."""
    parts = (state.need.compaction.instructions, state.main.command)
    return "\n\n".join(part.strip() for part in parts if part and part.strip()) or None


def summary_request(state: State, tools: tuple[ToolSpec, ...]) -> ModelRequest:
    """The request for a summary: what the model would be sent, and the wish after it.

    So the provider has most of it in its cache. What does not fit the window is cut.
    """
    spec, window = state.need, window_tokens(state)
    asks_for = User(text=_fill(state.sentences.get("compact", ""), focus=focus(state) or "None."))
    asked = request(state, tools)
    most = spec.max_output_tokens
    told = asked.messages[: len(asked.messages) - len(state.main.view)]
    shown = state.main.view
    if window is not None:
        most = min(most, max(round(window * SUMMARY_SHARE), SUMMARY_TOKENS))
        room = (window - most) * MARGIN / state.main.density
        shown = _shortened(shown, int(room) - state.prefix_bytes - message_bound(asks_for))
    return replace(asked, messages=(*told, *shown, asks_for), max_output_tokens=most)


def wish(asked: ModelRequest) -> tuple[Message, ...]:
    """What a request for a summary has beyond the conversation that was measured."""
    return asked.messages[-1:]


def _shortened(messages: tuple[Message, ...], most: int) -> tuple[Message, ...]:
    """The messages in at most this many bytes: the longest are cut first, then the oldest go."""
    sizes = [message_bound(message) for message in messages]
    if sum(sizes) <= most:
        return messages
    first, *later = starts(messages, 0)
    while later and sum(min(size, MIN_PART_BYTES) for size in sizes[first:]) > most:
        first, *later = later
    cap = max(level(sizes[first:], most), MIN_PART_BYTES)
    return tuple(cut(message, cap) for message in messages[first:])


def started(
    state: State, trigger: CompactionTrigger, asked: ModelRequest, reserved_usd: Decimal
) -> SessionCompactionStart:
    """The fact that a summary is about to be asked for."""
    info = usage_info(state)
    return SessionCompactionStart(
        trigger=trigger,
        model=asked.model,
        current_tokens=estimated_tokens(state),
        max_output_tokens=asked.max_output_tokens,
        reserved_cost_usd=reserved_usd,
        token_limit=info.token_limit if info else None,
        system_tokens=info.system_tokens if info else None,
        conversation_tokens=info.conversation_tokens if info else None,
        tool_definitions_tokens=info.tool_definitions_tokens if info else None,
    )


# -- what came of it ---------------------------------------------------------------------------


def unfinished(trigger: CompactionTrigger, error: str) -> SessionCompactionComplete:
    """A compaction of unknown outcome: the view stays as it was."""
    return SessionCompactionComplete(success=False, trigger=trigger, error=error)


def failed(
    state: State, trigger: CompactionTrigger, kind: str, error: str
) -> SessionCompactionComplete:
    """The model could not be asked."""
    return SessionCompactionComplete(
        success=False,
        trigger=trigger,
        error=error,
        failure_reason=kind,
        pre_compaction_tokens=estimated_tokens(state),
        custom_instructions=focus(state),
    )


def completed(
    state: State, trigger: CompactionTrigger, reply: ModelReply, used: CompactionTokens
) -> SessionCompactionComplete:
    """What the reply comes to: a summary that stands for the oldest messages, or nothing."""
    content, removed = _content(state, reply), removable(state)
    shorter = summarised(state.main, content, removed)
    before = estimated_tokens(state)
    after = estimated_tokens(replace(state, threads={**state.threads, MAIN: shorter}))
    is_shorter = after < before or shorter.weight < state.main.weight
    after = min(after, before)  # one was measured, the other is not
    error = None
    if not reply.text.strip():
        error = "the model gave no summary"
    elif reply.finish_reason == "content_filter":
        error = "the model refused to summarise"
    elif not is_shorter and trigger != "manual":
        error = "the summary is no shorter than what it stands for"
    good = error is None
    return SessionCompactionComplete(
        success=good,
        trigger=trigger,
        error=error,
        pre_compaction_tokens=before,
        post_compaction_tokens=after if good else None,
        pre_compaction_messages_length=len(state.main.view),
        messages_removed=removed if good else None,
        tokens_removed=before - after if good else None,
        summary_content=content if good else None,
        custom_instructions=focus(state),
        compaction_tokens_used=used,
    )


def _content(state: State, reply: ModelReply) -> str:
    """The summary as the model will be told it, with the task word for word."""
    said = reply.text.strip() + (CUT_OFF if reply.finish_reason == "length" else "")
    most = TASK_BYTES
    window = window_tokens(state)
    if window is not None:
        most = min(most, int(window * TASK_SHARE / state.main.density))
    template = state.sentences.get("compacted", "{task}\n\n{summary}")
    return _fill(template, task=fit(_task(state), most), summary=said)


def _task(state: State) -> str:
    """What the agent was asked to do: a sub-agent by its first message."""
    if state.agent_id == MAIN:
        return state.task
    return next((said.text for said in state.main.messages if isinstance(said, User)), "")


def _fill(template: str, **values: str) -> str:
    """The template with each `{name}` replaced once; what is put in is left alone."""
    return re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], name[0]), template)
