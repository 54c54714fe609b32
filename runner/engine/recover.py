"""Make a resumed session ready to go on: every intent it left open gets its one outcome.

A model call in flight is charged as reserved, whatever becomes of the rest. Of the tool calls
that had begun, reads run again (the loop does that), changes of a file are judged by the file's
hash, and everything else is answered "outcome unknown" and never repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.core.events import (
    AssistantTurnEnd,
    FileState,
    SessionUsageCheckpoint,
    ToolContent,
    ToolError,
    ToolExecutionComplete,
)
from runner.core.messages import AGENT_TOOL, MCP_PREFIX, Assistant, ToolCall, ToolResult
from runner.core.state import CLASSIFIER, MAIN
from runner.core.subagents import open_children
from runner.core.summary import unfinished
from runner.core.thread import Thread
from runner.engine.child import child_engine
from runner.engine.engine import Engine
from runner.engine.recorder import ChildRecorder, Recorder, Recording
from runner.ports import FileTool, ToolContext

MEMORY_TOOLS = frozenset({"TaskCreate", "TaskUpdate"})
"""Tools that only remember: running their old calls again brings their memory back."""


def begun_calls(engine: Engine) -> tuple[ToolCall, ...]:
    """Calls of the open turn that began, have no outcome and may have had an effect."""
    state = engine.recorder.state
    return tuple(
        call
        for call in state.main.pending_tools
        if call.id in state.main.started
        and (call.name not in state.read_only_tools or call.name.startswith(MCP_PREFIX))
        and call.name != AGENT_TOOL  # its sub-agent goes on
    )


async def recover(engine: Engine) -> tuple[ToolCall, ...]:
    """Close what is open, also of sub-agents; the calls whose outcome stays unknown.

    Raises `JournalError`.
    """
    unknown = await recover_own(engine)
    below = open_children(engine.recorder.state) if engine.crew else ()
    for agent_id in below:
        unknown += await recover(child_engine(engine, agent_id))
    return unknown


async def recover_own(engine: Engine) -> tuple[ToolCall, ...]:
    """The same for one agent alone."""
    _recall_files(engine)
    unknown = tuple(call for call in begun_calls(engine) if not _settled(engine, call))
    for call in unknown:
        text = engine.recorder.state.sentences.get("interrupted", "interrupted")
        _complete(engine, call, ToolError(message=text, code="interrupted"))
    await _remember(engine)
    return unknown


def _recall_files(engine: Engine) -> None:
    """What the model had read it need not read again, as long as the file is unchanged."""
    tool = next((tool for tool in engine.tools.values() if isinstance(tool, FileTool)), None)
    if tool is not None:
        for path, digest in engine.recorder.state.known_files.items():
            tool.remember(FileState(path=path, sha256=digest))


def close_model_call(recorder: Recorder) -> None:
    """Charge a call in flight what was reserved for it, to the model it was sent to.

    To be called before the new spec is recorded. Raises `JournalError`.
    """
    _close_classification(recorder)
    _close_call(recorder)
    for agent_id, agent in recorder.state.agents.items():
        if agent.ended is None:
            _close_call(ChildRecorder(root=recorder, agent_id=agent_id))


def _close_call(recorder: Recording) -> None:
    state = recorder.state
    thread = state.main
    compacting = thread.compacting
    if compacting is None and (thread.open_turn is None or thread.reply is not None):
        return
    held = state.ledger.reserved.get(MAIN)
    if held is not None:
        recorder.record(
            SessionUsageCheckpoint(
                model=state.model,
                cost_usd=held,
                total_cost_usd=state.ledger.spent_usd + held,
                basis="reserved" if state.price(state.model) else "unpriced",
            )
        )
    if compacting is not None:
        recorder.record(unfinished(compacting.trigger, "the run was killed"))
    elif thread.open_turn is not None:
        recorder.record(AssistantTurnEnd(turn_id=thread.open_turn, model=state.model))


def _close_classification(recorder: Recorder) -> None:
    """The same for a question of mode auto. One that was answered stays open: it is asked once."""
    state = recorder.state
    thread = state.threads.get(CLASSIFIER, Thread())
    if thread.open_turn is None or thread.reply is not None:
        return
    held = state.ledger.reserved.get(CLASSIFIER)
    if held is not None:
        charge = SessionUsageCheckpoint(
            model=thread.model,
            cost_usd=held,
            total_cost_usd=state.ledger.spent_usd + held,
            basis="reserved" if state.price(thread.model) else "unpriced",
        )
        recorder.record(charge, CLASSIFIER)
    ended = AssistantTurnEnd(turn_id=thread.open_turn, model=thread.model)
    recorder.record(ended, CLASSIFIER)


def _settled(engine: Engine, call: ToolCall) -> bool:
    """Whether the call needs no word of doubt: it was done, or it can safely be done now."""
    tool, effect = engine.tools.get(call.name), engine.recorder.state.main.started[call.id]
    if effect is None or not isinstance(tool, FileTool):
        return False
    match tool.recall(effect):
        case "applied":
            text = engine.recorder.state.sentences.get("applied", "applied")
            known = FileState(path=effect.path, sha256=effect.after)
            _complete(engine, call, ToolContent(content=text.replace("{path}", effect.path)), known)
            return True
        case "pending":
            return True  # the loop runs it
        case "unknown":
            return False


def _complete(
    engine: Engine,
    call: ToolCall,
    outcome: ToolContent | ToolError,
    file: FileState | None = None,
) -> None:
    engine.recorder.record(
        ToolExecutionComplete(
            tool_call_id=call.id,
            tool_name=call.name,
            success=isinstance(outcome, ToolContent),
            turn_id=engine.recorder.state.main.open_turn or "",
            result=outcome if isinstance(outcome, ToolContent) else None,
            error=outcome if isinstance(outcome, ToolError) else None,
            file=file,
        )
    )


async def _remember(engine: Engine) -> None:
    limits = engine.recorder.state.need.limits
    for call in _succeeded(engine.recorder.state.main):
        if call.name not in MEMORY_TOOLS:
            continue
        context = ToolContext(
            call_id=call.id,
            timeout_s=limits.tool,
            max_output_bytes=limits.max_tool_output_bytes,
            spill_dir=engine.files_dir,
            on_progress=lambda text: None,
        )
        await engine.tools[call.name].run(call.arguments, context)


def _succeeded(thread: Thread) -> Iterator[ToolCall]:
    """The calls that went well. A result is of the reply before it: ids may come again later."""
    asked: Mapping[str, ToolCall] = {}
    open_reply = thread.reply if thread.open_turn is not None else None
    for message in (*thread.messages, open_reply, *thread.results.values()):
        if isinstance(message, Assistant):
            asked = {call.id: call for call in message.calls}
        elif isinstance(message, ToolResult) and not message.is_error and message.call_id in asked:
            yield asked[message.call_id]
