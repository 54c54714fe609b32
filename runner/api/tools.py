"""Tools that a host program brings: its own functions, which the agent may call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runner.adapters.specfile.custom_keys import read_host_tool
from runner.core.spec import CustomToolSpec, TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function of this program as a tool of the agent.

    It runs in this process, behind no sandbox and with all that the program may do: it is trusted
    as the program is. `function` gets the arguments by name, once they fit `input_schema`, a JSON
    Schema of an object; it returns text, or what JSON can hold, and what it raises is an error
    result that the agent reads. An `async` function runs in the runner's event loop and must not
    block it; another one has a thread of its own, and several may run at the same time when the
    tool is `read_only`: your word that it changes nothing. `timeout_s` is at most `limits.tool`.
    When the time is up an `async` function is cancelled; a thread cannot be, and its result is
    dropped.

    Calls need a rule, as those of any tool that may change something: `allowed` brings one along.
    Rules of the spec that deny still come first, and mode `plan` leaves only what is `read_only`.

    Raises `SpecError` when the name, the description or the schema cannot be used.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    function: Callable[..., object]
    read_only: bool = False
    allowed: bool = False
    timeout_s: float | None = None
    spec: CustomToolSpec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check it, and keep what the log is told of it."""
        if not callable(self.function):
            raise TypeError(f"`function` is {type(self.function).__name__}, not a function")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ValueError(f"timeout_s: a number of seconds above 0, not {self.timeout_s}")
        read = read_host_tool(self.name, self.description, self.input_schema)
        told = replace(read, read_only=self.read_only, timeout=self.timeout_s)
        object.__setattr__(self, "spec", told)


def joined(spec: TaskSpec, tools: Iterable[Tool]) -> TaskSpec:
    """The spec with these tools. Raises `ValueError` when two tools have one name."""
    own = dict(spec.custom_tools)
    allowed = list(spec.allowed_tools)
    for tool in tools:
        if not isinstance(tool, Tool):
            raise TypeError(f"`tools` holds a {type(tool).__name__}: wrap it in `runner.Tool`")
        if tool.name in own:
            raise ValueError(f"there are two tools of the name {tool.name}")
        own[tool.name] = tool.spec
        allowed += [tool.name] if tool.allowed and tool.name not in allowed else []
    return replace(spec, custom_tools=own, allowed_tools=tuple(allowed))
