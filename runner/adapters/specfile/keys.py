"""The keys of a spec: the type, the meaning and an example of each.

Rules of this file: defaults are those of the dataclasses in `core.spec` and stand nowhere else;
a planned key becomes a `Key` here when its feature works, never earlier.
"""

from __future__ import annotations

from decimal import Decimal

from runner.adapters.specfile.shapes import (
    FileOrStdin,
    Includes,
    Key,
    ListOf,
    MapOf,
    Record,
    TextOrFile,
)
from runner.adapters.specfile.types import (
    Choice,
    Duration,
    ExistingPath,
    Flag,
    Money,
    Reader,
    Refusal,
    Text,
    Whole,
)
from runner.adapters.specfile.words import (
    PLANNED,
    PLANNED_LIMITS,
    SLUG,
    VARIABLE,
    ModelName,
    ToolName,
    ToolRule,
    key_variable,
    passed_variable,
    set_value,
    slug,
    url,
)
from runner.core.spec import (
    EnvSpec,
    InputSpec,
    LimitsSpec,
    PricingSpec,
    ResumeSpec,
    RetrySpec,
    TaskSpec,
    VerifySpec,
    WorkspaceSpec,
)


def _key(name: str, reader: Reader, means: str, example: object, field: str = "") -> Key:
    return Key(name=name, reader=reader, means=means, example=example, field=field)


def _input_refusal(spec: InputSpec) -> Refusal | None:
    if spec.required and spec.default is not None:
        hint = "an input with a default is never missing: remove one of the two"
        return "required, and with a default", hint
    return None


_INPUT = Record(
    cls=InputSpec,
    keys=(
        _key("required", Flag(), "The run is refused unless it is given.", True),
        _key("default", Text(body=True, empty=True), "Its value when it is not given.", "pytest"),
    ),
    planned={"untrusted": "remove it, and tell the model in the prompt what is data"},
    check=_input_refusal,
    expects="a map such as {required: true} or {default: text}",
)

_WORKSPACE = Record(
    cls=WorkspaceSpec,
    keys=(
        _key("path", ExistingPath(kind="folder"), "The folder tools work in.", "../service"),
        _key(
            "isolation",
            Choice(options=("none", "copy"), planned=("worktree",)),
            "`copy` lets tools work in a copy and leaves the original untouched.",
            "copy",
        ),
    ),
    expects="the path of a folder, or {path, isolation}",
    shorthand="path",
)

_LIMITS = Record(
    cls=LimitsSpec,
    keys=(
        _key("start", Duration(), "Longest start-up: checks, copy and snapshot.", "5m"),
        _key("model_idle", Duration(), "Longest silence inside a model's reply.", "5m"),
        _key("model_call", Duration(), "Longest model call as a whole.", "20m"),
        _key("tool", Duration(), "Longest tool call.", "15m"),
        _key("shutdown_grace", Duration(), "Time to clean up after a stop.", "15s"),
        _key(
            "max_tool_output_bytes",
            Whole(minimum=1_000),
            "Bytes of a tool's output that the model gets; the whole of it is kept on disk.",
            60_000,
        ),
        _key(
            "max_verify_attempts",
            Whole(minimum=1),
            "How often the checks of `verify` may fail before the run ends.",
            5,
        ),
        _key(
            "max_resumes",
            Whole(),
            "How often in a row a killed run may be resumed.",
            10,
        ),
        _key(
            "min_output_tokens",
            Whole(minimum=1),
            "A call that the budget leaves fewer output tokens for is not made.",
            1024,
        ),
        _key(
            "durability",
            Choice(options=("event", "barrier", "off")),
            "When the log is synced to disk: after each event, before each effect, never.",
            "barrier",
        ),
    ),
    planned=PLANNED_LIMITS,
)

_RESUME = Record(
    cls=ResumeSpec,
    keys=(
        _key(
            "on_unknown",
            Choice(options=("tell-model", "stop")),
            "When a kill left a command of unknown outcome: tell the model, or do not go on.",
            "stop",
        ),
        _key(
            "budget_scope",
            Choice(options=("run", "session")),
            "Whether turns and money of earlier, ended runs of the session still count.",
            "session",
        ),
    ),
)

_ENV = Record(
    cls=EnvSpec,
    keys=(
        _key(
            "pass",
            ListOf(
                item=Text(
                    expects="the name of a variable", pattern=f"^{VARIABLE}$", check=passed_variable
                ),
                what="names of variables",
            ),
            "Variables of the runner's environment that tools see too. Never provider keys.",
            ["GH_TOKEN"],
            field="pass_",
        ),
        _key(
            "set",
            MapOf(
                value=Text(body=True, empty=True, check=set_value),
                what="variables to text",
                key_pattern=VARIABLE,
                key_words="the name of a variable",
            ),
            "Variables with these values.",
            {"CI": "true"},
        ),
    ),
)

_VERIFY = Record(
    cls=VerifySpec,
    keys=(
        _key("run", Text(expects="a command", body=True), "The bash command.", "pytest -q"),
        _key("name", Text(), "What it is called in reports; unset: the command.", "tests"),
        _key("timeout", Duration(), "The longest it may take.", "5m"),
    ),
    expects="a command, or {run, name, timeout}",
    shorthand="run",
    required=("run",),
)

_PRICING = Record(
    cls=PricingSpec,
    keys=(
        _key("input_per_mtok", Money(zero=True), "USD for a million input tokens.", 3),
        _key("output_per_mtok", Money(zero=True), "USD for a million output tokens.", 15),
        _key(
            "cache_read_per_mtok",
            Money(zero=True),
            "USD for a million tokens read from the prompt cache.",
            Decimal("0.3"),
        ),
        _key(
            "cache_write_per_mtok",
            Money(zero=True),
            "USD for a million tokens written to the prompt cache.",
            Decimal("3.75"),
        ),
    ),
    required=("input_per_mtok", "output_per_mtok"),
)

_RETRY = Record(
    cls=RetrySpec,
    keys=(
        _key("max_attempts", Whole(minimum=1, maximum=1_000), "Attempts in all; 1 is none.", 8),
        _key("max_wait", Duration(), "The longest wait between two attempts.", "2m"),
    ),
)

_TOOL_LIST = ListOf(item=ToolName(), what="names of tools")
_RULE_LIST = ListOf(item=ToolRule(), what="rules")

TASK = Record(
    cls=TaskSpec,
    keys=(
        _key(
            "name",
            Text(expects="a name such as fix-tests", pattern=f"^{SLUG}$", check=slug),
            "Names the task in reports.",
            "fix-tests",
        ),
        _key(
            "prompt",
            Text(expects="the task in words", body=True),
            "The task. `{{ inputs.x }}` is replaced by the input x. This or `prompt_file`.",
            "Make the tests pass.",
        ),
        _key(
            "prompt_file",
            FileOrStdin(),
            "The file that holds the task; `-` reads standard input.",
            "prompts/fix.md",
        ),
        _key(
            "inputs",
            MapOf(
                value=_INPUT,
                what="inputs by name",
                key_pattern=r"[A-Za-z_][A-Za-z0-9_-]*",
                key_words="the name of an input: letters, digits, `_` and `-`",
            ),
            "The inputs that `--input NAME=TEXT` or `--input NAME=@FILE` may give.",
            {"test_command": {"default": "pytest -q"}},
        ),
        _key(
            "model",
            ModelName(),
            "A litellm id, or `scripted:FILE` for replies from a file.",
            "anthropic/claude-sonnet-4-5",
        ),
        _key(
            "fallback_models",
            ListOf(item=ModelName(), what="models"),
            "Models to go on with, in order, when one is overloaded or unavailable.",
            ["anthropic/claude-haiku-4-5"],
        ),
        _key(
            "api_base",
            Text(expects="a URL", pattern="^https?://", check=url),
            "The endpoint, when it is not the provider's own.",
            "http://localhost:8000/v1",
        ),
        _key(
            "api_key_env",
            Text(expects="the name of a variable", pattern=f"^{VARIABLE}$", check=key_variable),
            "The name of the variable that holds the key. Never the key.",
            "ANTHROPIC_API_KEY",
        ),
        _key("max_output_tokens", Whole(minimum=1), "Most output tokens of one call.", 16_000),
        _key("system_prompt", TextOrFile(), "Replaces the system prompt.", {"file": "sys.md"}),
        _key(
            "append_system_prompt",
            TextOrFile(),
            "Stands after the system prompt.",
            "Answer in French.",
        ),
        _key(
            "setting_sources",
            ListOf(item=Choice(options=("project",), planned=("user", "local")), what="sources"),
            "Whose instruction files load (CLAUDE.md, AGENTS.md). `[]`: none.",
            [],
        ),
        _key(
            "autopilot",
            Flag(),
            "true: work until `task_complete`. false: a reply without tools ends the run.",
            False,
        ),
        _key("workspace", _WORKSPACE, "Where tools work.", {"path": ".", "isolation": "copy"}),
        _key(
            "add_dirs",
            ListOf(item=ExistingPath(kind="folder"), what="paths of folders"),
            "More folders that tools may read and write.",
            ["../common"],
        ),
        _key("max_turns", Whole(minimum=1), "Cap on turns that use tools.", 40),
        _key("max_budget_usd", Money(), "Cap on cost, in US dollars. Never exceeded.", 2),
        _key(
            "max_autopilot_continues",
            Whole(),
            "How often the model is told to go on when it stops early.",
            2,
        ),
        _key("timeout", Duration(), "Wall clock for the whole run.", "30m"),
        _key("limits", _LIMITS, "The finer limits.", {"tool": "15m"}),
        _key("resume", _RESUME, "What a resumed run does.", {"on_unknown": "stop"}),
        _key("tools", _TOOL_LIST, "The tools there are; unset: all.", ["Read", "Grep"]),
        _key("allowed_tools", _RULE_LIST, "Rules for what may run.", ["Bash(npm run *)"]),
        _key(
            "disallowed_tools",
            _RULE_LIST,
            "Rules for what may not, in every mode. A whole tool is taken away.",
            ["Bash", "Read(**/.env)"],
        ),
        _key(
            "ask_tools",
            _RULE_LIST,
            "Rules for what a person would be asked about. Nobody is there: it is denied.",
            ["Bash(git push *)"],
        ),
        _key(
            "permission_mode",
            Choice(
                options=("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"),
                planned=("auto",),
            ),
            "What may run without a rule: reading; edits too; reading alone, whatever the rules; "
            "nothing; everything.",
            "acceptEdits",
        ),
        _key(
            "on_denied",
            Choice(options=("report", "fail")),
            "`fail`: a run in which a call was denied is no success.",
            "fail",
        ),
        _key(
            "verify",
            ListOf(item=_VERIFY, what="commands"),
            "Commands that must exit with 0 before the task counts as done. The runner runs them "
            "in the workspace, and what fails goes back to the model.",
            ["pytest -q", {"run": "npm test", "name": "web", "timeout": "5m"}],
        ),
        _key("env", _ENV, "What tools see of the environment.", {"pass": ["GH_TOKEN"]}),
        _key(
            "pricing",
            _PRICING,
            "Prices of a model that the price table lacks.",
            {"input_per_mtok": 3, "output_per_mtok": 15},
        ),
        _key("retry", _RETRY, "What a failure that may pass is worth.", {"max_attempts": 8}),
        _key(
            "extends",
            Includes(),
            "Files to start from; later ones win, lists replace. `builtin:NAME` ships with us.",
            "builtin:ci",
        ),
    ),
    required=("name", "model"),
    planned=PLANNED,
)
