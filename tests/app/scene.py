"""A task in a folder, run and resumed in this process; a kill is a log that stops at some line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner import app
from runner.adapters.journal import read_log
from runner.adapters.specfile import load_spec
from runner.core.fold import fold
from runner.core.spec import TaskSpec
from runner.core.state import State
from tests.fakes import RecordingSink

SESSION = "session"
BASH = {"tools": [{"name": "Bash", "arguments": {"command": 'echo ran >> "$COUNTER"'}}]}
LOOK = {"tools": [{"name": "Read", "arguments": {"file_path": "README.md"}}]}
TALK = {"text": "half"}
DONE = {"tools": [{"name": "task_complete", "arguments": {"summary": "done"}}]}

Event = dict[str, Any]
Reply = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Scene:
    """A folder with a workspace, a home, a spec and a script; Bash appends to `counter`."""

    folder: Path
    replies: Sequence[Reply]
    keys: dict[str, Any] = field(default_factory=dict)
    sink: RecordingSink = field(default_factory=RecordingSink)

    def __post_init__(self) -> None:
        (self.folder / "work").mkdir(parents=True)
        (self.folder / "work" / "README.md").write_text("# A small project\n")

    @property
    def home(self) -> Path:
        """Where sessions are kept."""
        return self.folder / "home"

    @property
    def session(self) -> Path:
        """The folder of the first session."""
        return self.home / "session-state" / SESSION

    @property
    def runs_of_bash(self) -> int:
        """How often Bash had its effect."""
        counter = self.folder / "counter"
        return len(counter.read_text().split()) if counter.exists() else 0

    def spec(self) -> TaskSpec:
        """Write the spec and the script, and load them."""
        spec = {
            "name": "task",
            "prompt": "Do it.",
            "model": "scripted:replies.json",
            "workspace": "work",
            "permission_mode": "acceptEdits",
            "allowed_tools": ["Bash"],
            "sandbox": {"mode": "off", "reason": "its Bash counts outside of the workspace"},
            "env": {"set": {"COUNTER": str(self.folder / "counter")}},
            "pricing": {"input_per_mtok": 1, "output_per_mtok": 1},
            **self.keys,
        }
        (self.folder / "replies.json").write_text(json.dumps({"replies": list(self.replies)}))
        path = self.folder / "task.yaml"
        path.write_text(json.dumps(spec))
        return load_spec(path, stdin=lambda: "")

    def run(self, world: app.World | None = None, **options: Any) -> app.Finished:
        """Run it, as the session `session` unless the options say otherwise."""
        if "resume" not in options:
            options = {"session_id": SESSION, **options}
        self.sink = RecordingSink()
        where = app.RunOptions(**{"home": self.home, **options})
        return app.run(self.spec(), where, (self.sink,), world)

    def resume(self, **options: Any) -> app.Finished:
        """Go on with the first session."""
        return self.run(resume=SESSION, **options)

    def kill(self, event_type: str, number: int = 1) -> int:
        """Cut the log as a kill right after this event would; how many lines are left."""
        lines = self.lines()
        kinds = [json.loads(line)["type"] for line in lines]
        places = [place for place, kind in enumerate(kinds, 1) if kind == event_type]
        left = lines[: places[number - 1]]
        (self.session / "events.jsonl").write_bytes(b"".join(left))
        (self.session / "result.json").unlink(missing_ok=True)
        return len(left)

    def lines(self) -> list[bytes]:
        """The lines of the log."""
        return (self.session / "events.jsonl").read_bytes().splitlines(keepends=True)

    def events(self, folder: Path | None = None) -> list[Event]:
        """The events of a log."""
        text = ((folder or self.session) / "events.jsonl").read_bytes()
        return [json.loads(line) for line in text.splitlines()]

    def of(self, event_type: str, *, since: int = 0) -> list[Event]:
        """The data of every event of a type, from this line on."""
        return [e["data"] for e in self.events()[since:] if e["type"] == event_type]

    def state(self) -> State:
        """What the log folds to."""
        return fold(read_log(self.session))

    def outcomes(self, *, since: int = 0) -> list[str]:
        """The code of every outcome, `ok` without an error."""
        outcomes = self.of("tool.execution_complete", since=since)
        return [o["error"]["code"] if "error" in o else "ok" for o in outcomes]


def hash_of(folder: Path) -> dict[str, str]:
    """Every file of a folder, with the hash of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
