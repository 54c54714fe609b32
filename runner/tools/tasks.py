"""TaskCreate and TaskUpdate: the run's own list of what is to be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from runner.ports import ToolContext, ToolFailure, ToolOutput
from runner.tools.answers import answer, tool_spec

Status = Literal["pending", "in_progress", "completed", "deleted"]
MARKS: dict[Status, str] = {"pending": " ", "in_progress": ">", "completed": "x", "deleted": "-"}
MAX_TASKS = 100
MAX_SUBJECT_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing to do. Ids are "1", "2", ... and never used twice."""

    id: str
    subject: str
    description: str = ""
    status: Status = "pending"


class TaskList:
    """The tasks of one run, shared by the two tools."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def add(self, subject: str, description: str) -> Task:
        """Raises `ToolFailure` when the list is full."""
        if len(self._tasks) >= MAX_TASKS:
            raise ToolFailure(f"the list already has {MAX_TASKS} tasks; do some of them first")
        task = Task(id=str(len(self._tasks) + 1), subject=subject, description=description)
        self._tasks[task.id] = task
        return task

    def change(self, task_id: str, changes: Mapping[str, Any]) -> Task:
        """Raises `ToolFailure` when there is no such task."""
        task = self._tasks.get(task_id)
        if task is None or task.status == "deleted":
            ids = ", ".join(t.id for t in self._shown()) or "none"
            raise ToolFailure(f"there is no task {task_id!r}; there are: {ids}")
        self._tasks[task_id] = replace(task, **changes)
        return self._tasks[task_id]

    def __str__(self) -> str:
        lines = [f"{t.id}. [{MARKS[t.status]}] {t.subject}" for t in self._shown()]
        return "\n".join(lines) or "(the list is empty)"

    def _shown(self) -> list[Task]:
        return [task for task in self._tasks.values() if task.status != "deleted"]


class TaskCreate:
    """Adds a task and shows the list."""

    def __init__(self, *, tasks: TaskList, descriptions: Mapping[str, str]) -> None:
        self._tasks = tasks
        self.spec = tool_spec(
            "TaskCreate",
            descriptions,
            {
                "subject": {"type": "string", "minLength": 1, "maxLength": MAX_SUBJECT_CHARS},
                "description": {"type": "string"},
            },
            required=("subject",),
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return _permission("TaskCreate", self.spec.description)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        task = self._tasks.add(arguments["subject"], arguments.get("description", ""))
        return answer(f"Task {task.id} added.\n{self._tasks}", context)


class TaskUpdate:
    """Changes a task and shows the list."""

    def __init__(self, *, tasks: TaskList, descriptions: Mapping[str, str]) -> None:
        self._tasks = tasks
        self.spec = tool_spec(
            "TaskUpdate",
            descriptions,
            {
                "taskId": {"type": "string"},
                "status": {"enum": list(get_args(Status))},
                "subject": {"type": "string", "minLength": 1, "maxLength": MAX_SUBJECT_CHARS},
                "description": {"type": "string"},
            },
            required=("taskId",),
        )

    def permission(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """See the port."""
        return _permission("TaskUpdate", self.spec.description)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """See the port."""
        changes = {key: value for key, value in arguments.items() if key != "taskId"}
        if not changes:
            raise ToolFailure("nothing to change: give a status, a subject or a description")
        task = self._tasks.change(arguments["taskId"], changes)
        return answer(f"Task {task.id} is {task.status}.\n{self._tasks}", context)


def _permission(name: str, description: str) -> Mapping[str, Any]:
    return {"kind": "custom-tool", "toolName": name, "toolDescription": description}
