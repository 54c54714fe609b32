"""Compare an object with a JSON Schema, in bounded time whatever the two are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.adapters.worker import work
from runner.core import wire

WORKER = Path(__file__).with_name("output_worker.py")
LIMIT_S = 15.0


async def output_errors(schema: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[str, ...]:
    """What of the object does not fit; nothing when it does.

    What could not be compared in time does not fit. Cancelled: nothing stays alive.
    """
    asked = json.dumps({"schema": wire.encode(schema), "value": wire.encode(value)})
    answer = await work(WORKER, feed=asked.encode(), limit_s=LIMIT_S)
    return (_GAVE_UP,) if answer is None else tuple(json.loads(answer))


_GAVE_UP = "the object could not be compared with the schema within the limits of time and memory"
