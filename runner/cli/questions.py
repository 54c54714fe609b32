"""Questions to the host program: may this call run? The `can_use_tool` of Claude's protocol."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from runner.adapters.outlet import Outlet
from runner.adapters.streams import json_line
from runner.core.messages import ToolCall

GONE = "the host program has closed stdin, and cannot be asked any more"


@dataclass(slots=True, kw_only=True)
class Questions:
    """What was asked and not answered yet. Asked in the run, answered by the thread that reads.

    `stop` stops the run that asks.
    """

    answer: Outlet
    stop: Callable[[], object]
    _open: dict[str, Future[Mapping[str, Any]]] = field(default_factory=dict)
    _is_over: bool = False

    async def ask(self, call: ToolCall) -> str | None:
        """None when the host allows the call, else why not. Never raises. Cancelled: the host is
        told that nobody waits any more."""
        request_id, told = str(uuid.uuid4()), Future[Mapping[str, Any]]()
        self._open[request_id] = told
        if self._is_over:
            del self._open[request_id]
            return GONE
        question = {
            "subtype": "can_use_tool",
            "tool_name": call.name,
            "input": call.arguments,
            "tool_use_id": call.id,
            "permission_suggestions": [],
        }
        self._say({"type": "control_request", "request_id": request_id, "request": question})
        try:
            response = await asyncio.wrap_future(told)
        except asyncio.CancelledError:
            self._say({"type": "control_cancel_request", "request_id": request_id})
            raise
        finally:
            self._open.pop(request_id, None)
        return self._denial(response, call)

    def settle(self, response: Mapping[str, Any]) -> None:
        """The host has answered."""
        waiting = self._open.get(str(response.get("request_id")))
        if waiting is not None and waiting.set_running_or_notify_cancel():
            waiting.set_result(response)

    def close(self) -> None:
        """No answer will come any more."""
        self._is_over = True
        for request_id in tuple(self._open):
            self.settle({"request_id": request_id, "subtype": "error", "error": GONE})

    def _denial(self, response: Mapping[str, Any], call: ToolCall) -> str | None:
        if response.get("subtype") != "success":
            return f"the host program could not be asked: {response.get('error')}"
        said = response.get("response")
        said = said if isinstance(said, dict) else {}
        if said.get("behavior") != "allow":
            if said.get("interrupt"):
                self.stop()
            return f"the host program: {said.get('message') or 'denied'}"
        if said.get("updatedInput") not in (None, call.arguments):
            return "the host program changed the input of the call, which is not supported"
        if said.get("updatedPermissions"):
            return "the host program changed the rules as well, which is not supported"
        return None

    def _say(self, message: Mapping[str, Any]) -> None:
        self.answer.write(json_line(message))
