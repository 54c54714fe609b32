"""The task that is killed: text, parallel reads, Write, Edit, Bash, a denial, a nudge, an end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def make_task(folder: Path, *, by_agents: bool = False) -> Path:
    """A spec with its workspace and replies in `folder`; its Bash appends to `counter` there.

    With `by_agents` a sub-agent does the work, and has one below it look around.
    """
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "README.md").write_text("# A small project\n")
    replies: list[dict[str, Any]] = [
        {
            "text": "I look around.",
            "tools": [
                {"name": "Read", "arguments": {"file_path": "README.md"}},
                {"name": "Glob", "arguments": {"pattern": "*.md"}},
            ],
        },
        {
            "tools": [
                {
                    "name": "Write",
                    "arguments": {"file_path": "greeting.txt", "content": "hello, wrold\n"},
                }
            ]
        },
        {
            "tools": [
                {
                    "name": "Edit",
                    "arguments": {
                        "file_path": "greeting.txt",
                        "old_string": "wrold",
                        "new_string": "world",
                    },
                },
                {"name": "Bash", "arguments": {"command": 'echo ran >> "$COUNTER"'}},
                {"name": "Bash", "arguments": {"command": "touch forbidden"}},
            ]
        },
        {"text": "That is all."},
        {"tools": [{"name": "task_complete", "arguments": {"summary": "greeted"}}]},
    ]
    if by_agents:
        look, *work_on, say, end = replies
        again = dict(say)  # YAML would write the same one as an alias
        replies = [_asks("Greet."), _asks("Look."), look, again, *work_on, say, end]
    spec = {
        "name": "crash",
        "prompt": "Greet the world.",
        "model": "scripted:replies.yaml",
        "sandbox": {"mode": "off", "reason": "its Bash counts outside of the workspace"},
        "workspace": "work",
        "permission_mode": "acceptEdits",
        "allowed_tools": ["Bash"],
        "disallowed_tools": ["Bash(touch *)"],
        "max_budget_usd": 5,
        "pricing": {"input_per_mtok": 3, "output_per_mtok": 15},
        "env": {"set": {"COUNTER": str(folder / "counter")}},
    }
    (folder / "replies.yaml").write_text(yaml.safe_dump({"replies": replies}))
    path = folder / "task.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path


def _asks(prompt: str) -> dict[str, object]:
    return {"tools": [{"name": "Agent", "arguments": {"description": "a part", "prompt": prompt}}]}


def make_long_task(folder: Path, turns: int = 12) -> Path:
    """A spec whose every third reply runs a Bash that appends its number to `counter`."""
    (folder / "work").mkdir(parents=True)
    (folder / "work" / "README.md").write_text("# A small project\n")
    replies: list[dict[str, object]] = []
    for number in range(turns):
        look = {"name": "Read", "arguments": {"file_path": "README.md"}}
        find = {"name": "Glob", "arguments": {"pattern": "*.md"}}
        make = {"name": "Write", "arguments": {"file_path": f"{number}.txt", "content": "x\n"}}
        count = {"name": "Bash", "arguments": {"command": f'echo {number} >> "$COUNTER"'}}
        replies += [{"tools": [look, find]}, {"text": f"Step {number}."}, {"tools": [make, count]}]
    replies.append({"tools": [{"name": "task_complete", "arguments": {"summary": "counted"}}]})
    spec = {
        "name": "crash",
        "prompt": "Count.",
        "model": "scripted:replies.yaml",
        "sandbox": {"mode": "off", "reason": "its Bash counts outside of the workspace"},
        "workspace": {"path": "work", "isolation": "copy"},
        "permission_mode": "acceptEdits",
        "allowed_tools": ["Bash"],
        "max_autopilot_continues": turns,
        "max_budget_usd": 50,
        "pricing": {"input_per_mtok": 3, "output_per_mtok": 15},
        "limits": {"max_resumes": 100_000},
        "env": {"set": {"COUNTER": str(folder / "counter")}},
    }
    (folder / "replies.yaml").write_text(yaml.safe_dump({"replies": replies}))
    path = folder / "task.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path
