"""Processes for tools and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """How a process ended. `exit_code` is None when it was killed at `timeout_s`.

    `output` is stdout and stderr together, head and tail when it was long, or stdout alone, when
    stderr was asked for by itself and is in `errors`; `total_bytes` is
    how much there was and `output_file` where the whole of it (up to the file cap) is.
    """

    exit_code: int | None
    output: str
    total_bytes: int
    truncated: bool
    output_file: Path | None = None
    cwd: Path | None = None
    survivors: tuple[int, ...] = ()
    errors: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    """One process to run: its own session, exactly this environment, `stdin` to read.

    With `split_errors` stdout and stderr are kept apart.

    With `report_cwd` the process gets the number of a private descriptor as one more argument;
    the last NUL-ended path it writes there becomes `ExecResult.cwd`.
    """

    argv: tuple[str, ...]
    cwd: Path
    timeout_s: float
    max_output_bytes: int
    spill_file: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    report_cwd: bool = False
    stdin: bytes = b""
    split_errors: bool = False


class Sandbox(Protocol):
    """Runs processes for tools."""

    @property
    def tier(self) -> str:
        """What is enforced: `namespaces`, `landlock` or `process`, truthfully."""
        ...

    async def exec(self, request: ExecRequest, on_output: Callable[[str], None]) -> ExecResult:
        """Run to the leader's exit plus a short drain. Output is streamed to `spill_file` and
        kept as head and tail, so memory does not grow with it. Raises `OSError` when the
        program cannot be started. On return, timeout or cancel the process tree is gone."""
        ...
