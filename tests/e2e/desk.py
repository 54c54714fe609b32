"""Runs the real command on a spec of its own, and collects everything it leaves behind.

The model is `scripted:` unless a wire is named; then it is a server on loopback that speaks that
wire's format, with the real litellm in between. Nothing of ours is patched.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runner.adapters.specfile.problem import HIDDEN
from tests.e2e.papers import Papers, check_papers
from tests.servers import ModelServer, Step
from tests.servers.script import ScriptStep

Wire = Literal["openai", "responses", "anthropic", "gemini"]

REPOSITORY = Path(__file__).parents[2]
KEY = "sk-do-not-show-4f9a1c7e2b"
MODELS: Mapping[Wire, str] = {
    "openai": "openai/gpt-4o-mini",
    "responses": "openai/responses/gpt-5-mini",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
}
KEY_VARIABLES: Mapping[Wire, str] = {
    "openai": "OPENAI_API_KEY",
    "responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
ERROR_KINDS = {
    400: "invalid_request",
    401: "authentication",
    402: "quota",
    404: "model_not_found",
    429: "rate_limit",
}
CENT = {"input_per_mtok": 10, "output_per_mtok": 10}
"""A price at which 1000 tokens cost a cent."""

PATIENCE_S = 60.0


@dataclass(slots=True, kw_only=True)
class Played(Papers):
    """A run that is over."""

    exit_code: int
    stdout: str
    stderr: str
    server: ModelServer | None = None

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the requests the model server got."""
        assert self.server is not None
        return [request.body for request in self.server.requests]

    @property
    def stream(self) -> list[dict[str, Any]]:
        """The lines of stdout, each an object."""
        return [json.loads(line) for line in self.stdout.splitlines()]


@dataclass(slots=True, kw_only=True)
class Running(Papers):
    """A run that goes on."""

    process: subprocess.Popen[str]
    server: ModelServer | None = None

    def wait_until(self, holds: Callable[[], bool], what: str = "it") -> None:
        """Wait for a condition on what the run has done so far."""
        ends_at = time.monotonic() + PATIENCE_S
        while not holds():
            assert self.process.poll() is None, f"the run ended before {what}: {self._said()}"
            assert time.monotonic() < ends_at, f"not after {PATIENCE_S} s: {what}"
            time.sleep(0.02)

    def wait_for(self, event: str, count: int = 1) -> None:
        """Wait until the log holds this many events of a type."""
        self.wait_until(lambda: len(self.of(event)) >= count, event)

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def finish(self) -> Played:
        """Wait for the end."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE_S)
        return Played(
            home=self.home,
            workspace=self.workspace,
            exit_code=self.process.returncode,
            stdout=stdout or "",
            stderr=stderr or "",
            server=self.server,
        )

    def finish_checked(self) -> Played:
        """Wait for the end, and check the papers of a run that closed them itself."""
        played = self.finish()
        check_papers(played)
        return played

    def _said(self) -> str:
        _, stderr = self.process.communicate()
        return f"exit {self.process.returncode}\n{stderr}"


@dataclass(slots=True, kw_only=True)
class Desk:
    """A folder with a workspace, a home, a spec and a model."""

    folder: Path
    wire: Wire | None = None
    environ: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspace.mkdir(parents=True)
        self.write("README.md", "# A small project\n")

    @property
    def workspace(self) -> Path:
        """Where the tools work."""
        return self.folder / "work"

    @property
    def home(self) -> Path:
        """Where sessions are kept."""
        return self.folder / "home"

    def write(self, name: str, text: str) -> Path:
        """Put a file into the workspace."""
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def read(self, name: str) -> str | None:
        """The text of a file of the workspace, None when it is not there."""
        path = self.workspace / name
        return path.read_text() if path.exists() else None

    def spec(self, **keys: Any) -> Path:
        """Write the spec; JSON is YAML. A key that is None is left out."""
        usual = {
            "name": "task",
            "prompt": "Do it.",
            "model": "scripted:replies.yaml",
            "workspace": "work",
            "permission_mode": "acceptEdits",
            "allowed_tools": ["Bash"],
            "retry": {"max_attempts": 1},
            # The same on every machine, and quick; the tests of the sandbox say otherwise.
            "sandbox": {"mode": "off", "reason": "the test is about something else"},
        }
        merged = {**usual, **self.defaults, **keys}
        path = self.folder / "task.yaml"
        written = {key: value for key, value in merged.items() if value is not None}
        path.write_text(json.dumps(written, indent=1))
        return path

    def script(self, steps: Sequence[Step]) -> None:
        """Write the script of the scripted model."""
        replies = {"replies": [_scripted(step) for step in steps]}
        text = json.dumps(replies, ensure_ascii=False)
        (self.folder / "replies.yaml").write_text(HIDDEN.sub(_as_escape, text))

    def command(self, *arguments: str) -> list[str]:
        """The command line: the installed script, or the module where nothing is installed."""
        script = Path(sys.executable).with_name("autopilot")
        program = [str(script)] if script.exists() else [sys.executable, "-m", "runner"]
        return [*program, *arguments]

    def environment(self) -> dict[str, str]:
        """What the process sees: a bare environment and the test's own variables."""
        bare = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(REPOSITORY),
            "AUTOPILOT_HOME": str(self.home),
        }
        keys = {KEY_VARIABLES[self.wire]: KEY} if self.wire else {}
        return {**bare, **keys, **self.environ}

    def call(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run any command to its end."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            **{
                "stdin": subprocess.DEVNULL,
                "capture_output": True,
                "text": True,
                "timeout": PATIENCE_S,
                "check": False,
                **options,
            },
        )

    def play(self, steps: Sequence[ScriptStep], *options: str, **keys: Any) -> Played:
        """Run a task to its end. `options` go to the command, `keys` into the spec."""
        with self.started(steps, *options, **keys) as running:
            played = running.finish()
        if played.server is not None:
            assert not played.server.overrun, "the model was asked more often than scripted"
        if played.has_session:
            check_papers(played)
        return played

    @contextmanager
    def started(
        self,
        steps: Sequence[ScriptStep],
        *options: str,
        streams: Mapping[str, Any] | None = None,
        repeat_last: bool = False,
        **keys: Any,
    ) -> Iterator[Running]:
        """Start a task; on leaving, the process is gone whatever happened."""
        serving = (
            ModelServer(wire=self.wire, steps=steps, repeat_last=repeat_last)
            if self.wire
            else nullcontext()
        )
        with serving as server:
            if server is not None and self.wire is not None:
                keys = {"model": MODELS[self.wire], "api_base": server.base_url, **keys}
            else:
                self.script([step for step in steps if isinstance(step, Step)])
            process = self._start("run", str(self.spec(**keys)), *options, **(streams or {}))
            try:
                yield Running(
                    home=self.home, workspace=self.workspace, process=process, server=server
                )
            finally:
                _end(process)

    def _start(self, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            text=True,
            start_new_session=True,
            **{
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **streams,
            },
        )


def _as_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _scripted(step: Step) -> dict[str, Any]:
    """A step in the words of a script file."""
    usage = step.usage
    entry: dict[str, Any] = {
        "text": step.text,
        "reasoning": step.thinking or "",
        "tools": [
            {"name": tool.name, "arguments": _plain(tool.arguments)}
            | ({"id": tool.id} if tool.id else {})
            for tool in step.tools
        ],
        "usage": "none"
        if step.omit_usage
        else {name: getattr(usage, name) for name in usage.__slots__},
        "delay": step.delay_s,
    }
    if step.finish_reason:
        entry["finish_reason"] = step.finish_reason
    if step.status is not None:
        kind = ERROR_KINDS.get(step.status, "provider_unavailable")
        message = step.error if isinstance(step.error, str) else f"scripted {step.status}"
        entry["error"] = {"kind": kind, "status": step.status, "message": message}
    return entry


def _plain(arguments: Mapping[str, object] | str) -> object:
    return arguments if isinstance(arguments, str) else dict(arguments)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr, process.stdin):
        if pipe is not None:
            pipe.close()
