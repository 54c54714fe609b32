"""Other readings of the same records: Claude's messages, one dict a line.

A view is a pure fold too: `ClaudeView.feed(record)` gives the messages that record stands for.
Shapes follow the Claude Agent SDK's message parser; ids are those of the records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.core.events import (
    Abort,
    AssistantMessage,
    AssistantMessageDelta,
    AssistantReasoningDelta,
    ModelCallFailure,
    PermissionCompleted,
    Record,
    RunnerPreflight,
    RunnerSpec,
    SessionInfo,
    SessionResume,
    SessionStart,
    SessionUsageCheckpoint,
    SessionWarning,
    ToolExecutionComplete,
    ToolRequest,
    UserMessage,
)
from runner.core.outcome import STOP_REASONS

Message = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ClaudeView:
    """Claude messages from records, in order. Remembers only what a later message repeats.

    `early` holds what came before `init`; it is None from there on.
    """

    partial: bool = False
    session: SessionStart | SessionResume | None = None
    permission_mode: str = "default"
    usage: Mapping[str, int] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    retries: int = 0
    streaming: str | None = None
    blocks: int = 0
    early: list[Message] | None = field(default_factory=list)

    def feed(self, record: Record) -> list[Message]:
        """The messages this record stands for; most stand for none. Nothing precedes `init`."""
        messages = self._read(record)
        if self.early is None:
            return messages
        if not isinstance(record.event, RunnerPreflight):
            self.early += messages
            return []
        held, self.early = self.early, None
        return messages + held

    def _read(self, record: Record) -> list[Message]:  # noqa: C901  # one arm an event, no logic
        match record.event:
            case SessionStart() | SessionResume() as event:
                self.session = event
            case RunnerSpec(spec=spec):
                self.permission_mode = str(spec.get("permission_mode", "default"))
            case RunnerPreflight() as event:
                return [self._init(record, event)]
            case UserMessage() as event:
                return self._user(record, event)
            case SessionUsageCheckpoint() as event:
                self.usage = _usage(event)
            case AssistantMessageDelta(message_id=message_id, delta_content=text):
                return self._delta(record, message_id, "text", text)
            case AssistantReasoningDelta(reasoning_id=message_id, delta_content=text):
                return self._delta(record, message_id, "thinking", text)
            case AssistantMessage() as event:
                return [*self._close_stream(record, event), self._assistant(record, event)]
            case ToolExecutionComplete() as event:
                return [self._tool_result(record, event)]
            case PermissionCompleted() as event:
                return self._denied(record, event)
            case ModelCallFailure() as event:
                return [self._api_retry(record, event)]
            case SessionWarning(message=text):
                return [self._informational(record, text, "warning")]
            case SessionInfo(message=text):
                return [self._informational(record, text, "info")]
            case Abort(cause="SIGTERM" | "SIGHUP"):
                return [self._system(record, "worker_shutting_down", reason="host_exit")]
            case _:
                pass
        return []

    def _system(self, record: Record, subtype: str, **fields: Any) -> Message:
        return {"type": "system", "subtype": subtype, **self._ids(record), **fields}

    def _ids(self, record: Record) -> Message:
        return {"uuid": record.id, "session_id": self.session.session_id if self.session else ""}

    def _init(self, record: Record, event: RunnerPreflight) -> Message:
        session = self.session
        return self._system(
            record,
            "init",
            cwd=event.workspace,
            tools=[tool.name for tool in event.tools],
            mcp_servers=[],
            model=session.selected_model if session else "",
            permissionMode=self.permission_mode,
            apiKeySource="none",
            claude_code_version=event.versions.get("runner", ""),
            slash_commands=[],
            output_style="default",
            skills=[],
            plugins=[],
            agents=[],
        )

    def _user(self, record: Record, event: UserMessage) -> list[Message]:
        if not event.is_autopilot_continuation:
            return []  # the prompt is the caller's own; Claude does not repeat it
        message = {"role": "user", "content": [{"type": "text", "text": event.content}]}
        return [
            {
                "type": "user",
                "message": message,
                "parent_tool_use_id": None,
                "isSynthetic": True,
                "origin": {"kind": "auto-continuation"},
                **self._ids(record),
            }
        ]

    def _assistant(self, record: Record, event: AssistantMessage) -> Message:
        self.called = {r.tool_call_id: r.name for r in event.tool_requests}
        content: list[Message] = [
            {"type": "thinking", "thinking": block.text, "signature": block.signature or ""}
            for block in event.reasoning
        ]
        if event.content:
            content.append({"type": "text", "text": event.content})
        content += [
            {"type": "tool_use", "id": r.tool_call_id, "name": r.name, "input": r.arguments}
            for r in event.tool_requests
        ]
        message = {
            "id": event.message_id,
            "type": "message",
            "role": "assistant",
            "model": event.model,
            "content": content,
            "stop_reason": STOP_REASONS[event.finish_reason],
            "usage": self.usage,
        }
        return {
            "type": "assistant",
            "message": message,
            "parent_tool_use_id": None,
            **self._ids(record),
        }

    def _tool_result(self, record: Record, event: ToolExecutionComplete) -> Message:
        content = event.result.content if event.result else ""
        if event.error:
            content = event.error.message
        block = {
            "type": "tool_result",
            "tool_use_id": event.tool_call_id,
            "content": content,
            "is_error": not event.success,
        }
        return {
            "type": "user",
            "message": {"role": "user", "content": [block]},
            "parent_tool_use_id": None,
            **self._ids(record),
        }

    def _denied(self, record: Record, event: PermissionCompleted) -> list[Message]:
        if event.result.get("kind") == "approved":
            return []
        denied = self._system(
            record,
            "permission_denied",
            tool_name=self.called.get(event.tool_call_id, ""),
            tool_use_id=event.tool_call_id,
            decision_reason_type="rule",
            decision_reason=event.reason,
            message=event.reason,
        )
        return [denied]

    def _api_retry(self, record: Record, event: ModelCallFailure) -> Message:
        self.retries += 1
        self.streaming = None  # what streams next is another message
        return self._system(
            record,
            "api_retry",
            attempt=self.retries,
            max_retries=None,
            retry_delay_ms=None,
            error_status=event.status_code,
            error=event.error_message,
        )

    def _informational(self, record: Record, text: str, level: str) -> Message:
        return self._system(record, "informational", content=text, level=level)

    def _delta(self, record: Record, message_id: str, kind: str, text: str) -> list[Message]:
        """Deltas as the raw stream events a Messages API client would see."""
        if not self.partial:
            return []
        events = self._switch_to(message_id, kind, {"type": kind, kind: ""})
        delta = {"type": f"{kind}_delta", kind: text}
        events.append({"type": "content_block_delta", "index": self.blocks, "delta": delta})
        return self._stream_events(record, events)

    def _switch_to(self, message_id: str, kind: str, block: Message) -> list[Message]:
        """Open a block of this kind, unless it is open; before the first one, the message."""
        if self.streaming == kind:
            return []
        events: list[Message] = []
        if self.streaming is None:
            self.blocks = 0
            events.append({"type": "message_start", "message": self._begun(message_id)})
        else:
            events.append({"type": "content_block_stop", "index": self.blocks})
            self.blocks += 1
        self.streaming = kind
        start = {"type": "content_block_start", "index": self.blocks, "content_block": block}
        return [*events, start]

    def _begun(self, message_id: str) -> Message:
        """The message before it has anything; its tokens are counted when it is over."""
        return {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": self.session.selected_model if self.session else "",
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }

    def _close_stream(self, record: Record, event: AssistantMessage) -> list[Message]:
        """The calls, each whole in one delta, and the end of the streamed message."""
        if not self.partial:
            return []
        events: list[Message] = []
        for request in event.tool_requests:
            events += self._call(event.message_id, request)
        if self.streaming is None:  # nothing was said and nothing is called
            return []
        self.streaming = None
        stop = STOP_REASONS[event.finish_reason]
        events += [
            {"type": "content_block_stop", "index": self.blocks},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": self.usage},
            {"type": "message_stop"},
        ]
        return self._stream_events(record, events)

    def _call(self, message_id: str, request: ToolRequest) -> list[Message]:
        block = {"type": "tool_use", "id": request.tool_call_id, "name": request.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(request.arguments)}
        return [
            *self._switch_to(message_id, request.tool_call_id, block),
            {"type": "content_block_delta", "index": self.blocks, "delta": delta},
        ]

    def _stream_events(self, record: Record, events: list[Message]) -> list[Message]:
        return [self._stream_event(record, event, str(n)) for n, event in enumerate(events)]

    def _stream_event(self, record: Record, event: Message, suffix: str) -> Message:
        ids = self._ids(record)
        ids["uuid"] += f"-{suffix}"  # one record stands for several messages
        return {"type": "stream_event", "event": event, "parent_tool_use_id": None, **ids}


def _usage(event: SessionUsageCheckpoint) -> Mapping[str, int]:
    return {
        "input_tokens": event.input_tokens,
        "output_tokens": event.output_tokens,
        "cache_creation_input_tokens": event.cache_write_tokens,
        "cache_read_input_tokens": event.cache_read_tokens,
    }
