"""What the engine needs from the outside world: protocols, their values and their contracts.

Rules of this file: every contract says what may be raised and what cancellation does. All
coroutines may be cancelled at any await; an implementation cleans up in `finally`.
"""

from __future__ import annotations

from runner.ports.model import Delta, Model, ModelError, ModelErrorKind, Retry
from runner.ports.process import ExecRequest, ExecResult, Sandbox
from runner.ports.session import Clock, Guard, Hooks, Journal, JournalError, Redaction, Sight, Sink
from runner.ports.tool import (
    CommandTool,
    FileTool,
    PaidTool,
    Tool,
    ToolContext,
    ToolDenied,
    ToolFailure,
    ToolOutput,
)
from runner.ports.web import Hit, Page, Web, WebSearch

__all__ = [
    "Clock",
    "CommandTool",
    "Delta",
    "ExecRequest",
    "ExecResult",
    "FileTool",
    "Guard",
    "Hit",
    "Hooks",
    "Journal",
    "JournalError",
    "Model",
    "ModelError",
    "ModelErrorKind",
    "Page",
    "PaidTool",
    "Redaction",
    "Retry",
    "Sandbox",
    "Sight",
    "Sink",
    "Tool",
    "ToolContext",
    "ToolDenied",
    "ToolFailure",
    "ToolOutput",
    "Web",
    "WebSearch",
]
