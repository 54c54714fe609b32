"""No mode makes a tool of the task free; what is said to change nothing may run in mode plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.core.own_tools import is_free, is_kept_by_plan
from runner.core.permissions import decide, offered
from runner.core.spec import CustomToolSpec, PermissionMode, TaskSpec


def spec_of(mode: PermissionMode = "default", *allowed: str, read_only: bool = False) -> TaskSpec:
    """A task with a tool `own`."""
    own = CustomToolSpec(description="d", input_schema={}, command=("x",), read_only=read_only)
    return TaskSpec(
        name="t",
        prompt="p",
        model="m",
        permission_mode=mode,
        allowed_tools=allowed,
        custom_tools={"own": own},
    )


@pytest.mark.parametrize("tool", ["own", "Skill"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_kind_does_not_make_a_tool_of_the_task_free(tool: str, read_only: bool) -> None:
    """Its permission kind is that of built-in tools which need no rule."""
    spec = spec_of(read_only=read_only)
    assert is_free(spec, tool, "custom-tool") == (tool == "Skill")
    assert is_kept_by_plan(spec, tool, "custom-tool") == (tool == "Skill" or read_only)


@pytest.mark.parametrize(
    ("kind", "kept"), [("read", True), ("url", True), ("write", False), ("mcp", False)]
)
def test_mode_plan_keeps_what_reads(kind: str, kept: bool) -> None:
    """For built-in tools the kind decides."""
    assert is_kept_by_plan(spec_of(), "Some", kind) == kept


CASES: list[tuple[PermissionMode, bool, bool, bool]] = [
    ("default", False, False, False),
    ("default", True, False, False),
    ("default", False, True, True),
    ("acceptEdits", True, False, False),
    ("dontAsk", True, False, False),
    ("dontAsk", False, True, True),
    ("plan", True, False, False),
    ("plan", False, True, False),
    ("plan", True, True, True),
    ("auto", True, False, False),
    ("bypassPermissions", False, False, True),
]


@pytest.mark.parametrize(("mode", "read_only", "named", "allowed"), CASES)
def test_what_each_mode_says(
    mode: PermissionMode, read_only: bool, named: bool, allowed: bool
) -> None:
    """In mode auto the model is asked; everywhere else a rule is needed."""
    spec = spec_of(mode, *(["own"] if named else []), read_only=read_only)
    verdict = decide(spec, "own", "custom-tool")
    assert (verdict.allowed, verdict.open) == (allowed, mode == "auto")


def test_a_list_of_built_in_tools_takes_none_of_the_task_away() -> None:
    """A rule that denies it whole does."""
    spec = replace(spec_of(), tools=("Read",))
    assert offered(spec, ("Read", "Bash", "own")) == ("Read", "own")
    assert offered(replace(spec, disallowed_tools=("own",)), ("Read", "own")) == ("Read",)
