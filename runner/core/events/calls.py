"""Facts about tool calls: permitted or not, begun, ended, and what they did to files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal

ErrorCode = Literal[
    "unknown_tool",
    "invalid_arguments",
    "denied",
    "failed",
    "timeout",
    "cancelled",
    "not_run",
    "interrupted",
    "check_failed",
    "output_mismatch",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEffect:
    """What a call will do to one file: SHA-256 before (None: no file) and after."""

    path: str
    after: str
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """The content of a file that the model knows of: it was read, or written by a call."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fee:
    """What a call costs beside the model's tokens, in USD, and who says so."""

    cost_usd: Decimal
    basis: Literal["table", "spec", "unpriced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionStart:
    """A call is about to have its effect; `effect` is how to tell later whether it had it.

    A `fee` is charged here, before the effect: whatever becomes of the call, it may be billed.
    """

    type: ClassVar = "tool.execution_start"
    tool_call_id: str
    tool_name: str
    arguments: Mapping[str, Any]
    turn_id: str
    effect: FileEffect | None = None
    fee: Fee | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContent:
    """What the model is shown of a successful call; `detailed_content` is for people."""

    content: str
    detailed_content: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """Why a call has no result; `message` is what the model is shown."""

    message: str
    code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionComplete:
    """The one outcome of a call. `output_file` names the whole output when it was cut; `file` is
    the file the model knows after it. `hooks` are the handlers that are still to be told of it."""

    type: ClassVar = "tool.execution_complete"
    tool_call_id: str
    tool_name: str
    success: bool
    turn_id: str
    result: ToolContent | None = None
    error: ToolError | None = None
    output_file: str | None = None
    file: FileState | None = None
    hooks: tuple[str, ...] | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequested:
    """A call needs a decision; the request's shape depends on its `kind`."""

    type: ClassVar = "permission.requested"
    request_id: str
    permission_request: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionCompleted:
    """The decision: `result.kind` is `approved` or one of the `denied-*` kinds."""

    type: ClassVar = "permission.completed"
    request_id: str
    tool_call_id: str
    result: Mapping[str, Any]
    reason: str
