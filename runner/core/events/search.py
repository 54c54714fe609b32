"""Facts about tools whose definitions are kept back until the model asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearchActivated:
    """These tools are shown in full from here on, also when the session goes on later."""

    type: ClassVar = "tool_search.activated"
    strategy: str
    tool_names: tuple[str, ...]
