"""A tool that is a function of the host program: it runs in its process, behind no wall."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from runner.core.spec import CustomToolSpec
from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import answer
from runner.tools.custom import asked_for, described

CANCEL_S: Final = 1.0
"""How long a function that was cancelled may take to end."""

Start = Callable[[Mapping[str, Any]], asyncio.Future[object]]
"""Starts a call and returns at once. What it gives is cancelled when nobody waits any more."""


class HostTool:
    """Calls a function of the host. One that does not end in time is given up, not killed."""

    def __init__(self, name: str, tool: CustomToolSpec, start: Start) -> None:
        self.spec = described(name, tool)
        self._timeout_s = tool.timeout
        self._start = start

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return asked_for(self.spec, arguments)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        limit_s = min(self._timeout_s or context.timeout_s, context.timeout_s)
        running = self._start(arguments)
        try:
            await asyncio.wait({running}, timeout=limit_s)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait({running}, timeout=CANCEL_S)
        if running.cancelled() or not running.done():
            raise ToolFailure(
                f"{self.spec.name} did not end within {limit_s:g} s and was given up; "
                "whether it had its effect is not known"
            )
        error = running.exception()
        if error is not None:
            raise ToolFailure(f"{type(error).__name__}: {error}") from error
        return answer(_text(running.result()) or "(no output)", context)


def _text(value: object) -> str:
    """Text as it is, nothing for None, else JSON. Raises `ToolFailure`."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ToolFailure(f"the tool returned what JSON cannot hold: {error}") from error
