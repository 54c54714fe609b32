"""Other readings of the same records: Claude's messages, one dict a line.

A view is a pure fold too: `ClaudeView.feed(record)` gives the messages that record stands for.
Shapes follow the Claude Agent SDK's message parser; ids are those of the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.core import hook_view
from runner.core.events import (
    Abort,
    AssistantMessage,
    AssistantMessageDelta,
    AssistantReasoningDelta,
    HookEnd,
    HookStart,
    ModelCallFailure,
    PermissionCompleted,
    Record,
    RunnerPreflight,
    RunnerSpec,
    SessionCompactionComplete,
    SessionInfo,
    SessionResume,
    SessionStart,
    SessionUsageCheckpoint,
    SessionWarning,
    SubagentStarted,
    ToolExecutionComplete,
    UserMessage,
)
from runner.core.messages import AGENT_TOOL
from runner.core.outcome import STOP_REASONS
from runner.core.raw_stream import RawStream
from runner.core.state import CLASSIFIER, MAIN
from runner.core.subagents import GENERAL_PURPOSE

Message = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ClaudeView:
    """Claude messages from records, in order. Remembers only what a later message repeats.

    `early` holds what came before `init`; it is None from there on. `usage`, `called` and `parents`
    are by agent id; `parents` has the call that started each sub-agent.
    """

    partial: bool = False
    hooks: bool = False
    session: SessionStart | SessionResume | None = None
    permission_mode: str = "default"
    agents: tuple[str, ...] = (GENERAL_PURPOSE,)
    usage: dict[str, Mapping[str, int]] = field(default_factory=dict)
    called: dict[str, Mapping[str, str]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    retries: int = 0
    stream: RawStream = field(default_factory=RawStream)
    early: list[Message] | None = field(default_factory=list)

    def feed(self, record: Record) -> list[Message]:
        """The messages this record stands for; most stand for none, and what the model of
        mode auto says never does. Only hooks of the start precede `init`."""
        messages = [] if record.agent_id == CLASSIFIER else self._read(record)
        if self.early is None or hook_view.leads(record.event):
            return messages
        if not isinstance(record.event, RunnerPreflight):
            self.early += messages
            return []
        held, self.early = self.early, None
        return messages + held

    def _read(self, record: Record) -> list[Message]:  # noqa: C901  # one arm an event, no logic
        match record.event:
            case SubagentStarted(tool_call_id=call_id):
                self.parents[_agent(record)] = call_id
            case event if record.agent_id and isinstance(event, _UNTOLD_OF_CHILDREN):
                pass
            case SessionStart() | SessionResume() as event:
                self.session = event
            case RunnerSpec(spec=spec):
                self.permission_mode = str(spec.get("permission_mode", "default"))
                self.agents = tuple(dict.fromkeys((GENERAL_PURPOSE, *spec.get("agents", {}))))
            case RunnerPreflight() as event:
                return [self._init(record, event)]
            case UserMessage() as event:
                return self._user(record, event)
            case SessionUsageCheckpoint() as event:
                self.usage[_agent(record)] = _usage(event)
            case AssistantMessageDelta(message_id=message_id, delta_content=text):
                return self._delta(record, message_id, "text", text)
            case AssistantReasoningDelta(reasoning_id=message_id, delta_content=text):
                return self._delta(record, message_id, "thinking", text)
            case AssistantMessage() as event if record.agent_id:
                told = self._assistant(record, event)
                return [told] if event.tool_requests else []
            case AssistantMessage() as event:
                return [*self._close_stream(record, event), self._assistant(record, event)]
            case ToolExecutionComplete() as event:
                return [self._tool_result(record, event)]
            case HookStart() | HookEnd() as event if self.hooks or hook_view.leads(event):
                subtype, fields = hook_view.subtype(event), hook_view.fields(event)
                return [self._system(record, subtype, **fields)]
            case PermissionCompleted() as event:
                return self._denied(record, event)
            case ModelCallFailure() as event:
                return [self._api_retry(record, event)]
            case SessionCompactionComplete() as event:
                return [self._compacted(record, event)]
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

    def _message(self, record: Record, kind: str, message: Message) -> Message:
        parent = self.parents.get(_agent(record))
        ids = self._ids(record)
        return {"type": kind, "message": message, "parent_tool_use_id": parent, **ids}

    def _ids(self, record: Record) -> Message:
        return {"uuid": record.id, "session_id": self.session.session_id if self.session else ""}

    def _init(self, record: Record, event: RunnerPreflight) -> Message:
        session = self.session
        return self._system(
            record,
            "init",
            cwd=event.workspace,
            tools=[tool.name for tool in event.tools],
            mcp_servers=[
                {"name": server.name, "status": server.status} for server in event.mcp_servers
            ],
            model=session.selected_model if session else "",
            permissionMode=self.permission_mode,
            apiKeySource="none",
            claude_code_version=event.versions.get("runner", ""),
            slash_commands=[s.name for s in event.skills if s.user_invocable is not False],
            output_style="default",
            skills=[skill.name for skill in event.skills],
            plugins=[],
            agents=list(self.agents) if AGENT_TOOL in {t.name for t in event.tools} else [],
        )

    def _user(self, record: Record, event: UserMessage) -> list[Message]:
        if not event.is_autopilot_continuation:
            return []  # the prompt is the caller's own; Claude does not repeat it
        message = {"role": "user", "content": [{"type": "text", "text": event.content}]}
        return [
            {
                **self._message(record, "user", message),
                "isSynthetic": True,
                "origin": {"kind": "auto-continuation"},
            }
        ]

    def _assistant(self, record: Record, event: AssistantMessage) -> Message:
        agent = _agent(record)
        self.called[agent] = {r.tool_call_id: r.name for r in event.tool_requests}
        content = [] if agent else _said(event)
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
            "usage": self.usage.get(agent, {}),
        }
        return self._message(record, "assistant", message)

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
        return self._message(record, "user", {"role": "user", "content": [block]})

    def _denied(self, record: Record, event: PermissionCompleted) -> list[Message]:
        if event.result.get("kind") in ("approved", "denied-by-permission-request-hook"):
            return []  # a hook's denial is told by the call's result
        denied = self._system(
            record,
            "permission_denied",
            tool_name=self.called.get(_agent(record), {}).get(event.tool_call_id, ""),
            tool_use_id=event.tool_call_id,
            decision_reason_type="rule",
            decision_reason=event.reason,
            message=event.reason,
        )
        return [denied]

    def _api_retry(self, record: Record, event: ModelCallFailure) -> Message:
        self.retries += 1
        self.stream.drop()
        return self._system(
            record,
            "api_retry",
            attempt=self.retries,
            max_retries=None,
            retry_delay_ms=None,
            error_status=event.status_code,
            error=event.error_message,
        )

    def _compacted(self, record: Record, event: SessionCompactionComplete) -> Message:
        if not event.success:
            return self._informational(record, f"not compacted: {event.error}", "warning")
        return self._system(
            record,
            "compact_boundary",
            compact_metadata={
                "trigger": "manual" if event.trigger == "manual" else "auto",
                "pre_tokens": event.pre_compaction_tokens,
            },
        )

    def _informational(self, record: Record, text: str, level: str) -> Message:
        return self._system(record, "informational", content=text, level=level)

    @property
    def _model(self) -> str:
        return self.session.selected_model if self.session else ""

    def _delta(self, record: Record, message_id: str, kind: str, text: str) -> list[Message]:
        if not self.partial:
            return []
        events = self.stream.delta(self._model, message_id, kind, text)
        return self._stream_events(record, events)

    def _close_stream(self, record: Record, event: AssistantMessage) -> list[Message]:
        if not self.partial:
            return []
        usage = self.usage.get(MAIN, {})
        return self._stream_events(record, self.stream.end(self._model, event, usage))

    def _stream_events(self, record: Record, events: list[Message]) -> list[Message]:
        return [self._stream_event(record, event, str(n)) for n, event in enumerate(events)]

    def _stream_event(self, record: Record, event: Message, suffix: str) -> Message:
        ids = self._ids(record)
        ids["uuid"] += f"-{suffix}"  # one record stands for several messages
        return {"type": "stream_event", "event": event, "parent_tool_use_id": None, **ids}


_UNTOLD_OF_CHILDREN = (
    UserMessage,
    AssistantMessageDelta,
    AssistantReasoningDelta,
    ModelCallFailure,
    SessionCompactionComplete,
)
"""What a sub-agent says, is told or tries again is its own: these would be read as the agent's."""


def _agent(record: Record) -> str:
    return record.agent_id or MAIN


def _said(event: AssistantMessage) -> list[Message]:
    """The blocks of a reply before its calls."""
    said: list[Message] = [
        {"type": "thinking", "thinking": block.text, "signature": block.signature or ""}
        for block in event.reasoning
    ]
    return [*said, {"type": "text", "text": event.content}] if event.content else said


def _usage(event: SessionUsageCheckpoint) -> Mapping[str, int]:
    return {
        "input_tokens": event.input_tokens,
        "output_tokens": event.output_tokens,
        "cache_creation_input_tokens": event.cache_write_tokens,
        "cache_read_input_tokens": event.cache_read_tokens,
    }
