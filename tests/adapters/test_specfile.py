"""A spec file becomes a TaskSpec, or a list of every mistake in it with its place and a way out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from runner.adapters.specfile import (
    SPEC_KEYS,
    Override,
    Problem,
    SpecError,
    load_spec,
    planned_keys,
    spec_hash,
    texts,
)
from runner.core.spec import (
    EnvSpec,
    InputSpec,
    LimitsSpec,
    PricingSpec,
    RetrySpec,
    TaskSpec,
    WorkspaceSpec,
)

BASE = "name: t\nprompt: p\nmodel: m/x\n"
REPO = Path(__file__).parents[2]


def no_stdin() -> str:
    """Standard input where nobody may read it."""
    raise AssertionError("standard input was read")


def load(
    folder: Path,
    text: str | bytes,
    *,
    overrides: Sequence[str | Override] = (),
    inputs: Mapping[str, str] | None = None,
    stdin: Callable[[], str] = no_stdin,
    demand_inputs: bool = True,
) -> TaskSpec:
    """Load `task.yaml` with this text, as seen from its own folder."""
    data = text.encode() if isinstance(text, str) else text
    (folder / "task.yaml").write_bytes(data)
    return load_spec(
        Path("task.yaml"),
        overrides=overrides,
        inputs=inputs or {},
        stdin=stdin,
        cwd=folder,
        demand_inputs=demand_inputs,
    )


def problems_of(folder: Path, text: str | bytes, **given: object) -> list[str]:
    """Every problem of this text, as shown to the user, without the name of the folder."""
    with pytest.raises(SpecError) as caught:
        load(folder, text, **given)  # type: ignore[arg-type]  # passed on as they are
    return [str(problem).replace(f"{folder}/", "") for problem in caught.value.problems]


def test_a_minimal_spec_has_the_defaults_of_the_dataclasses(tmp_path: Path) -> None:
    """Everything unsaid is a default, and the workspace is the spec's folder, when only the three
    required keys are given."""
    assert load(tmp_path, BASE) == TaskSpec(
        name="t", prompt="p", model="m/x", workspace=WorkspaceSpec(path=str(tmp_path))
    )


def test_every_key_arrives(tmp_path: Path) -> None:
    """Each key lands in its field, typed, with absolute paths, when the spec uses all of them."""
    for name in ("work", "more"):
        (tmp_path / name).mkdir()
    for name in ("replies.yaml", "system.md", "task.md"):
        (tmp_path / name).write_text(f"from {name}, {{{{ inputs.who }}}}")
    text = """
name: all-of.it_1
prompt_file: task.md
inputs: {who: {required: true}, how: {default: well}}
model: scripted:replies.yaml
api_base: http://localhost:8000/v1
api_key_env: MY_KEY
max_output_tokens: 0x100
system_prompt: {file: system.md}
append_system_prompt: "for {{ inputs.who }}, {{inputs.how}}"
autopilot: false
workspace: {path: work, isolation: copy}
add_dirs: [more]
max_turns: 7
max_budget_usd: 1e-06
max_autopilot_continues: 0
timeout: 1h30m
limits: {model_idle: 1m, model_call: 2m, tool: 500ms, shutdown_grace: 1.5s,
         max_tool_output_bytes: 5000, min_output_tokens: 10, durability: barrier}
tools: [Read, Bash]
allowed_tools: [Bash]
disallowed_tools: [Edit]
permission_mode: acceptEdits
env: {pass: [GH_TOKEN], set: {NO: no, SHA: 3f786850e387550fdab836ed7e6dc881de23001b}}
pricing: {input_per_mtok: 3, output_per_mtok: 15.5, cache_read_per_mtok: 0, cache_write_per_mtok: 1}
retry: {max_attempts: 1, max_wait: 10s}
"""
    assert load(tmp_path, text, inputs={"who": "me"}) == TaskSpec(
        name="all-of.it_1",
        prompt="from task.md, me",
        inputs={"who": InputSpec(), "how": InputSpec(default="well")},
        model=f"scripted:{tmp_path}/replies.yaml",
        api_base="http://localhost:8000/v1",
        api_key_env="MY_KEY",
        max_output_tokens=256,
        system_prompt="from system.md, me",
        append_system_prompt="for me, well",
        autopilot=False,
        workspace=WorkspaceSpec(path=f"{tmp_path}/work", isolation="copy"),
        add_dirs=(f"{tmp_path}/more",),
        max_turns=7,
        max_budget_usd=Decimal("0.000001"),
        max_autopilot_continues=0,
        timeout=5400.0,
        limits=LimitsSpec(
            model_idle=60.0,
            model_call=120.0,
            tool=0.5,
            shutdown_grace=1.5,
            max_tool_output_bytes=5000,
            min_output_tokens=10,
            durability="barrier",
        ),
        tools=("Read", "Bash"),
        allowed_tools=("Bash",),
        disallowed_tools=("Edit",),
        permission_mode="acceptEdits",
        env=EnvSpec(
            pass_=("GH_TOKEN",),
            set={"NO": "no", "SHA": "3f786850e387550fdab836ed7e6dc881de23001b"},
        ),
        pricing={
            f"scripted:{tmp_path}/replies.yaml": PricingSpec(
                input_per_mtok=Decimal(3),
                output_per_mtok=Decimal("15.5"),
                cache_read_per_mtok=Decimal(0),
                cache_write_per_mtok=Decimal(1),
            )
        },
        retry=RetrySpec(max_attempts=1, max_wait=10.0),
    )


def test_every_model_can_have_a_price_of_its_own(tmp_path: Path) -> None:
    """Prices stand under the ids of models, those of scripts with paths from the spec's folder;
    the same script named in two ways has two prices, which is refused where the second stands."""
    (tmp_path / "a.yaml").write_text("replies: []")
    one = "{input_per_mtok: 1, output_per_mtok: 2}"
    text = f"name: a\nprompt: p\nmodel: m/x\npricing:\n  m/x: {one}\n  scripted:a.yaml: {one}\n"
    (tmp_path / "task.yaml").write_text(text)
    price = PricingSpec(input_per_mtok=Decimal(1), output_per_mtok=Decimal(2))
    spec = load_spec(tmp_path / "task.yaml", stdin=no_stdin)
    assert spec.pricing == {"m/x": price, f"scripted:{tmp_path}/a.yaml": price}
    (tmp_path / "task.yaml").write_text(text + f"  scripted:./a.yaml: {one}\n")
    with pytest.raises(SpecError) as refused:
        load_spec(tmp_path / "task.yaml", stdin=no_stdin)
    (problem,) = refused.value.problems
    assert (problem.line, problem.path) == (7, "pricing.scripted:./a.yaml")
    assert problem.message == "the price of this model stands here twice"


def test_all_mistakes_are_reported_at_once_in_reading_order(tmp_path: Path) -> None:
    """One list has everything, by line, when a spec has many mistakes of all kinds."""
    text = """name: Fix it!
modle: m/x
max_turns: 1.5
max_turns: 3
timeout: 90
autopilot: yes
limits:
  tool: 0s
  tools: 1m
output_schema: {}
"""
    assert problems_of(tmp_path, text, overrides=["max_budget_usd=-1"]) == [
        "task.yaml:1: model: required, but missing\n"
        "hint: write a model such as anthropic/claude-sonnet-4-5, or scripted:FILE",
        "task.yaml:1: prompt: required, but missing\n"
        "hint: write the task as text, or name its file with `prompt_file`",
        'task.yaml:1: name: "Fix it!" is not a name\n'
        "hint: letters, digits, `-`, `_` and `.`, at most 64: Fix-it",
        "task.yaml:2: modle: unknown key\nhint: did you mean `model`?",
        "task.yaml:3: max_turns: expected a whole number >= 1, got 1.5",
        "task.yaml:4: max_turns: a duplicate of the key in line 3\nhint: keep one of the two",
        "task.yaml:5: timeout: expected a duration such as 30m, 90s or 1h30m, got 90\n"
        "hint: add a unit: 90s for seconds, 90m for minutes",
        'task.yaml:6: autopilot: expected true or false, got the text "yes"\nhint: write true',
        "task.yaml:8: limits.tool: 0s is too short\nhint: the least is 1ms",
        "task.yaml:9: limits.tools: unknown key\nhint: did you mean `tool`?",
        "task.yaml:10: output_schema: the answer must be an object: `type: object` is missing\n"
        "hint: put a list or a value into a property: {type: object, properties: {items: ...}}",
        "--set max_budget_usd=-1: max_budget_usd: expected a number > 0, got -1",
    ]


RULE_HINT = (
    "hint: for example Bash(npm run build), Bash(npm run *), Edit(src/**), Read(//etc/hosts)"
)

AGENT = "{description: d, prompt: p"
"""A sub-agent, up to what is wrong with it."""

BAD_VALUES = [
    # limits that are none: every wrong form is refused, and says what was read
    ("max_turns: 0", "max_turns: expected a whole number >= 1, got 0"),
    ("max_turns: -1", "max_turns: expected a whole number >= 1, got -1"),
    ("max_turns: 1.5", "max_turns: expected a whole number >= 1, got 1.5"),
    ("max_turns: 5.0", "max_turns: expected a whole number >= 1, got 5.0"),
    ('max_turns: "x"', 'max_turns: expected a whole number >= 1, got the text "x"'),
    ("max_turns: true", "max_turns: expected a whole number >= 1, got true"),
    (
        'max_turns: "5"',
        'max_turns: expected a whole number >= 1, got the text "5"\nhint: remove the quotes',
    ),
    ("max_turns: [1]", "max_turns: expected a whole number >= 1, got a list"),
    ("max_turns: {}", "max_turns: expected a whole number >= 1, got a map"),
    ("max_turns: 5e9", "max_turns: expected a whole number >= 1, got 5e9"),
    ("max_turns: 5000000000", "max_turns: 5000000000 is more than the most, 1000000000"),
    ("max_turns: 1_000", 'max_turns: expected a whole number >= 1, got the text "1_000"'),
    (
        "max_turns:",
        "max_turns: the key has no value\nhint: write a whole number >= 1",
    ),
    (
        "max_turns: 010",
        'max_turns: "010" starts with 0: versions of YAML read it differently\n'
        'hint: write 10, or "010" in quotes if it is text',
    ),
    (
        "max_budget_usd: .nan",
        "max_budget_usd: .nan is not a finite number\nhint: write a finite number",
    ),
    (
        "max_budget_usd: .inf",
        "max_budget_usd: .inf is not a finite number\nhint: write a finite number",
    ),
    ("max_budget_usd: nan", 'max_budget_usd: expected a number > 0, got the text "nan"'),
    ("max_budget_usd: 0", "max_budget_usd: expected a number > 0, got 0"),
    ("max_budget_usd: -0.0", "max_budget_usd: expected a number > 0, got -0.0"),
    ("max_budget_usd: 1e-10", "max_budget_usd: 1E-10 has more than nine decimals"),
    ("max_budget_usd: 100001", "max_budget_usd: 100001 is more than the most, 100000 USD"),
    (
        "max_autopilot_continues: -1",
        "max_autopilot_continues: expected a whole number >= 0, got -1",
    ),
    ("timeout: 0s", "timeout: 0s is too short\nhint: the least is 1ms"),
    ("timeout: 366d", "timeout: 366d is too long\nhint: the most is 365d"),
    (
        "timeout: -5m",
        'timeout: expected a duration such as 30m, 90s or 1h30m, got the text "-5m"\n'
        "hint: units are d, h, m, s and ms, the largest first",
    ),
    (
        "timeout: 30m1h",
        'timeout: expected a duration such as 30m, 90s or 1h30m, got the text "30m1h"\n'
        "hint: units are d, h, m, s and ms, the largest first",
    ),
    (
        "max_output_tokens: null",
        "max_output_tokens: the key has no value\nhint: write a whole number >= 1",
    ),
    # text
    (
        "api_base: localhost",
        'api_base: "localhost" is not a URL\nhint: write http://... or https://...',
    ),
    (
        "api_base: https://user:pw@host/v1",
        "api_base: a URL with a user or a key in it\n"
        "hint: name the variable that holds the key instead",
    ),
    (
        "append_system_prompt: 3.10",
        'append_system_prompt: expected text, or {file: path}, got 3.10\nhint: quote it: "3.10"',
    ),
    (
        "append_system_prompt: {path: x}",
        "append_system_prompt: a map here has the one key `file`\nhint: write {file: path}",
    ),
    (
        'append_system_prompt: " "',
        "append_system_prompt: the text is empty\nhint: write text, or {file: path}",
    ),
    # choices
    (
        "permission_mode: acceptedits",
        "permission_mode: expected one of default, acceptEdits, plan, dontAsk, auto, "
        'bypassPermissions, got the text "acceptedits"\nhint: did you mean acceptEdits?',
    ),
    (
        "permission_mode: [default]",
        "permission_mode: expected one of default, acceptEdits, plan, dontAsk, auto, "
        "bypassPermissions, got a list",
    ),
    (
        "permission_mode: auto",
        "permission_mode: mode auto needs `auto_mode`\nhint: name the model that decides, as in "
        "auto_mode: {model: ...}; or choose another mode",
    ),
    (
        "auto_mode: {model: m/y}",
        "auto_mode: it is for mode auto alone\nhint: write permission_mode: auto, or remove it",
    ),
    # tools
    ("tools: [bash]", 'tools[0]: no tool is called "bash"\nhint: did you mean Bash?'),
    (
        "tools: Read",
        'tools: expected a list of names of tools, got the text "Read"\nhint: write [Read]',
    ),
    (
        "tools: [Read, Deploy]",
        'tools[1]: no tool is called "Deploy"\nhint: the tools are Read, Write, Edit, Glob, Grep, '
        "Bash, WebFetch, WebSearch, TaskCreate, TaskUpdate, AskUserQuestion, Agent, Skill, "
        "ToolSearch",
    ),
    (
        "skills: release",
        "skills: expected all, or a list of names and paths of skills, got the text "
        '"release"\nhint: write [release]',
    ),
    (
        "skills: [all, release]",
        "skills[0]: `all` stands alone\nhint: write skills: all, or name them",
    ),
    (
        "skills: [re lease]",
        'skills[0]: "re lease" is not the name of a skill\n'
        "hint: a path has a `/` in it, as in ./skills/release; the folder holds SKILL.md",
    ),
    (
        "disallowed_tools: [task_complete]",
        "disallowed_tools[0]: task_complete is a control tool: no rule can name it\n"
        "hint: leave it out: in autopilot it is always there, and steers the run only",
    ),
    (
        "allowed_tools: [task_blocked(x)]",
        "allowed_tools[0]: task_blocked is a control tool: no rule can name it\n"
        "hint: leave it out: in autopilot it is always there, and steers the run only",
    ),
    (
        "tools: [Bash(npm *)]",
        'tools[0]: "Bash(npm *)" is a rule, and this is a list of tools\n'
        "hint: name the whole tool: Bash",
    ),
    (
        "allowed_tools: [Bash(npm test && curl)]",
        'allowed_tools[0]: "Bash(npm test && curl)" is no rule: a rule is about one command: no '
        f"; & | < > $ ` in it, list each by itself\n{RULE_HINT}",
    ),
    (
        "disallowed_tools: [Bash()]",
        'disallowed_tools[0]: "Bash()" is no rule: nothing stands between the brackets: write Bash '
        f"for every call\n{RULE_HINT}",
    ),
    (
        "ask_tools: ['Bash(npm *']",
        'ask_tools[0]: "Bash(npm *" is no rule: a rule is `Tool` or `Tool(specifier)`\n'
        f"{RULE_HINT}",
    ),
    (
        "allowed_tools: [bash(npm *)]",
        'allowed_tools[0]: no tool is called "bash(npm *)"\nhint: did you mean Bash?',
    ),
    (
        "allowed_tools: [Edit(../x)]",
        'allowed_tools[0]: "Edit(../x)" is no rule: a path with `..` never matches: write '
        f"//absolute/path\n{RULE_HINT}",
    ),
    (
        "tools: [mcp__git__log]",
        "tools[0]: this list is of the built-in tools\n"
        "hint: give its server under `mcp_servers` the tools that are wanted: tools: [...]",
    ),
    (
        "mcp_servers: {git: {}}",
        "mcp_servers.git: a server that is started here needs a `command`\n"
        "hint: write command: PROGRAM",
    ),
    (
        "mcp_servers: {git: {type: http}}",
        "mcp_servers.git: a server of type http needs a `url`\nhint: write url: https://...",
    ),
    (
        "mcp_servers: {git: {command: git-server, url: 'https://a.test'}}",
        "mcp_servers.git: `url` and `headers` belong to a server with an address\n"
        "hint: write type: http",
    ),
    (
        "mcp_servers: {git: {type: sse, url: 'https://a.test', args: [x]}}",
        "mcp_servers.git: `command`, `args` and `env` belong to a server that is started here\n"
        "hint: write type: stdio, or give headers",
    ),
    (
        "mcp_servers: {git__hub: {command: x}}",
        "mcp_servers.git__hub: a server's name has no `__` in it and no `_` at its end",
    ),
    (
        "mcp_servers: {git: {type: http, url: 'https://a.test', headers: {Authorization: "
        "Bearer sk-ant-0123456789abcdef}}}",
        "mcp_servers.git.headers.Authorization: looks like a key (not shown): a spec must not hold "
        "one\nhint: name the variable that holds it: ${NAME}",
    ),
    (
        "mcp_servers: {git: {command: x, timeout: 3}}",
        "mcp_servers.git.timeout: not supported yet\n"
        "hint: use `limits.mcp_start` for its start and `limits.tool` for its calls",
    ),
    # paths
    (
        "workspace: nowhere",
        "workspace.path: no such folder: nowhere\n"
        "hint: a relative path starts at the folder of the file it is written in",
    ),
    (
        "workspace: ~/code",
        "workspace.path: no such folder: ~/code\n"
        "hint: `~` and variables are not expanded: write the path out",
    ),
    (
        "add_dirs: [$HOME/x]",
        "add_dirs[0]: no such folder: $HOME/x\n"
        "hint: `~` and variables are not expanded: write the path out",
    ),
    ("workspace: /", "workspace.path: the root of the file system\nhint: name a folder below it"),
    ("add_dirs: [/proc]", "add_dirs[0]: a folder of the kernel\nhint: tools never open it"),
    ("workspace: /dev/shm", "workspace.path: a folder of the kernel\nhint: tools never open it"),
    (
        "workspace: {path: task.yaml}",
        "workspace.path: no such folder: task.yaml\n"
        "hint: a relative path starts at the folder of the file it is written in",
    ),
    # environment
    (
        "env: {pass: [OPENAI_API_KEY]}",
        "env.pass[0]: tools never get OPENAI_API_KEY\n"
        "hint: the runner calls the model: no tool needs its key",
    ),
    *(
        (
            f"env: {{pass: [{name}]}}",
            f"env.pass[0]: tools never get {name}\n"
            "hint: with it the agent could steer the CI job itself",
        )
        for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "ACTIONS_RUNTIME_TOKEN")
    ),
    (
        "env: {pass: [A=1]}",
        'env.pass[0]: "A=1" is not the name of a variable\n'
        "hint: write the name only: no $, no value",
    ),
    (
        "env: {pass: [MY_SECRET_NAME]}\napi_key_env: MY_SECRET_NAME",
        "env.pass[0]: tools never get MY_SECRET_NAME\nhint: it is an `api_key_env`: the runner "
        "itself uses it, and no tool needs its key",
    ),
    (
        "env: {set: {SEEK: x}}\nweb_search: {provider: brave, api_key_env: SEEK}",
        "env.set.SEEK: tools never get SEEK\nhint: it is an `api_key_env`: the runner itself uses "
        "it, and no tool needs its key",
    ),
    (
        "web_search: {provider: gogle}",
        "web_search.provider: expected one of brave, duckduckgo, exa_ai, firecrawl, linkup, "
        "parallel_ai, perplexity, searchapi, searxng, serper, tavily, you_com, got the text "
        '"gogle"',
    ),
    (
        "web_search: {max_results: 3}",
        "web_search.provider: required, but missing\nhint: write one of brave, duckduckgo, exa_ai, "
        "firecrawl, linkup, parallel_ai, perplexity, searchapi, searxng, serper, tavily, you_com",
    ),
    (
        "web_search: {provider: brave, max_results: 50}",
        "web_search.max_results: 50 is more than the most, 20",
    ),
    ("env: {set: {A B: x}}", "env.set.A B: not the name of a variable"),
    ("env: {set: {A: 5}}", 'env.set.A: expected text, got 5\nhint: quote it: "5"'),
    ("env: {set: {A: true}}", 'env.set.A: expected text, got true\nhint: quote it: "true"'),
    # keys in other places, keys of other tools
    (
        "isolation: copy",
        "isolation: unknown key\nhint: `isolation` is `workspace.isolation`",
    ),
    (
        "limits: {max_turns: 3}",
        "limits.max_turns: unknown key\nhint: `max_turns` belongs to the top level",
    ),
    ("cwd: .", "cwd: unknown key\nhint: did you mean `workspace`?"),
    (
        "mcpServers: {}",
        "mcpServers: unknown key\nhint: did you mean `mcp_servers`?",
    ),
    (
        "agents: {a: {prompt: p}}",
        "agents.a.description: required, but missing\nhint: write text that says when to use it",
    ),
    (
        "agents: {a b: {description: d, prompt: p}}",
        "agents.a b: not a name of letters, digits, `-` and `_`, at most 64",
    ),
    (
        f"agents: {{a: {AGENT}, model: a model}}}}",
        'agents.a.model: "a model" is not a model id\n'
        "hint: write it as litellm does: anthropic/claude-sonnet-4-5",
    ),
    (
        f"agents: {{a: {AGENT}, model: 3}}}}",
        "agents.a.model: expected a model such as anthropic/claude-haiku-4-5, scripted:FILE, or "
        'inherit, got 3\nhint: quote it: "3"',
    ),
    (
        f"agents: {{a: {AGENT}, max_turns: 3}}}}",
        "agents.a.max_turns: unknown key\nhint: did you mean `maxTurns`?",
    ),
    (
        f"agents: {{a: {AGENT}, tools: [Bash(npm *)]}}}}",
        'agents.a.tools[0]: "Bash(npm *)" is a rule, and this is a list of tools\n'
        "hint: name the whole tool: Bash",
    ),
    (
        f"agents: {{a: {AGENT}, tools: [mcp__a__b(x)]}}}}",
        'agents.a.tools[0]: "mcp__a__b(x)" is no name\n'
        "hint: for example mcp__docs for all of a server, or mcp__docs__search",
    ),
    (
        f"agents: {{a: {AGENT}, disallowedTools: [Reed]}}}}",
        'agents.a.disallowedTools[0]: no tool is called "Reed"\nhint: did you mean Read?',
    ),
    (
        f"agents: {{a: {AGENT}, skills: [./x]}}}}",
        'agents.a.skills[0]: "./x" is not the name of a skill\n'
        "hint: a skill that lies elsewhere is listed by its path in the task's `skills`",
    ),
    ("zzz: 1", "zzz: unknown key"),
    ("retry: {zzz: 1}", "retry.zzz: unknown key\nhint: the keys here are max_attempts, max_wait"),
    ("retry: 5", "retry: expected a map, got 5"),
    (
        "pricing: {input_per_mtok: 1}",
        "pricing.output_per_mtok: required, but missing\nhint: write a number >= 0",
    ),
    (
        "pricing: {m/x: {input_per_mtok: 1}}",
        "pricing.m/x.output_per_mtok: required, but missing\nhint: write a number >= 0",
    ),
    (
        "pricing: {m/x: {input_per_mtok: 1, output_per_mtok: 2, cache_red_per_mtok: 0}}",
        "pricing.m/x.cache_red_per_mtok: unknown key\nhint: did you mean `cache_read_per_mtok`?",
    ),
    (
        "pricing: {m/x: {input_per_mtok: 1, output_per_mtok: 2}, output_per_mtok: 2}",
        "pricing: one price and prices by model are mixed\n"
        "hint: write the price of `model` alone, or every price under the id of its model",
    ),
    (
        'pricing: {"my model": {input_per_mtok: 1, output_per_mtok: 2}}',
        'pricing.my model: "my model" is not a model id\n'
        "hint: write it as litellm does: anthropic/claude-sonnet-4-5",
    ),
]


@pytest.mark.parametrize(("line", "expected"), BAD_VALUES, ids=[bad[0] for bad in BAD_VALUES])
def test_a_bad_value_gets_one_error_that_says_what_to_do(
    tmp_path: Path, line: str, expected: str
) -> None:
    """Exactly one problem is reported, at its line, when one value is wrong."""
    assert problems_of(tmp_path, BASE + line) == [f"task.yaml:4: {expected}"]


@pytest.mark.parametrize("name", ["prompt", "system_prompt", "api_base", "timeout", "tools"])
def test_null_leaves_out_what_may_be_left_out(tmp_path: Path, name: str) -> None:
    """An optional key is as if it were not there when it is null, so that a later file can unset
    what an earlier one set; an empty value is a mistake instead."""
    file = "prompt_file: p.md" if name == "prompt" else "prompt: p"
    (tmp_path / "p.md").write_text("p")
    text = f"name: t\n{file}\nmodel: m/x\n{name}: null"
    assert load(tmp_path, text) == load(tmp_path, BASE)


# -- keys ----------------------------------------------------------------------------------------

DESIGNED = """
name prompt prompt_file inputs inputs.NAME.required inputs.NAME.default inputs.NAME.untrusted model
fallback_models api_base api_key_env effort max_output_tokens system_prompt append_system_prompt
autopilot workspace workspace.path workspace.isolation add_dirs max_turns max_budget_usd
max_autopilot_continues timeout limits limits.start limits.model_idle limits.model_call limits.tool
limits.mcp_start limits.hook limits.shutdown_grace limits.max_tool_output_bytes
limits.max_verify_attempts limits.max_structured_output_retries limits.max_subagent_depth
limits.max_subagents limits.max_resumes limits.min_output_tokens limits.durability resume
resume.on_unknown resume.budget_scope tools
allowed_tools ask_tools disallowed_tools permission_mode auto_mode auto_mode.model
auto_mode.instructions on_denied sandbox
sandbox.mode sandbox.require sandbox.network sandbox.reason sandbox.container env env.pass
env.set secrets verify protected_paths require_changes forbid_changes output_schema mcp_servers
mcp_servers.NAME.type mcp_servers.NAME.command mcp_servers.NAME.args mcp_servers.NAME.env
mcp_servers.NAME.url mcp_servers.NAME.headers mcp_servers.NAME.tools mcp_servers.NAME.required
mcp_servers.NAME.alwaysLoad tool_search web_search
custom_tools custom_tools.NAME.description custom_tools.NAME.input_schema custom_tools.NAME.python
custom_tools.NAME.python_path custom_tools.NAME.command custom_tools.NAME.env
custom_tools.NAME.read_only custom_tools.NAME.timeout
web_search.provider web_search.api_base web_search.api_key_env web_search.max_results
web_search.cost_per_query_usd mcp_servers.NAME.disabled mcp_servers.NAME.timeout
mcp_servers.NAME.sandbox mcp_servers.NAME.sandbox.mode mcp_servers.NAME.sandbox.reason
hooks agents agents.NAME.description agents.NAME.prompt agents.NAME.tools
agents.NAME.disallowedTools agents.NAME.model agents.NAME.effort agents.NAME.maxTurns
agents.NAME.permissionMode agents.NAME.skills agents.NAME.mcpServers agents.NAME.background
agents.NAME.memory agents.NAME.initialPrompt agents.NAME.hooks skills setting_sources
compaction compaction.threshold compaction.enabled
compaction.instructions compaction.window pricing pricing.input_per_mtok
pricing.output_per_mtok pricing.cache_read_per_mtok pricing.cache_write_per_mtok retry
retry.max_attempts retry.max_wait reports reports.summary reports.junit reports.html
reports.patch reports.github extends
"""


def test_every_designed_key_works_or_is_known_as_planned() -> None:
    """No key of the design is merely unknown: each is supported or planned, and never both."""
    works = [row[0] for row in SPEC_KEYS]
    planned = [key for key in planned_keys() if ":" not in key]
    assert sorted(works + planned) == sorted(DESIGNED.split())


def _line_with(key: str) -> str:
    """A spec line that uses a planned key, or a planned value given as `key: value`."""
    path, _, value = key.partition(": ")
    if path.startswith("agents.NAME."):  # which has keys that it cannot be without
        return f"agents: {{x: {AGENT}, {path.removeprefix('agents.NAME.')}: {value or '1'}}}}}"
    for name in reversed(path.replace("NAME", "x").split(".")):
        value = f"{{{name}: {value or '1'}}}"
    return value[1:-1]


@pytest.mark.parametrize("key", planned_keys())
def test_a_planned_key_is_refused_by_name(tmp_path: Path, key: str) -> None:
    """One error says so, with a hint, when a planned key is used: never silence."""
    [problem] = problems_of(tmp_path, BASE + _line_with(key))
    first, hint = problem.split("\n")
    path, _, value = key.replace("NAME", "x").partition(": ")
    said = f"{value} is not supported yet" if value else "not supported yet"
    assert (first, hint[:6]) == (f"task.yaml:4: {path}: {said}", "hint: ")


def test_replay_models_are_planned_and_scripted_ones_need_their_file(tmp_path: Path) -> None:
    """The model's line is named when its scheme does not work or its file is missing."""
    for model, message in [
        (
            "replay:abc",
            "replay: models are not supported yet\nhint: use a litellm id, or scripted:FILE",
        ),
        ("'scripted:'", "scripted: without a file\nhint: write scripted:replies.yaml"),
        (
            "scripted:no.yaml",
            "no such file: no.yaml\n"
            "hint: a relative path starts at the folder of the file it is written in",
        ),
        (
            "my model",
            '"my model" is not a model id\n'
            "hint: write it as litellm does: anthropic/claude-sonnet-4-5",
        ),
    ]:
        text = f"name: t\nprompt: p\nmodel: {model}"
        assert problems_of(tmp_path, text) == [f"task.yaml:3: model: {message}"]


SECRET = "sk-ant-api03-Zm9vYmFyYmF6cXV4"


@pytest.mark.parametrize(
    ("line", "overrides"),
    [
        (f"api_key: {SECRET}", ()),
        (f"openai_api_key: {SECRET}", ()),
        (f"api_key_env: {SECRET}", ()),
        ("api_key_env: 4f9c81d2e0b7436fa5d1c0e9b8a7f6e5", ()),
        (f"env: {{set: {{X: {SECRET}}}}}", ()),
        (f"limits: {{api-key: {SECRET}}}", ()),
        (f"max_turns: {SECRET}", ()),
        (f"permission_mode: {SECRET}", ()),
        (f"tools: [{SECRET}]", ()),
        ("", (f"api_key={SECRET}",)),
        ("", (f"api_key_env={SECRET}",)),
        ("", (Override(source="--model", path="model", value=SECRET),)),
    ],
)
def test_a_key_in_a_spec_is_an_error_that_does_not_show_it(
    tmp_path: Path, line: str, overrides: Sequence[str | Override]
) -> None:
    """There is one problem and the value is nowhere in it when a key stands in a spec."""
    [problem] = problems_of(tmp_path, BASE + line, overrides=overrides)
    assert (SECRET in problem, "4f9c81d2" in problem) == (False, False)


# -- texts and inputs ----------------------------------------------------------------------------


def test_the_prompt_is_one_text_or_one_file(tmp_path: Path) -> None:
    """Both together are refused, and so is a file that is missing, empty, a folder, or no text."""
    (tmp_path / "empty.md").write_text(" \n")
    (tmp_path / "binary.md").write_bytes(b"a\0b")
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    (tmp_path / "large.md").write_text("x" * (1024 * 1024 + 1))
    (tmp_path / "p.md").write_text("p")
    place = "hint: a relative path starts at the folder of the file it is written in"
    for file, message in [
        ("no.md", f"no such file: no.md\n{place}"),
        (".", f"no such file: {tmp_path}\n{place}"),
        ("/dev/zero", f"no such file: /dev/zero\n{place}"),
        ("empty.md", "empty.md is empty"),
        ("binary.md", "binary.md is not text: it holds a NUL byte"),
        ("latin.md", "latin.md is not valid UTF-8"),
        ("large.md", "large.md is larger than 1024 KiB"),
    ]:
        text = f"name: t\nmodel: m/x\nprompt_file: {file}"
        assert problems_of(tmp_path, text) == [f"task.yaml:3: prompt_file: {message}"]
    assert problems_of(tmp_path, BASE + "prompt_file: p.md") == [
        "task.yaml:4: prompt_file: there is a `prompt` already\nhint: keep one of the two"
    ]


def test_standard_input_is_read_only_when_it_is_asked_for(tmp_path: Path) -> None:
    """`-` as prompt file or as spec reads it, once; both together are an error."""
    text = "name: t\nmodel: m/x\nprompt_file: '-'"
    assert load(tmp_path, text, stdin=lambda: "from stdin").prompt == "from stdin"
    assert load_spec(Path("-"), stdin=lambda: BASE, cwd=tmp_path) == load(tmp_path, BASE)
    with pytest.raises(SpecError) as caught:
        load_spec(Path("-"), stdin=lambda: text, cwd=tmp_path)
    assert [str(problem) for problem in caught.value.problems] == [
        "<stdin>:3: prompt_file: standard input was read already: as the spec\n"
        "hint: write the prompt into the spec, or give the spec as a file"
    ]


def test_a_pipe_is_read_to_its_end_and_stands_in_the_current_folder(tmp_path: Path) -> None:
    """A spec from a pipe is a spec, whose relative paths mean the current folder, as with `-`."""
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "task.yaml")
    writer = threading.Thread(target=(tmp_path / "pipes" / "task.yaml").write_text, args=(BASE,))
    writer.start()
    spec = load_spec(Path("pipes/task.yaml"), stdin=no_stdin, cwd=tmp_path)
    writer.join()
    assert spec == load(tmp_path, BASE)


def test_a_pipe_with_a_slow_writer_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that is there may take its time, longer than one that never comes may."""
    monkeypatch.setattr(texts, "WRITER_MS", 20)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # lets the writer open it
    slow = "import sys, time; time.sleep(0.2); print('do'); sys.stdout.flush(); time.sleep(0.2)"
    with (tmp_path / "pipe").open("w") as pipe:
        writer = subprocess.Popen([sys.executable, "-c", f"{slow}; print('it')"], stdout=pipe)
    try:
        spec = load(tmp_path, "name: t\nmodel: m/x\nprompt_file: pipe")
    finally:
        writer.wait()
        os.close(reader)
    assert spec.prompt == "do\nit\n"


def test_a_pipe_that_nobody_writes_to_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading ends, with the pipe named, when no writer ever comes: for a spec and for a text."""
    monkeypatch.setattr(texts, "WRITER_MS", 20)
    os.mkfifo(tmp_path / "pipe")
    message = "is a pipe that nobody wrote to for 0.02 s"
    assert problems_of(tmp_path, "name: t\nmodel: m/x\nprompt_file: pipe") == [
        f"task.yaml:3: prompt_file: pipe {message}"
    ]
    with pytest.raises(SpecError) as caught:
        load_spec(Path("pipe"), stdin=no_stdin, cwd=tmp_path)
    assert str(caught.value) == f"pipe: the file {message}"


def test_placeholders_are_replaced_exactly_once(tmp_path: Path) -> None:
    """What an input brings is text, whatever it looks like, and other braces are left alone."""
    text = """name: t
model: m/x
inputs: {a: {}, b: {default: "{{ inputs.a }}"}, my-file: {required: true}}
prompt: >-
  [{{ inputs.a }}] [{{inputs.b}}] [{{  inputs.my-file  }}] {{ other }} {{ "{{" }} inputs.a }}
"""
    given = {"a": "{{ inputs.b }} \\1 $x", "my-file": "@in.txt"}
    (tmp_path / "in.txt").write_bytes(b"\xef\xbb\xbf{{ inputs.nope }}\r\n")
    assert load(tmp_path, text, inputs=given).prompt == (
        "[{{ inputs.b }} \\1 $x] [{{ inputs.a }}] [{{ inputs.nope }}\r\n] {{ other }} "
        "{{ inputs.a }}"
    )
    assert load(tmp_path, text, inputs={"my-file": "@@in.txt"}).prompt == (
        "[] [{{ inputs.a }}] [@in.txt] {{ other }} {{ inputs.a }}"
    )


def test_wrong_inputs_are_errors_with_their_line(tmp_path: Path) -> None:
    """Undeclared, missing, contradictory and unreadable inputs are all reported at once."""
    (tmp_path / "more.md").write_text("one\ntwo {{ inputs.dif }}\n")
    text = """name: t
model: m/x
inputs:
  diff: {required: true}
  focus: {}
  both: {required: true, default: x}
prompt: |
  one
  {{ inputs.focsu }}
  {{ inputs.diff.x }}
append_system_prompt: {file: more.md}
"""
    given = {"foucs": "x", "focus": "@no.txt"}
    assert problems_of(tmp_path, text, inputs=given) == [
        "task.yaml:6: inputs.both: required, and with a default\n"
        "hint: an input with a default is never missing: remove one of the two",
        "task.yaml:9: prompt: the input focsu is not declared\nhint: did you mean focus?",
        'task.yaml:10: prompt: "{{ inputs.diff.x }}" is no placeholder\n'
        'hint: write {{ inputs.NAME }}; a literal {{ is written {{ "{{" }}',
        "more.md:2: append_system_prompt: the input dif is not declared\nhint: did you mean diff?",
        "--input focus: inputs.focus: no.txt cannot be read: No such file or directory\n"
        "hint: a value that starts with @ names a file; write @@ for a literal @",
        "--input foucs: inputs.foucs: not an input of this spec\nhint: did you mean focus?",
    ]
    assert problems_of(tmp_path, text.replace("  both: {required: true, default: x}\n", "")) == [
        "task.yaml:4: inputs.diff: required, but not given\n"
        "hint: add --input diff=TEXT or --input diff=@FILE",
        "task.yaml:8: prompt: the input focsu is not declared\nhint: did you mean focus?",
        'task.yaml:9: prompt: "{{ inputs.diff.x }}" is no placeholder\n'
        'hint: write {{ inputs.NAME }}; a literal {{ is written {{ "{{" }}',
        "more.md:2: append_system_prompt: the input dif is not declared\nhint: did you mean diff?",
    ]


def test_validation_does_not_demand_inputs(tmp_path: Path) -> None:
    """A required input stays required, and its placeholder stays, when none are demanded."""
    text = "name: t\nmodel: m/x\ninputs: {d: {required: true}}\nprompt: see {{ inputs.d }}"
    spec = load(tmp_path, text, demand_inputs=False)
    assert (spec.prompt, spec.inputs) == ("see {{ inputs.d }}", {"d": InputSpec(required=True)})


# -- layers --------------------------------------------------------------------------------------


def test_later_layers_win_maps_merge_and_lists_replace(tmp_path: Path) -> None:
    """The spec wins over what it extends, and the command line over both, key by key."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "p.md").write_text("from the include")
    (tmp_path / "sub" / "a.yaml").write_text(
        "limits: {tool: 1m, model_call: 1m}\ntools: [Read, Bash]\nmax_turns: 1\nprompt: a\n"
        "workspace: {isolation: copy}\n"
    )
    (tmp_path / "sub" / "b.yaml").write_text(
        "limits: {tool: 2m}\nprompt_file: p.md\ntimeout: 5m\nadd_dirs: [.]\n"
    )
    text = "name: t\nmodel: m/x\nextends: [sub/a.yaml, sub/b.yaml]\ntools: [Grep]\nworkspace: ."
    spec = load(tmp_path, text, overrides=["limits.tool=3m", "timeout=null", "name=u"])
    assert spec == TaskSpec(
        name="u",
        model="m/x",
        prompt="from the include",
        limits=LimitsSpec(tool=180.0, model_call=60.0),
        tools=("Grep",),
        max_turns=1,
        add_dirs=(f"{tmp_path}/sub",),
        workspace=WorkspaceSpec(path=str(tmp_path), isolation="copy"),
    )


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    """The include, its line and its own mistakes are named; an include cannot extend."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yaml").write_text("max_turns: 0\nextends: b.yaml\nmax_turn: 1\n")
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "broken.yaml").write_text("a: [\n")
    text = BASE + (
        "extends:\n  - sub/a.yaml\n  - list.yaml\n  - broken.yaml\n  - no.yaml\n"
        "  - builtin:edits\n  - builtin:../tasks/quickstart\n  - 5\n"
    )
    where = "hint: a path starts at the folder of this file; builtin:NAME is one that ships with us"
    assert problems_of(tmp_path, text) == [
        f"task.yaml:8: extends[3]: no.yaml cannot be read: No such file or directory\n{where}",
        'task.yaml:9: extends[4]: nothing is built in as "edits"\nhint: did you mean builtin:edit?',
        'task.yaml:10: extends[5]: nothing is built in as "../tasks/quickstart"\n'
        "hint: there are ci, edit, read-only",
        "task.yaml:11: extends[6]: expected the path of a file, builtin:NAME, or a list of them, "
        'got 5\nhint: quote it: "5"',
        "broken.yaml:2: not valid YAML: the text ends inside a value\n"
        "hint: close the quote or the bracket",
        "list.yaml:1: the top level must be a map\nhint: write `key: value` lines",
        "sub/a.yaml:1: max_turns: expected a whole number >= 1, got 0",
        "sub/a.yaml:2: extends: an included file may not extend another\n"
        "hint: includes are one level deep: list all of them in the spec itself",
        "sub/a.yaml:3: max_turn: unknown key\nhint: did you mean `max_turns`?",
    ]


def test_overrides_are_read_as_values_and_named_as_typed(tmp_path: Path) -> None:
    """The right side is one YAML value to its end, and a mistake in it names the flag."""
    spec = load(
        tmp_path,
        BASE,
        overrides=[
            "prompt=Fix: the bug #3 & *more*",
            'tools=[Read, "Bash"]',
            "env.set={A: no}",
            "env.set.B=x=y",
            "max_budget_usd=1e-3",
            "workspace.isolation=copy",
            Override(source="--max-turns", path="max_turns", value="2"),
        ],
    )
    assert spec == TaskSpec(
        name="t",
        prompt="Fix: the bug #3 & *more*",
        model="m/x",
        tools=("Read", "Bash"),
        env=EnvSpec(set={"A": "no", "B": "x=y"}),
        max_budget_usd=Decimal("0.001"),
        workspace=WorkspaceSpec(path=str(tmp_path), isolation="copy"),
        max_turns=2,
    )
    wrong: list[str | Override] = [
        "max_turn=1",
        "nonsense",
        "a..b=1",
        "limits.tool=",
        "limits=5",
        "tools=[Read",
        "max_turns=010",
        "extends=x.yaml",
        "workspace=no",
        Override(source="--timeout", path="timeout", value="90"),
        Override(source="--max-budget-usd", path="max_budget_usd", value="free"),
    ]
    assert problems_of(tmp_path, BASE, overrides=wrong) == [
        "--set nonsense: not of the form key=value\nhint: write it like --set limits.tool=10m",
        "--set a..b=1: not of the form key=value\nhint: write it like --set limits.tool=10m",
        "--set tools=[Read: tools: not valid YAML: the text ends inside a value\n"
        "hint: close the quote or the bracket",
        '--set max_turns=010: max_turns: "010" starts with 0: versions of YAML read it differently'
        '\nhint: write 10, or "010" in quotes if it is text',
        "--set extends=x.yaml: extends: cannot be set here\nhint: write it into the spec",
        "--set max_turn=1: max_turn: unknown key\nhint: did you mean `max_turns`?",
        "--set limits=5: limits: expected a map, got 5",
        "--set workspace=no: workspace.path: no such folder: no\n"
        "hint: on the command line a relative path starts at the current folder",
        "--timeout 90: timeout: expected a duration such as 30m, 90s or 1h30m, got 90\n"
        "hint: add a unit: 90s for seconds, 90m for minutes",
        '--max-budget-usd free: max_budget_usd: expected a number > 0, got the text "free"',
    ]


def test_a_missing_spec_is_one_clear_error(tmp_path: Path) -> None:
    """The file as typed, the reason and a close name are given when there is no such spec."""
    (tmp_path / "task.yaml").write_text(BASE)
    with pytest.raises(SpecError) as caught:
        load_spec(Path("taks.yaml"), stdin=no_stdin, cwd=tmp_path)
    assert caught.value.problems == (
        Problem(
            file="taks.yaml",
            line=None,
            column=None,
            path="",
            message="the file cannot be read: No such file or directory",
            hint=f"did you mean {tmp_path}/task.yaml?",
        ),
    )


def test_what_is_no_task_at_all_is_one_clear_error(tmp_path: Path) -> None:
    """A list, an empty standard input, a path beyond all limits and a spec in the root folder are
    named for what they are."""
    assert problems_of(tmp_path, "- name: t") == [
        "task.yaml:1: the top level must be a map\nhint: write `key: value` lines"
    ]
    text = "name: t\nmodel: m/x\nprompt_file: '-'"
    assert problems_of(tmp_path, text, stdin=str) == [
        "task.yaml:3: prompt_file: standard input is empty\nhint: pipe the task in"
    ]
    assert problems_of(tmp_path, text, stdin=lambda: "\udcff") == [
        "task.yaml:3: prompt_file: standard input is not UTF-8 text"
    ]
    long = "x" * 5_000
    assert problems_of(tmp_path, f"{BASE}workspace: {long}") == [
        f"task.yaml:4: workspace.path: no such folder: {long}\n"
        "hint: a relative path starts at the folder of the file it is written in"
    ]
    with pytest.raises(SpecError) as caught:
        load_spec(Path("-"), stdin=lambda: BASE, cwd=Path("/"))
    assert [str(problem) for problem in caught.value.problems] == [
        "<stdin>:1: workspace: the root of the file system\n"
        "hint: the default is the folder of the spec: name another one"
    ]


def test_the_hash_changes_with_the_spec_and_with_nothing_else(tmp_path: Path) -> None:
    """Two files with the same meaning have one hash, and any other value has another."""
    same = load(tmp_path, "{model: m/x, prompt: p, 'name': t}")
    other = load(tmp_path, BASE + "max_turns: 1")
    first = spec_hash(load(tmp_path, BASE))
    assert (spec_hash(same), spec_hash(other) == first, len(first)) == (first, False, 64)


def test_loading_imports_neither_models_nor_validators() -> None:
    """Loading a spec stays quick: none of the slow libraries is imported for it."""
    code = (
        "import sys; from pathlib import Path; from runner.adapters.specfile import load_spec; "
        "load_spec(Path('configs/tasks/fix-tests.yaml'), stdin=str); "
        "print([m for m in ('litellm', 'mcp', 'pydantic', 'jsonschema') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
