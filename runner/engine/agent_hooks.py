"""The hooks around a sub-agent: when it begins, and when it wants to stop."""

from __future__ import annotations

from runner.core.hook_steps import MAX_STOP_BLOCKS
from runner.core.hooks import block_reason, handlers
from runner.core.steps import HookPoint
from runner.engine.engine import Engine
from runner.engine.hooks import ask, say_ignored


async def subagent_start(child: Engine, agent_type: str) -> None:
    """A sub-agent begins. What hooks add waits in `told` of its thread."""
    state = child.recorder.state
    about = handlers(state.need, "SubagentStart", agent_type)
    point = HookPoint(event="SubagentStart", subject=state.agent_id)
    await ask(child, about, point, {"agent_type": agent_type})


async def subagent_stop(child: Engine, agent_type: str, last_message: str) -> str | None:
    """Why the sub-agent must work on; None when it may stop, as it may after eight refusals.

    The reason is to be recorded as its `user.message` of source `STOP_HOOK`, which is counted.
    """
    state = child.recorder.state
    about = handlers(state.need, "SubagentStop", agent_type)
    payload = {
        "agent_type": agent_type,
        "agent_transcript_path": str(child.files_dir.parent / "events.jsonl"),
        "stop_hook_active": state.main.stop_blocks > 0,
        "last_assistant_message": last_message,
    }
    point = HookPoint(event="SubagentStop", subject=state.agent_id)
    blocked = block_reason(await ask(child, about, point, payload))
    if blocked is None or state.main.stop_blocks < MAX_STOP_BLOCKS:
        return blocked
    say_ignored(child, "SubagentStop", blocked)
    return None
