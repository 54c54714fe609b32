"""The project's instruction files, as the model is told them, and their place in the log."""

from __future__ import annotations

from pathlib import Path

from runner.adapters import configs, project
from runner.core.events import SessionWarning, SystemMessage
from runner.core.spec import TaskSpec
from runner.engine.recorder import Recorder


def find(spec: TaskSpec, workspace: Path | None = None) -> project.Instructions:
    """What loads, read where tools work: `workspace`, or the spec's before there is one."""
    if "project" not in spec.setting_sources:
        return project.Instructions()
    original = Path(spec.workspace.path)
    is_copy = spec.workspace.isolation == "copy"
    return project.read(workspace or original, copy_of=original if is_copy else None)


def text(found: project.Instructions) -> str:
    """The message that stands before the prompt; empty without files."""
    if not found.files:
        return ""
    files = "\n".join(f"Contents of {path}:\n\n{body.strip()}\n" for path, body in found.files)
    return configs.read_text("prompts/instructions.md").replace("{files}", files).strip()


def record(recorder: Recorder, spec: TaskSpec, workspace: Path) -> None:
    """Record the instructions, if they are not what the log has, and what was wrong."""
    found = find(spec, workspace)
    for problem in found.problems:
        recorder.record(SessionWarning(warning_type="instructions", message=problem))
    if (told := text(found)) != recorder.state.instructions:
        recorder.record(SystemMessage(content=told, role="developer"))
