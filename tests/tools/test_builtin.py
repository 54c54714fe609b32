"""The set of built-in tools: order, texts, schemas, permission requests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from copilot.generated.session_events import PermissionRequestedData
from jsonschema import Draft202012Validator

from runner import app
from runner.adapters.specfile.words import TOOLS
from runner.app import web
from runner.core.permissions import decide
from runner.core.spec import PermissionMode, TaskSpec, WorkspaceSpec
from runner.ports import ToolDenied
from runner.tools import Agent, control_specs
from runner.tools.skill import SkillTool
from runner.tools.tool_search import ToolSearch
from tests.tools.bench import Bench, descriptions

NAMES = [
    "Read",
    "Write",
    "Edit",
    "Glob",
    "Grep",
    "Bash",
    "TaskCreate",
    "TaskUpdate",
    "AskUserQuestion",
]


def no_skills() -> SkillTool:
    """The tool for skills, in a run without any."""
    return SkillTool(skills={}, allowed=lambda skill: (), descriptions=descriptions())


def test_the_tools_stand_in_a_fixed_order(bench: Bench) -> None:
    """The names are these, in this order, when the tools are built."""
    assert list(bench.tools) == NAMES


def test_a_spec_can_name_every_tool() -> None:
    """The names a spec may use are those of the tools that are built."""
    before, after = NAMES[:6], NAMES[6:]
    of_the_web = ["WebFetch", "WebSearch"]
    assert list(TOOLS) == [*before, *of_the_web, *after, "Agent", "Skill", "ToolSearch"]


def test_only_tools_that_change_nothing_run_together(bench: Bench) -> None:
    """Exactly Read, Glob and Grep are read-only when the tools are built."""
    assert [n for n, t in bench.tools.items() if t.spec.read_only] == ["Read", "Glob", "Grep"]


def test_every_schema_is_valid_and_closed(bench: Bench) -> None:
    """A schema is a valid JSON Schema and allows no unknown argument, for every tool."""
    specs = [tool.spec for tool in bench.tools.values()]
    for spec in (*specs, *control_specs(descriptions())):
        Draft202012Validator.check_schema(dict(spec.input_schema))
        assert spec.input_schema["additionalProperties"] is False
        assert all(p["description"] for p in spec.input_schema["properties"].values())


def test_every_text_belongs_to_a_tool(bench: Bench) -> None:
    """The file of texts holds nothing that no tool uses, when the tools are built."""
    specs = [tool.spec for tool in bench.tools.values()] + list(control_specs(descriptions()))
    specs.append(Agent(agents={}, descriptions=descriptions()).spec)
    used = {"AskUserQuestion.answer", "StructuredOutput", "StructuredOutput.schema"}
    used.add("Agent.general-purpose")
    specs.append(no_skills().spec)
    specs.append(ToolSearch((), descriptions(), {}).spec)
    task = TaskSpec(name="t", prompt="x", model="m")
    specs += [tool.spec for tool in web.tools(task, None).values()]
    used |= {"Skill.none", "Skill.text", "ToolSearch.none", "ToolSearch.more"}
    used |= {"ToolSearch.unknown"}
    for spec in specs:
        used |= {spec.name, *(f"{spec.name}.{key}" for key in spec.input_schema["properties"])}
    assert used == set(descriptions())


def test_the_control_tools_take_a_summary_and_a_reason() -> None:
    """`task_complete` needs a summary and `task_blocked` a reason."""
    required = {spec.name: spec.input_schema["required"] for spec in control_specs(descriptions())}
    assert required == {"task_complete": ["summary"], "task_blocked": ["reason"]}


@pytest.mark.parametrize(
    ("name", "arguments", "wire"),
    [
        ("Read", {"file_path": "a"}, {"kind": "read", "path": "{ws}/a", "intention": "Read a"}),
        (
            "Glob",
            {"pattern": "*.py", "path": "../x"},
            {"kind": "read", "path": "{up}/x", "intention": "List files that match *.py"},
        ),
        (
            "Grep",
            {"pattern": "a b"},
            {"kind": "read", "path": "{ws}", "intention": "Search for a b"},
        ),
        (
            "Write",
            {"file_path": "a", "content": "one\ntwo\n"},
            {
                "kind": "write",
                "fileName": "{ws}/a",
                "diff": "+one\n+two",
                "intention": "Write a",
                "canOfferSessionApproval": False,
            },
        ),
        (
            "Edit",
            {"file_path": "/b", "old_string": "x", "new_string": "y"},
            {
                "kind": "write",
                "fileName": "/b",
                "diff": "-x\n+y",
                "intention": "Edit /b",
                "canOfferSessionApproval": False,
            },
        ),
        (
            "Bash",
            {"command": "ls -l > x", "description": "List"},
            {
                "kind": "shell",
                "fullCommandText": "ls -l > x",
                "intention": "List",
                "commands": [{"identifier": "ls", "readOnly": False}],
                "possiblePaths": [],
                "possibleUrls": [],
                "hasWriteFileRedirection": True,
                "canOfferSessionApproval": False,
            },
        ),
    ],
)
def test_a_permission_request_says_what_the_call_would_do(
    bench: Bench, name: str, arguments: dict[str, Any], wire: dict[str, Any]
) -> None:
    """The request has the fields of its kind, and Copilot's parser gives them back unchanged."""
    here = {"{ws}": str(bench.workspace), "{up}": str(bench.workspace.parent)}
    for key in ("path", "fileName"):
        for mark, path in here.items():
            if key in wire:
                wire[key] = wire[key].replace(mark, path)
    request = dict(bench.tools[name].permission(arguments))
    assert request == wire
    assert parsed(request) == {**wire, "toolCallId": "c"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("TaskCreate", {"subject": "x"}),
        ("TaskUpdate", {"taskId": "1", "status": "completed"}),
        ("AskUserQuestion", {"questions": [{"question": "?"}]}),
    ],
)
def test_tools_of_the_run_itself_are_custom_tools(
    bench: Bench, name: str, arguments: dict[str, Any]
) -> None:
    """The request is of kind `custom-tool` with name and description, for Copilot's parser too."""
    wire = {
        "kind": "custom-tool",
        "toolName": name,
        "toolDescription": bench.tools[name].spec.description,
    }
    request = dict(bench.tools[name].permission(arguments))
    assert request == wire
    assert parsed(request) == {**wire, "toolCallId": "c"}


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
def test_a_plan_decides_as_a_run_does(bench: Bench, mode: PermissionMode) -> None:
    """What a plan says of each tool is what the tool's own request would lead to."""
    calls: dict[str, dict[str, Any]] = {
        "Read": {"file_path": "a"},
        "Write": {"file_path": "a", "content": "x"},
        "Edit": {"file_path": "a", "old_string": "x", "new_string": "y"},
        "Glob": {"pattern": "*"},
        "Grep": {"pattern": "x"},
        "Bash": {"command": "ls"},
        "TaskCreate": {"subject": "x"},
        "TaskUpdate": {"taskId": "1", "status": "completed"},
        "AskUserQuestion": {"questions": [{"question": "?"}]},
        "WebFetch": {"url": "https://example.com/"},
        "WebSearch": {"query": "x"},
        "Agent": {"description": "d", "prompt": "p"},
        "Skill": {"skill": "s"},
    }
    agent = Agent(agents={}, descriptions=descriptions())
    where = WorkspaceSpec(path=str(bench.workspace))
    spec = TaskSpec(name="t", prompt="x", model="m/x", workspace=where, permission_mode=mode)
    others = {**web.tools(spec, None), agent.spec.name: agent, "Skill": no_skills()}
    tools = {**bench.tools, **others}
    kinds = {name: tools[name].permission(call)["kind"] for name, call in calls.items()}
    verdicts = {name: decide(spec, name, kind) for name, kind in kinds.items()}
    assert {tool.name: tool.verdict for tool in app.plan(spec).tools} == {
        name: f"{'allowed' if verdict.allowed else 'denied'}: {verdict.reason}"
        for name, verdict in verdicts.items()
    }


def parsed(request: dict[str, Any]) -> dict[str, Any]:
    """The request after a round through the SDK's generated classes."""
    data = {"permissionRequest": {**request, "toolCallId": "c"}, "requestId": "r"}
    result: dict[str, Any] = PermissionRequestedData.from_dict(data).to_dict()["permissionRequest"]
    return result


def test_a_hostile_path_is_one_clean_line_in_the_request(bench: Bench) -> None:
    """Line breaks, escapes and direction marks are spelled out when a path holds them."""
    request = bench.tools["Read"].permission({"file_path": "a\n::error::\x1b[2J\u202eb\ud800"})
    assert request["intention"] == r"Read a\n::error::\x1b[2J\u202eb\ud800"


def test_an_output_too_long_is_cut_and_kept_whole_in_a_file(bench: Bench) -> None:
    """The result has head and tail, names the file, and the file (mode 0600) has it all."""
    bench.max_output_bytes = 600
    for number in range(100):
        bench.put(f"some-file-{number:03}.txt")
        os.utime(bench.workspace / f"some-file-{number:03}.txt", ns=(0, 0))
    output = bench.call("Glob", pattern="*")
    assert output.output_file is not None
    kept = Path(output.output_file)
    assert kept == bench.spill_dir / "call-1.txt"
    assert kept.read_text().split("\n") == [f"some-file-{n:03}.txt" for n in range(100)]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert len(output.content.encode()) <= 600
    assert output.content.startswith("some-file-000.txt\n")
    assert str(kept) in output.content
    assert output.content.endswith("some-file-099.txt")


def test_a_call_id_cannot_lead_out_of_the_spill_directory(bench: Bench) -> None:
    """The file stays in the directory when the call id holds slashes and dots."""
    bench.max_output_bytes = 300
    bench.put("long", "")
    bench._ids = iter(["../../../evil"])  # type: ignore[assignment]
    output = bench.call("Bash", command="seq 1000")
    assert output.output_file is not None
    assert Path(output.output_file).parent == bench.spill_dir
    assert [p.parent for p in bench.spill_dir.parent.rglob("*evil*")] == [bench.spill_dir]


def test_read_and_grep_open_the_whole_outputs_of_earlier_calls(bench: Bench) -> None:
    """A file that a result names can be read and searched although it is outside the roots."""
    bench.max_output_bytes = 1000
    file = bench.call("Bash", command="seq 1000").output_file
    assert bench.text("Read", file_path=file, offset=500, limit=1).startswith("   500\t500\n")
    found = bench.text("Grep", pattern="^77.$", path=file, output_mode="count")
    assert found == f"{file}:10"


def test_the_whole_outputs_of_earlier_calls_are_not_written(bench: Bench) -> None:
    """Write and Edit are denied where a run keeps its outputs, and nothing is made there."""
    failure = bench.failure("Write", file_path=str(bench.spill_dir / "x"), content="x")
    assert isinstance(failure, ToolDenied)
    assert "can be read but not changed" in str(failure)
    assert list(bench.spill_dir.iterdir()) == []
