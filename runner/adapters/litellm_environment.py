"""The variables that litellm is imported under, which stand in the environment only meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = {
    "LITELLM_MODE": "PRODUCTION",  # else it loads a .env, which the repository under test may hold
    "LITELLM_OFFLINE_MODE": "true",  # else it fetches files from the network
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}


@contextmanager
def own_variables() -> Iterator[None]:
    """Set them, and give back what was there: the environment may be a host program's.

    What the host sets meanwhile stays.
    """
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(VARIABLES)
    try:
        yield
    finally:
        for name, value in before.items():
            if os.environ.get(name) != VARIABLES[name]:
                continue
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
