"""A workspace with the built-in tools in it, as a run would have them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from runner.adapters.local import LocalSandbox
from runner.ports import Tool, ToolContext, ToolFailure, ToolOutput
from runner.tools import Roots, builtin_tools

TEXTS = Path(__file__).parents[2] / "configs" / "prompts" / "tools.yaml"
ENV = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


@cache
def descriptions() -> dict[str, str]:
    """What the model reads about its tools."""
    texts: dict[str, str] = yaml.safe_load(TEXTS.read_text())
    return texts


@dataclass
class Bench:
    """One run's tools over `workspace`; `call` is what the engine does with a call."""

    workspace: Path
    spill_dir: Path
    others: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: ENV)
    max_output_bytes: int = 30_000
    timeout_s: float = 60.0
    progress: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        made = builtin_tools(
            roots=Roots(workspace=self.workspace, others=self.others, read_only=(self.spill_dir,)),
            sandbox=LocalSandbox(),
            env=self.env,
            descriptions=descriptions(),
        )
        self.tools: dict[str, Tool] = {tool.spec.name: tool for tool in made}
        self._ids = count(1)

    async def start(self, name: str, **arguments: Any) -> ToolOutput:
        """One call, its arguments checked first."""
        tool = self.tools[name]
        Draft202012Validator(dict(tool.spec.input_schema)).validate(arguments)
        context = ToolContext(
            call_id=f"call-{next(self._ids)}",
            timeout_s=self.timeout_s,
            max_output_bytes=self.max_output_bytes,
            spill_dir=self.spill_dir,
            on_progress=self.progress.append,
        )
        return await tool.run(arguments, context)

    def call(self, name: str, **arguments: Any) -> ToolOutput:
        """One call in a loop of its own."""
        return asyncio.run(self.start(name, **arguments))

    def text(self, name: str, **arguments: Any) -> str:
        """What a call that works tells the model."""
        output = self.call(name, **arguments)
        assert not output.is_error, output.content
        return output.content

    def failure(self, name: str, **arguments: Any) -> ToolFailure:
        """How a call that fails politely fails."""
        try:
            output = self.call(name, **arguments)
        except ToolFailure as failure:
            return failure
        raise AssertionError(f"it did not fail: {output.content!r}")

    def put(self, name: str, content: bytes | str = "") -> Path:
        """A file in the workspace."""
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path
