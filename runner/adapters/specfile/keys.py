"""The keys of a spec: the type, the meaning and an example of each.

Rules of this file: defaults are those of the dataclasses in `core.spec` and stand nowhere else;
a key is added when its feature works, never earlier.
"""

from __future__ import annotations

from runner.adapters.specfile.agent_keys import AGENTS
from runner.adapters.specfile.auto_mode import AUTO_MODE
from runner.adapters.specfile.changes import GLOB, Changes
from runner.adapters.specfile.compaction import COMPACTION
from runner.adapters.specfile.custom_keys import CUSTOM_TOOLS
from runner.adapters.specfile.hook_keys import HookMap
from runner.adapters.specfile.mcp_keys import MCP_SERVERS, TOOL_SEARCH
from runner.adapters.specfile.output_schema import OutputSchema
from runner.adapters.specfile.records import (
    ENV,
    INPUT,
    LIMITS,
    PRICING,
    RESUME,
    RETRY,
    VERIFY,
    WORKSPACE,
    key,
)
from runner.adapters.specfile.reports import REPORTS
from runner.adapters.specfile.sandbox import SANDBOX
from runner.adapters.specfile.shapes import (
    FileOrStdin,
    Includes,
    ListOf,
    MapOf,
    Record,
    TextOrFile,
)
from runner.adapters.specfile.skills import Skills
from runner.adapters.specfile.types import (
    Choice,
    Duration,
    ExistingPath,
    Flag,
    Money,
    Text,
    Whole,
)
from runner.adapters.specfile.web_keys import WEB_SEARCH
from runner.adapters.specfile.words import (
    EFFORTS,
    MODES,
    SLUG,
    VARIABLE,
    ModelName,
    ToolName,
    ToolRule,
    key_variable,
    slug,
    url,
)
from runner.core.spec import (
    TaskSpec,
)

_TOOL_LIST = ListOf(item=ToolName(), what="names of tools")
_ALLOWING = ListOf(item=ToolRule(allows=True), what="rules")
_DENYING = ListOf(item=ToolRule(allows=False), what="rules")
_GLOBS = ListOf(item=GLOB, what="patterns")

TASK = Record(
    cls=TaskSpec,
    keys=(
        key(
            "name",
            Text(expects="a name such as fix-tests", pattern=f"^{SLUG}$", check=slug),
            "Names the task in reports.",
            "fix-tests",
        ),
        key(
            "prompt",
            Text(expects="the task in words", body=True),
            "The task. `{{ inputs.x }}` is replaced by the input x. This or `prompt_file`.",
            "Make the tests pass.",
        ),
        key(
            "prompt_file",
            FileOrStdin(),
            "The file that holds the task; `-` reads standard input.",
            "prompts/fix.md",
        ),
        key(
            "inputs",
            MapOf(
                value=INPUT,
                what="inputs by name",
                key_pattern=r"[A-Za-z_][A-Za-z0-9_-]*",
                key_words="the name of an input: letters, digits, `_` and `-`",
            ),
            "The inputs that `--input NAME=TEXT` or `--input NAME=@FILE` may give.",
            {"test_command": {"default": "pytest -q"}},
        ),
        key(
            "model",
            ModelName(),
            "A litellm id, or `scripted:FILE` for replies from a file.",
            "anthropic/claude-sonnet-4-5",
        ),
        key(
            "fallback_models",
            ListOf(item=ModelName(), what="models"),
            "Models to go on with, in order, when one is overloaded or unavailable.",
            ["anthropic/claude-haiku-4-5"],
        ),
        key(
            "api_base",
            Text(expects="a URL", pattern="^https?://", check=url),
            "The endpoint, when it is not the provider's own.",
            "http://localhost:8000/v1",
        ),
        key(
            "api_key_env",
            Text(expects="the name of a variable", pattern=f"^{VARIABLE}$", check=key_variable),
            "The name of the variable that holds the key. Never the key.",
            "ANTHROPIC_API_KEY",
        ),
        key(
            "effort",
            Choice(options=EFFORTS),
            "How hard the model thinks; unset: its default. What it does not have is said.",
            "high",
        ),
        key("max_output_tokens", Whole(minimum=1), "Most output tokens of one call.", 16_000),
        key("system_prompt", TextOrFile(), "Replaces the system prompt.", {"file": "sys.md"}),
        key(
            "append_system_prompt",
            TextOrFile(),
            "Stands after the system prompt.",
            "Answer in French.",
        ),
        key(
            "setting_sources",
            ListOf(item=Choice(options=("project",), planned=("user", "local")), what="sources"),
            "Whose files load: CLAUDE.md and AGENTS.md, skills, sub-agents. `[]`: nobody's.",
            [],
        ),
        key(
            "autopilot",
            Flag(),
            "true: work until `task_complete`. false: a reply without tools ends the run.",
            False,
        ),
        key("workspace", WORKSPACE, "Where tools work.", {"path": ".", "isolation": "copy"}),
        key(
            "add_dirs",
            ListOf(item=ExistingPath(kind="folder"), what="paths of folders"),
            "More folders that tools may read and write.",
            ["../common"],
        ),
        key("max_turns", Whole(minimum=1), "Cap on turns that use tools.", 40),
        key(
            "max_budget_usd",
            Money(),
            "Cap on cost, in US dollars. A call that could exceed it is not made.",
            2,
        ),
        key(
            "max_autopilot_continues",
            Whole(),
            "How often the model is told to go on when it stops early.",
            2,
        ),
        key("timeout", Duration(), "Wall clock for the whole run.", "30m"),
        key("limits", LIMITS, "The finer limits.", {"tool": "15m"}),
        key("resume", RESUME, "What a resumed run does.", {"on_unknown": "stop"}),
        key("tools", _TOOL_LIST, "The tools there are; unset: all.", ["Read", "Grep"]),
        key("allowed_tools", _ALLOWING, "Rules for what may run.", ["Bash(npm run *)"]),
        key(
            "disallowed_tools",
            _DENYING,
            "Rules for what may not, in every mode. A whole tool is taken away.",
            ["Bash", "Read(**/.env)"],
        ),
        key(
            "ask_tools",
            _DENYING,
            "Rules for what a person would be asked about. Nobody is there: it is denied.",
            ["Bash(git push *)"],
        ),
        key(
            "permission_mode",
            Choice(options=MODES),
            "What may run without a rule: reading; edits too; reading alone, whatever the rules; "
            "nothing; what a model allows; everything.",
            "acceptEdits",
        ),
        key(
            "auto_mode",
            AUTO_MODE,
            "The model that decides in mode auto about calls no rule covers. It is paid like any "
            "other.",
            {"model": "anthropic/claude-haiku-4-5", "instructions": "No network."},
        ),
        key(
            "on_denied",
            Choice(options=("report", "fail")),
            "`fail`: a run in which a call was denied is no success.",
            "fail",
        ),
        key(
            "verify",
            ListOf(item=VERIFY, what="commands"),
            "Commands that must exit with 0 before the task counts as done. The runner runs them "
            "in the workspace, and what fails goes back to the model.",
            ["pytest -q", {"run": "npm test", "name": "web", "timeout": "5m"}],
        ),
        key(
            "protected_paths",
            _GLOBS,
            "Patterns, as in .gitignore, of what the agent may not change; `!pattern` lifts one. "
            "Git's config and hooks, CI workflows, scripts that `verify` runs and the task's own "
            "files always come first. A change ends the run.",
            ["tests/", "conftest.py", "!.github/workflows/"],
        ),
        key(
            "hooks",
            HookMap(),
            "Commands that are told of events, and may deny, change or add. As in Claude Code's "
            "settings, with `fail_closed` besides.",
            {"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": "./check.sh"}]}]},
        ),
        key(
            "mcp_servers",
            MCP_SERVERS,
            "MCP servers by name, as in .mcp.json. Their tools are `mcp__SERVER__TOOL`. `$NAME`, "
            "`${NAME}` and `${NAME:-default}` stand for variables of the runner.",
            {"docs": {"command": "docs-server", "args": ["--read-only"], "required": True}},
        ),
        key(
            "tool_search",
            TOOL_SEARCH,
            "Whether definitions of MCP tools are kept back until the model looks for them with "
            "ToolSearch: `on`, `off`, or `auto`, which does it when they take more than 10 % of "
            "the model's window; `auto:5` names another share.",
            "auto:5",
        ),
        key(
            "custom_tools",
            CUSTOM_TOOLS,
            "Tools of the task's own by name: a Python function, or a command. They need a rule "
            "like any other that may change something.",
            {
                "ticket": {
                    "description": "Reads a ticket.",
                    "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}},
                    "python": "ci_tools:ticket",
                }
            },
        ),
        key(
            "require_changes",
            Changes(),
            "What must have changed before the task counts as done: `true` for anything, or "
            "patterns as in .gitignore, each of which needs a changed file.",
            ["src/", "CHANGELOG.md"],
        ),
        key(
            "forbid_changes",
            Changes(),
            "What must not have changed: `true` for anything, or patterns as in .gitignore; "
            "`!pattern` excepts.",
            ["/*", "!/docs/"],
        ),
        key(
            "output_schema",
            OutputSchema(),
            "The JSON Schema (2020-12 or draft-07) of the answer, or the path of one. The run is "
            "no success without an object that matches it.",
            {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
        ),
        key(
            "sandbox",
            SANDBOX,
            "Where the commands of tools, checks and hooks run, and what they may reach.",
            {"require": "landlock", "network": ["packages.example.com", "*.cdn.example.com"]},
        ),
        key(
            "skills",
            Skills(),
            "The skills there are: `all` those of the checkout, or names and paths of folders. "
            "Only a skill that is listed may allow tools.",
            ["release", "./skills/triage"],
        ),
        key(
            "web_search",
            WEB_SEARCH,
            "Who the tool `WebSearch` asks. Unset: it answers that nobody is configured.",
            {"provider": "brave"},
        ),
        key(
            "agents",
            AGENTS,
            "Sub-agents by name, as Claude's Agent SDKs define them. The tool `Agent` starts them.",
            {"reviewer": {"description": "Reviews a change.", "prompt": "You review code."}},
        ),
        key("env", ENV, "What tools see of the environment.", {"pass": ["GH_TOKEN"]}),
        key(
            "secrets",
            ListOf(
                item=Text(
                    expects="the name of a variable", pattern=f"^{VARIABLE}$", check=key_variable
                ),
                what="names of variables",
            ),
            "Variables whose values are masked wherever they turn up, for the model too. Provider "
            "keys always are.",
            ["GH_TOKEN"],
        ),
        key(
            "pricing",
            PRICING,
            "The price of `model` when the price table lacks it, or prices by model id.",
            {"input_per_mtok": 3, "output_per_mtok": 15},
        ),
        key(
            "compaction",
            COMPACTION,
            "When a conversation that gets too long for the model is summarised.",
            {"threshold": 0.6},
        ),
        key("retry", RETRY, "What a failure that may pass is worth.", {"max_attempts": 8}),
        key(
            "reports",
            REPORTS,
            "Files to write on every ending.",
            {"summary": "out/summary.md", "junit": "out/junit.xml"},
        ),
        key(
            "extends",
            Includes(),
            "Files to start from; later ones win, lists replace. `builtin:NAME` ships with us.",
            "builtin:ci",
        ),
    ),
    required=("name", "model"),
)
