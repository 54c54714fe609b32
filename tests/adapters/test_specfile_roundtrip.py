"""A resolved spec is a spec: written as YAML it loads back to the same values."""

from __future__ import annotations

import string
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runner.adapters.specfile import load_spec, resolved_yaml
from runner.adapters.specfile.words import TOOLS
from runner.core.spec import (
    AgentSpec,
    EnvSpec,
    InputSpec,
    LimitsSpec,
    PricingSpec,
    ReportsSpec,
    ResumeSpec,
    RetrySpec,
    TaskSpec,
    WorkspaceSpec,
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that serves as every path of a spec."""
    with TemporaryDirectory() as name:
        (Path(name) / "replies: #1.yaml").touch()
        yield Path(name).resolve()


TRICKY = (
    'no|1e3|010|~|0x10| a|b |- c|? d|{{ inputs.x }}|{{ "{{" }}|# e|f: g|\'|"|\\|\t|\n|\r\n|'
    "\u202e|\x1b|\x85|\u2028|ä|\U0001f600|!h|&i|*j|%k|@l|[|]|{|}|,|<<|=|.inf|null|true| \n|"
    "\n\n |{{inputs.x|2024-01-01|1:30|+1|\ufeff|\uffff|\x7f|---|...|%YAML 1.1\n---"
)
ANY_TEXT = st.lists(
    st.sampled_from(TRICKY.split("|"))
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
    max_size=6,
).map("".join)
BODIES = ANY_TEXT.filter(str.strip)
NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,9}\Z")
SECONDS = st.floats(0.001, 365 * 86_400) | st.integers(1, 10**6).map(float)
MONEY = st.decimals(0, 100_000, places=9).map(abs)
WHOLE = st.integers(1_000, 10**9)
TOOL_LISTS = st.lists(st.sampled_from(TOOLS), max_size=3).map(tuple)


def specs(folder: Path) -> st.SearchStrategy[TaskSpec]:
    """Every kind of spec that loading can give."""
    variables = NAMES.filter(lambda name: not name.upper().endswith(("KEY", "ACTIONS_")))
    return st.builds(
        TaskSpec,
        name=st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
        prompt=BODIES,
        model=st.text(string.ascii_letters + "0123456789/.-", min_size=1)
        | st.just(f"scripted:{folder}/replies: #1.yaml"),
        inputs=st.dictionaries(
            NAMES, st.builds(InputSpec, default=st.none() | ANY_TEXT, untrusted=st.booleans())
        ),
        api_base=st.none() | st.just("https://host:1/v1?a=b#c"),
        api_key_env=st.none() | st.sampled_from(["ANTHROPIC_API_KEY", "NO", "_1"]),
        max_output_tokens=WHOLE,
        system_prompt=st.none() | BODIES,
        append_system_prompt=st.none() | BODIES,
        autopilot=st.booleans(),
        workspace=st.builds(
            WorkspaceSpec, path=st.just(str(folder)), isolation=st.sampled_from(["none", "copy"])
        ),
        add_dirs=st.sampled_from([(), (str(folder),)]),
        max_turns=st.none() | WHOLE,
        max_budget_usd=st.none() | MONEY.filter(bool),
        max_autopilot_continues=st.integers(0, 9),
        timeout=st.none() | SECONDS,
        limits=st.builds(
            LimitsSpec,
            model_idle=SECONDS,
            model_call=SECONDS,
            tool=SECONDS,
            shutdown_grace=SECONDS,
            max_tool_output_bytes=WHOLE,
            max_resumes=st.integers(0, 9),
            min_output_tokens=WHOLE,
            durability=st.sampled_from(["event", "barrier", "off"]),
        ),
        resume=st.builds(
            ResumeSpec,
            on_unknown=st.sampled_from(["tell-model", "stop"]),
            budget_scope=st.sampled_from(["run", "session"]),
        ),
        tools=st.none() | TOOL_LISTS,
        allowed_tools=TOOL_LISTS,
        disallowed_tools=TOOL_LISTS,
        permission_mode=st.sampled_from(["default", "acceptEdits", "bypassPermissions"]),
        agents=st.dictionaries(
            NAMES.filter(lambda name: name[0] != "_"),
            st.builds(
                AgentSpec,
                description=BODIES,
                prompt=BODIES,
                tools=st.sampled_from([None, (), ("Read", "mcp__docs")]),
                disallowed_tools=TOOL_LISTS,
                effort=st.sampled_from([None, "low"]),
                max_turns=st.none() | WHOLE,
                permission_mode=st.sampled_from([None, "plan", "bypassPermissions"]),
                skills=st.sampled_from([(), ("tidy",)]),
            ),
            max_size=2,
        ),
        skills=st.sampled_from([("all",), (), ("tidy", str(folder))]),
        env=st.builds(
            EnvSpec,
            pass_=st.lists(variables, max_size=3).map(tuple),
            set=st.dictionaries(NAMES, ANY_TEXT, max_size=3),
        ),
        secrets=st.lists(NAMES, max_size=3).map(tuple),
        pricing=st.none()
        | st.dictionaries(
            st.sampled_from(("m/x", "openai/gpt-4.1", "ollama/llama3:8b")),
            st.builds(
                PricingSpec,
                input_per_mtok=MONEY,
                output_per_mtok=MONEY,
                cache_read_per_mtok=st.none() | MONEY,
                cache_write_per_mtok=st.none() | MONEY,
            ),
            min_size=1,
        ),
        retry=st.builds(RetrySpec, max_attempts=st.integers(1, 1_000), max_wait=SECONDS),
        reports=st.builds(
            ReportsSpec,
            summary=st.none() | st.just(f"{folder}/new/s: #1.md"),
            junit=st.none() | st.just(f"{folder}/j.xml"),
            github=st.sampled_from(["auto", "off"]),
        ),
    )


@given(data=st.data())
def test_a_resolved_spec_loads_back_to_the_same_spec(folder: Path, data: st.DataObject) -> None:
    """Nothing is lost, changed or expanded again when a resolved spec is written and loaded."""
    spec = data.draw(specs(folder))
    written = resolved_yaml(spec)
    assert load_spec(Path("-"), stdin=lambda: written, cwd=folder) == spec


@given(seconds=SECONDS)
@example(seconds=0.001)
@example(seconds=90_061.001)
@example(seconds=0.30000000000000004)
def test_every_duration_is_written_exactly(folder: Path, seconds: float) -> None:
    """The same float comes back when a duration is written with units."""
    spec = TaskSpec(
        name="t",
        prompt="p",
        model="m",
        timeout=seconds,
        workspace=WorkspaceSpec(path=str(folder)),
    )
    written = resolved_yaml(spec)
    assert load_spec(Path("-"), stdin=lambda: written, cwd=folder) == spec


def test_a_resolved_spec_is_written_for_people(folder: Path) -> None:
    """Durations have units, money has no exponent, lines stay lines, every default is there."""
    spec = TaskSpec(
        name="no",
        prompt="Do:\n  it {{ inputs.x }}\n",
        model="m/x",
        timeout=5_400.0,
        max_budget_usd=Decimal("0.0000005"),
        workspace=WorkspaceSpec(path=str(folder)),
    )
    assert (
        resolved_yaml(spec)
        == f"""name: 'no'
prompt: |
  Do:
    it {{{{ "{{{{" }}}} inputs.x }}}}
inputs: {{}}
model: m/x
fallback_models: []
max_output_tokens: 8192
setting_sources:
- project
autopilot: true
workspace:
  path: {folder}
  isolation: none
add_dirs: []
max_budget_usd: 0.0000005
max_autopilot_continues: 5
timeout: 1h30m
limits:
  start: 1m
  model_idle: 2m
  model_call: 10m
  tool: 10m
  mcp_start: 30s
  hook: 1m
  shutdown_grace: 8s
  max_tool_output_bytes: 30000
  max_verify_attempts: 3
  max_structured_output_retries: 5
  max_resumes: 3
  max_subagent_depth: 3
  max_subagents: 20
  min_output_tokens: 256
  durability: event
resume:
  on_unknown: tell-model
  budget_scope: run
allowed_tools: []
disallowed_tools: []
ask_tools: []
permission_mode: default
on_denied: report
verify: []
protected_paths: []
hooks: {{}}
mcp_servers: {{}}
tool_search: auto
custom_tools: {{}}
require_changes: false
forbid_changes: false
sandbox:
  mode: auto
  container: false
skills: all
agents: {{}}
env:
  pass: []
  set: {{}}
secrets: []
compaction:
  threshold: 0.8
  enabled: true
retry:
  max_attempts: 5
  max_wait: 1m
reports:
  github: auto
"""
    )
