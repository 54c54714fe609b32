"""The yardstick: the smallest agent loop on litellm, one Bash call a turn, nothing else.

Usage: python bare_loop.py MODEL API_BASE
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

os.environ |= {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}

import litellm  # the environment must be set first

TOOL = {
    "type": "function",
    "function": {
        "name": "Bash",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}


async def main(model: str, api_base: str) -> None:
    """Ask, run the one call, ask again, until a reply has no call to run."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go on until done."}]
    while True:
        stream = await litellm.acompletion(
            model=model,
            api_base=api_base,
            api_key="none",
            messages=messages,
            tools=[TOOL],
            max_tokens=1024,
            stream=True,
            stream_options={"include_usage": True},
            max_retries=0,
        )
        chunks = [chunk async for chunk in stream]
        reply = litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        calls = [call for call in reply.tool_calls or [] if call.function.name == "Bash"]
        if not calls:
            return
        for call in calls:
            command = json.loads(call.function.arguments)["command"]
            process = await asyncio.create_subprocess_exec(
                "bash", "-c", command, stdout=asyncio.subprocess.PIPE
            )
            output, _ = await process.communicate()
            result = {"role": "tool", "tool_call_id": call.id, "content": output.decode()}
            messages.append(result)


asyncio.run(main(sys.argv[1], sys.argv[2]))
