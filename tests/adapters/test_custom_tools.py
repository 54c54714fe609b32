"""The key `custom_tools`: what is refused where, what is read, and which files a module is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.adapters import tool_modules
from runner.adapters.specfile import SpecError, load_spec, resolved_yaml, spec_hash
from runner.core.spec import CustomToolSpec, TaskSpec

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}}
TOOL: dict[str, Any] = {
    "description": "Reads.",
    "input_schema": SCHEMA,
    "python": "ci_tools:ticket",
}


def load(folder: Path, own: Any, **keys: Any) -> TaskSpec:
    """The spec of a task with these tools, one key a line."""
    (folder / "replies.yaml").write_text("replies: []\n")
    task = {"name": "t", "prompt": "p", "model": "scripted:replies.yaml", **keys}
    (folder / "task.yaml").write_text(json.dumps({**task, "custom_tools": own}, indent=1))
    return load_spec(folder / "task.yaml", stdin=lambda: "")


def test_a_tool_is_read_with_the_place_it_is_defined_at(tmp_path: Path) -> None:
    """Its module is looked for beside the task; what is left out has its default."""
    command = {"description": "Runs.", "input_schema": SCHEMA, "command": ["./x", "-a"]}
    more = {"env": {"A": "${B}"}, "read_only": True, "timeout": "30s"}
    spec = load(tmp_path, {"ticket": TOOL, "run-it": {**command, **more}})
    assert spec.custom_tools == {
        "ticket": CustomToolSpec(
            description="Reads.",
            input_schema=SCHEMA,
            python="ci_tools:ticket",
            python_path=str(tmp_path),
        ),
        "run-it": CustomToolSpec(
            description="Runs.",
            input_schema=SCHEMA,
            command=("./x", "-a"),
            env={"A": "${B}"},
            read_only=True,
            timeout=30.0,
        ),
    }
    line = [text.strip()[:9] for text in (tmp_path / "task.yaml").read_text().splitlines()]
    places = [tool.source.rpartition(":") for tool in spec.custom_tools.values()]
    assert [(file, line[int(number) - 1]) for file, _, number in places] == [
        (str(tmp_path / "task.yaml"), '"python":'),
        (str(tmp_path / "task.yaml"), '"command"'),
    ]


def test_the_resolved_spec_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    """With the folder of the module written out."""
    spec = load(tmp_path, {"ticket": TOOL})
    (tmp_path / "other").mkdir()
    again_file = tmp_path / "other/again.yaml"
    again_file.write_text(resolved_yaml(spec))
    again = load_spec(again_file, stdin=lambda: "")
    assert again == spec
    assert spec_hash(again) == spec_hash(spec)


WRONG: dict[str, tuple[Any, str]] = {
    "a name of ours": ({"Bash": TOOL}, "Bash is a tool of the runner"),
    "a name of ours in other letters": ({"bash": TOOL}, "Bash is a tool of the runner"),
    "a control tool": ({"task_complete": TOOL}, "task_complete is a tool of the runner"),
    "a name of servers": ({"mcp__a__b": TOOL}, "a `__` stands in names of tools of MCP servers"),
    "a name no provider takes": ({"my tool": TOOL}, "not a name of letters, digits"),
    "a long name": ({"a" * 65: TOOL}, "not a name of letters, digits"),
    "no map": ({"t": "ci_tools:ticket"}, "expected a map such as"),
    "nothing to run": ({"t": {**TOOL, "python": None}}, "neither `python` nor `command`"),
    "two to run": ({"t": {**TOOL, "command": ["x"]}}, "both `python` and `command`"),
    "no function": ({"t": {**TOOL, "python": "ci_tools"}}, '"ci_tools" is not module:function'),
    "a file": ({"t": {**TOOL, "python": "./x.py:f"}}, '"./x.py:f" is not module:function'),
    "no description": ({"t": {"input_schema": SCHEMA, "command": ["x"]}}, "required, but missing"),
    "no schema": ({"t": {"description": "d", "command": ["x"]}}, "required, but missing"),
    "a schema of a list": (
        {"t": {**TOOL, "input_schema": {"type": "array"}}},
        "the arguments must be an object: `type: object` is missing",
    ),
    "no schema at all": (
        {"t": {**TOOL, "input_schema": {"type": "object", "properties": 5}}},
        "this is no JSON Schema",
    ),
    "a schema that asks the network": (
        {"t": {**TOOL, "input_schema": {**SCHEMA, "$ref": "http://example.com/x"}}},
        "leads out of the schema",
    ),
    "a command as a text": (
        {"t": {"description": "d", "input_schema": SCHEMA, "command": "x -a"}},
        "expected a list of a program and its arguments",
    ),
    "a path for a command": (
        {"t": {"description": "d", "input_schema": SCHEMA, "command": ["x"], "python_path": "."}},
        "`python_path` belongs to `python`",
    ),
    "a misspelt key": ({"t": {**TOOL, "readonly": True}}, "did you mean `read_only`?"),
    "a key in a variable": (
        {"t": {**TOOL, "env": {"A": "sk-ant-abcdefghijkl"}}},
        "looks like a key (not shown)",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, what: str) -> None:
    """One problem each, with the path of the key."""
    tools, told = WRONG[what]
    with pytest.raises(SpecError) as refused:
        load(tmp_path, tools)
    (problem,) = refused.value.problems
    assert problem.file.endswith("task.yaml")
    assert problem.line
    assert problem.path.startswith("custom_tools.")
    assert told in str(problem)
    assert "sk-ant" not in str(problem)


def test_rules_and_lists_may_name_the_tools_of_the_task(tmp_path: Path) -> None:
    """Where a built-in tool could stand; another name is a mistake, and the nearest is told."""
    agent = {"description": "d", "prompt": "p", "tools": ["Read", "ticket"]}
    keys: dict[str, Any] = {
        "allowed_tools": ["ticket"],
        "disallowed_tools": ["ticket(id:x*)"],
        "agents": {"one": agent},
    }
    spec = load(tmp_path, {"ticket": TOOL}, **keys)
    assert spec.agents["one"].tools == ("Read", "ticket")
    for wrong, told in (
        ({"allowed_tools": ["tickets"]}, "did you mean ticket?"),
        ({"allowed_tools": ["ticket(id:x)"]}, "can only deny or ask"),
        ({"allowed_tools": ["ticket(x)"]}, "takes no such specifier"),
        ({"tools": ["ticket"]}, "a custom tool is there as soon as it is defined"),
        ({"agents": {"one": {**agent, "tools": ["tickets"]}}}, "did you mean ticket?"),
    ):
        with pytest.raises(SpecError) as refused:
            load(tmp_path, {"ticket": TOOL}, **wrong)
        assert told in str(refused.value)


def test_the_files_of_a_module_are_those_its_statements_lead_to(tmp_path: Path) -> None:
    """Packages and their `__init__`, relative imports, folders without one; never what Python or
    an installed package has, but for the module that is named."""
    written = {
        "tools.py": "import json, yaml, a.b\nfrom c import d\ndef f():\n    from late import x\n",
        "a/__init__.py": "",
        "a/b.py": "from . import e\nfrom .e import x\nfrom ..nowhere import y\n",
        "a/e.py": "",
        "a/unused.py": "",
        "c/d.py": "import a.attribute\nimport broken",
        "late.py": "import tools",
        "json.py": "",
        "yaml.py": "",
        "broken.py": "def (",
        "unused.py": "",
    }
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def found(module: str) -> list[str]:
        files = tool_modules.files_of(module, tmp_path)
        return sorted(str(path.relative_to(tmp_path)) for path in files)

    assert found("tools") == [
        "a/__init__.py",
        "a/b.py",
        "a/e.py",
        "broken.py",
        "c/d.py",
        "late.py",
        "tools.py",
    ]
    assert found("json") == ["json.py"]
    assert found("a.e") == ["a/__init__.py", "a/e.py"]
    assert found("gone") == found("a.gone") == found("tools.gone") == []
