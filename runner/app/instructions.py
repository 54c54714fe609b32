"""The project's instruction files, as the model is told them, and their place in the log."""

from __future__ import annotations

from pathlib import Path

from runner.adapters import configs, project
from runner.core.events import SessionWarning, SystemMessage
from runner.core.spec import TaskSpec
from runner.engine.recorder import Recorder


def find(spec: TaskSpec) -> project.Instructions:
    """What loads: read from the original workspace, also when tools work in a copy."""
    if "project" not in spec.setting_sources:
        return project.Instructions()
    return project.read(Path(spec.workspace.path))


def text(found: project.Instructions) -> str:
    """The message that stands before the prompt; empty without files."""
    if not found.files:
        return ""
    files = "\n".join(f"Contents of {path}:\n\n{body.strip()}\n" for path, body in found.files)
    return configs.read_text("prompts/instructions.md").replace("{files}", files).strip()


def record(recorder: Recorder, spec: TaskSpec) -> None:
    """Record the instructions, if they are not what the log has, and what was wrong."""
    found = find(spec)
    for problem in found.problems:
        recorder.record(SessionWarning(warning_type="instructions", message=problem))
    if (told := text(found)) != recorder.state.instructions:
        recorder.record(SystemMessage(content=told, role="developer"))
