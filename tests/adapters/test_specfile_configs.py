"""The packed configs agree with the code: defaults, schema, permission fragments, examples."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest

from runner.adapters import configs
from runner.adapters.specfile import SpecError, load_spec, task_schema
from runner.adapters.specfile.model import SPEC_KEYS
from runner.adapters.specfile.problem import Source
from runner.adapters.specfile.yaml_document import Fields, Items, Node, Scalar, parse
from runner.core.spec import TaskSpec, WorkspaceSpec

EXAMPLES = sorted(configs.path("tasks").glob("*.yaml"))
FRAGMENTS = sorted(configs.path("permissions").glob("*.yaml"))


def no_stdin() -> str:
    """Standard input where nobody may read it."""
    raise AssertionError("standard input was read")


def tree_of(path: Path) -> Node:
    """The parsed file, which has no problems."""
    node, problems = parse(path.read_bytes(), Source(name=path.name, folder=path.parent))
    assert (problems, node is None) == ([], False)
    assert node is not None
    return node


def plain(node: Node) -> object:
    """The tree as JSON values."""
    match node:
        case Scalar():
            return float(node.value) if isinstance(node.value, Decimal) else node.value
        case Items():
            return [plain(entry) for entry in node.entries]
        case Fields():
            return {name: plain(entry.node) for name, entry in node.fields.items()}
        case _:
            raise AssertionError(node)


def keys_of(value: object, prefix: str = "") -> list[str]:
    """Every key, nested ones as `limits.tool`."""
    found = []
    if isinstance(value, dict):
        for name, inner in value.items():
            found += [f"{prefix}{name}", *keys_of(inner, f"{prefix}{name}.")]
    return found


def test_the_defaults_file_is_equal_to_the_dataclasses(tmp_path: Path) -> None:
    """A spec with all of `defaults.yaml` in it equals a spec with nothing in it, and no key that
    has a default or can be left out is missing there."""
    text = configs.read_text("defaults.yaml") + "\nname: t\nprompt: p\nmodel: m/x\n"
    (tmp_path / "task.yaml").write_text(text)
    spec = load_spec(tmp_path / "task.yaml", stdin=no_stdin)
    expected = TaskSpec(
        name="t", prompt="p", model="m/x", workspace=WorkspaceSpec(path=str(tmp_path))
    )
    there = keys_of(plain(tree_of(configs.path("defaults.yaml"))))
    without = ("name", "prompt", "prompt_file", "model")  # written in every spec
    keys = [
        key
        for key, _, _, _ in SPEC_KEYS
        if key not in without
        and not key.startswith(("pricing.", "auto_mode.", "web_search."))
        and ".NAME." not in key
    ]
    assert (spec, sorted(there)) == (expected, sorted(keys))


def test_the_checked_in_schema_is_the_generated_one() -> None:
    """`configs/schema/task.schema.json` is what `task_schema()` gives; write it anew when not."""
    written = json.dumps(task_schema(), indent=2, ensure_ascii=False) + "\n"
    assert configs.read_text("schema/task.schema.json") == written


PRICE_KEYS = [key for key, _, _, _ in SPEC_KEYS if key.startswith("pricing.")]
"""The same for the spec's own model and, by name, for each."""


def test_every_key_in_the_schema_is_explained() -> None:
    """Each key has a description and an example that the key itself accepts, and records are
    closed."""
    jsonschema.Draft202012Validator.check_schema(task_schema())
    found: list[str] = []

    def look(schema: object, path: str) -> None:
        if not isinstance(schema, dict):
            return
        for inner in schema.get("anyOf", []):
            look(inner, path)
        look(schema.get("additionalProperties"), f"{path}NAME.")
        if "properties" in schema:
            assert schema["additionalProperties"] is False
        for name, key in schema.get("properties", {}).items():
            if "description" in key:
                found.append(f"{path}{name}")
                jsonschema.validate(key["examples"][0], key)
                jsonschema.validate(key.get("default", key["examples"][0]), key)
            look(key, f"{path}{name}.")

    look(task_schema(), "")
    by_model = [key for key in found if key.startswith("pricing.NAME.")]
    assert by_model == [key.replace("pricing.", "pricing.NAME.") for key in PRICE_KEYS]
    told = sorted(key for key in found if key not in by_model)
    assert told == sorted(key for key, _, _, _ in SPEC_KEYS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads_and_fits_the_schema(path: Path) -> None:
    """A shipped task is valid for the loader and for an editor."""
    spec = load_spec(path, stdin=no_stdin, demand_inputs=False)
    jsonschema.validate(plain(tree_of(path)), task_schema())
    first = path.read_text().splitlines()[0]
    schema_line = "# yaml-language-server: $schema=../schema/task.schema.json"
    assert (spec.name, first) == (path.stem, schema_line)


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
def test_every_permission_fragment_can_be_extended(tmp_path: Path, path: Path) -> None:
    """`extends: builtin:NAME` gives a valid spec that differs from the defaults."""
    base = "name: t\nprompt: p\nmodel: m/x\n"
    for name, text in (("plain", base), ("extended", f"{base}extends: builtin:{path.stem}\n")):
        (tmp_path / f"{name}.yaml").write_text(text)
    plain_spec = load_spec(tmp_path / "plain.yaml", stdin=no_stdin)
    assert load_spec(tmp_path / "extended.yaml", stdin=no_stdin) != plain_spec


REFUSED_BY_BOTH = [
    "max_turns: 0",
    "max_turns: x",
    "max_budget_usd: 0",
    "timeout: 90",
    "timeout: 30",
    "timeout: ''",
    "tools: [Bash(npm *)]",
    "tools: Read",
    "permission_mode: automatic",
    "auto_mode: {instructions: x}",
    "limits: {hook: 5}",
    "env: {pass: [A=1]}",
    "env: {set: {A: 1}}",
    "inputs: {x: {untrusted: perhaps}}",
    "secrets: [A=1]",
    "pricing: {input_per_mtok: 1}",
    "verify: pytest",
    "verify: [{name: tests}]",
    "agents: {a: {description: d}}",
    "agents: {a: {description: d, prompt: p, model: 3}}",
    "agents: {a: {description: d, prompt: p, background: true}}",
    "agents: {a: {description: d, prompt: p, tools: [Bash(npm *)]}}",
    "zzz: 1",
    "prompt_file: p.md",
    "model: null",
]


@pytest.mark.parametrize("line", REFUSED_BY_BOTH)
def test_the_schema_refuses_what_the_loader_refuses(tmp_path: Path, line: str) -> None:
    """An editor shows the mistake already when a key has the wrong type or does not work yet."""
    lines = {"name": "t", "prompt": "p", "model": "m/x"}
    lines.pop(line.split(":")[0], None)
    text = "".join(f"{name}: {value}\n" for name, value in lines.items()) + line
    (tmp_path / "task.yaml").write_text(text)
    with pytest.raises(SpecError):
        load_spec(tmp_path / "task.yaml", stdin=no_stdin)
    validator = jsonschema.Draft202012Validator(task_schema())
    assert not validator.is_valid(plain(tree_of(tmp_path / "task.yaml")))
