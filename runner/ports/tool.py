"""What the model can call, and what a call is given and gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from runner.core.events import Fee, FileEffect, FileState, Persisted
from runner.core.messages import ToolSpec
from runner.core.subjects import ShellCall


class ToolFailure(Exception):
    """A tool could not do what was asked; the message is what the model reads."""


class ToolDenied(ToolFailure):
    """The call reached for something outside its roots, or protected; it counts as a permission
    denial, by `rule`."""

    def __init__(self, message: str, *, rule: str = "workspace roots") -> None:
        super().__init__(message)
        self.rule = rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool gives back: `content` for the model, `details` for people (a diff, a title).

    `is_error` marks an answer that reports a failure of the thing that was run (a non-zero
    exit). `output_file` is where the whole output is when `content` was cut by the tool. `file`
    is the file whose content the model knows after the call. `facts` are recorded before its end.
    """

    content: str
    details: str | None = None
    is_error: bool = False
    output_file: str | None = None
    file: FileState | None = None
    facts: tuple[Persisted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may use: limits, a place for whole outputs, and live progress.

    `on_progress` is given output as it comes, `on_status` a line on how far the tool is.
    `mask` takes secrets out of a text: to be called before it is cut or put into a file.
    """

    call_id: str
    timeout_s: float
    max_output_bytes: int
    spill_dir: Path
    on_progress: Callable[[str], None]
    on_status: Callable[[str], None] = lambda _: None
    mask: Callable[[str], str] = str


class Tool(Protocol):
    """Something the model can call. `arguments` fit `spec.input_schema` when `run` is called."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description, schema; constant over a run."""
        ...

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The call as a permission request: `kind` (shell, write, read, url, mcp, custom-tool)
        and the fields of that kind (`fullCommandText`, `fileName`, `path`, ...). Pure."""
        ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Do it. Raises `ToolFailure` to fail politely; anything else is a bug that becomes an
        error result. Cancelled: nothing it started is alive when this returns."""
        ...


@runtime_checkable
class FileTool(Tool, Protocol):
    """A tool whose whole effect is the new content of one file."""

    def foresee(self, arguments: Mapping[str, Any]) -> FileEffect:
        """What `run` would do to the file now. Changes nothing. Raises `ToolFailure`."""
        ...

    def recall(self, effect: FileEffect) -> Literal["applied", "pending", "unknown"]:
        """Whether an announced effect happened, by the file's hash: it is there, the file is
        as it was before (a new `run` will not ask for it to be read again), or neither."""
        ...

    def remember(self, file: FileState) -> None:
        """The model knows this content of this file, from before the run was resumed."""
        ...


@runtime_checkable
class PaidTool(Tool, Protocol):
    """A tool whose every call costs something beside the model's tokens."""

    @property
    def fee(self) -> Fee | None:
        """What one call costs; None when it cannot cost anything. Constant over a run."""
        ...


@runtime_checkable
class CommandTool(Tool, Protocol):
    """A tool whose calls are commands, which rules may look into."""

    def command(self, arguments: Mapping[str, Any]) -> ShellCall:
        """What the call would run. Changes nothing."""
        ...
