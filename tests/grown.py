"""Logs of conversations that get long, for tests of what is done about it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from runner.core.events import (
    CompactionTokens,
    CompactionTrigger,
    SessionCompactionComplete,
    SessionCompactionStart,
    SessionWarning,
    ToolContent,
    ToolExecutionComplete,
)
from runner.core.messages import Usage
from runner.core.spec import CompactionSpec
from tests.fakes import call, reply
from tests.logs import MODEL, Log, task

WINDOW = 20_000


def windowed(window: int = WINDOW, *, prompt: str = "Do it.", **compaction: Any) -> Log:
    """The beginning of a run whose model can read this many tokens."""
    spec = CompactionSpec(window=window, **compaction)
    return Log(task(prompt=prompt, compaction=spec))


def read(log: Log, size: int, *, tokens: int = 0) -> Log:
    """One turn that reads a file of `size` bytes; the request before it had this many tokens."""
    asked = call("Read", f"read-{log.state.main.turns_started}", file_path="a")
    log.turn().paid(usage=Usage(input_tokens=tokens)).hears(reply("", asked)).starts(asked)
    log.add(
        ToolExecutionComplete(
            tool_call_id=asked.id,
            tool_name=asked.name,
            success=True,
            turn_id=log.turn_id,
            result=ToolContent(content="x" * size),
        )
    )
    return log.ends()


def full(log: Log | None = None) -> Log:
    """Four turns, the last request of which came to more than four fifths of the window."""
    log = windowed() if log is None else log
    for tokens in (100, 5_000, 11_000, 16_500):
        read(log, 4_000, tokens=tokens)
    return log


def begins(trigger: CompactionTrigger = "threshold", reserved: str = "0") -> SessionCompactionStart:
    """A summary is asked for."""
    return SessionCompactionStart(
        trigger=trigger,
        model=MODEL,
        current_tokens=17_000,
        max_output_tokens=1_000,
        reserved_cost_usd=Decimal(reserved),
    )


USED = CompactionTokens(
    model=MODEL,
    input_tokens=100,
    output_tokens=10,
    cache_read_tokens=0,
    cache_write_tokens=0,
    duration=5,
)


def helps(
    removed: int, trigger: CompactionTrigger = "threshold", summary: str = "All was read."
) -> SessionCompactionComplete:
    """The summary stands for this many messages."""
    return SessionCompactionComplete(
        success=True,
        trigger=trigger,
        pre_compaction_tokens=17_000,
        post_compaction_tokens=3_000,
        messages_removed=removed,
        summary_content=summary,
        compaction_tokens_used=USED,
    )


def fails(
    trigger: CompactionTrigger = "threshold", reason: str = "rate_limit"
) -> SessionCompactionComplete:
    """The model could not be asked."""
    return SessionCompactionComplete(
        success=False,
        trigger=trigger,
        error="busy",
        failure_reason=reason,
        pre_compaction_tokens=17_000,
    )


def too_long(tokens: int) -> SessionWarning:
    """A request of about this many tokens was refused."""
    return SessionWarning(warning_type="context_limit", message="too long", current_tokens=tokens)
