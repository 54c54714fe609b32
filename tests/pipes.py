"""A pipe for a test: closed at its end, whichever end was closed before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """The end to read from and the end to write to."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for descriptor in ends:
            with suppress(OSError):
                os.close(descriptor)
