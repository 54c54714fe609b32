"""Time: wall time for labels that never runs backwards, monotonic time for limits."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The `Clock` of a real run: wall time read once, then moved on by the monotonic clock."""

    def __init__(self) -> None:
        self._began = datetime.now(UTC)
        self._monotonic = time.monotonic()

    def now(self) -> str:
        """UTC, ISO 8601 with milliseconds and `Z`."""
        moment = self._began + timedelta(seconds=time.monotonic() - self._monotonic)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()
