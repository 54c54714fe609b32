"""The nested records of a spec: `inputs`, `workspace`, `limits` and the like."""

from __future__ import annotations

from decimal import Decimal

from runner.adapters.specfile.pricing import Pricing
from runner.adapters.specfile.shapes import (
    Key,
    ListOf,
    MapOf,
    Record,
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
    VARIABLE,
    passed_variable,
    set_value,
)
from runner.core.spec import (
    EnvSpec,
    InputSpec,
    LimitsSpec,
    PricingSpec,
    ResumeSpec,
    RetrySpec,
    VerifySpec,
    WorkspaceSpec,
)


def key(name: str, reader: Reader, means: str, example: object, field: str = "") -> Key:
    """A key of the spec; `field` is its name in the record when it differs."""
    return Key(name=name, reader=reader, means=means, example=example, field=field)


def _input_refusal(spec: InputSpec) -> Refusal | None:
    if spec.required and spec.default is not None:
        hint = "an input with a default is never missing: remove one of the two"
        return "required, and with a default", hint
    return None


INPUT = Record(
    cls=InputSpec,
    keys=(
        key("required", Flag(), "The run is refused unless it is given.", True),
        key("default", Text(body=True, empty=True), "Its value when it is not given.", "pytest"),
        key(
            "untrusted",
            Flag(),
            "Strangers wrote it (a title, an issue): it is cleaned, and fenced off as data.",
            True,
        ),
    ),
    check=_input_refusal,
    expects="a map such as {required: true} or {default: text}",
)

WORKSPACE = Record(
    cls=WorkspaceSpec,
    keys=(
        key("path", ExistingPath(kind="folder"), "The folder tools work in.", "../service"),
        key(
            "isolation",
            Choice(options=("none", "copy", "worktree")),
            "`copy` lets tools work in a copy, `worktree` in a git worktree of the last commit; "
            "both leave the original untouched.",
            "copy",
        ),
    ),
    expects="the path of a folder, or {path, isolation}",
    shorthand="path",
)

LIMITS = Record(
    cls=LimitsSpec,
    keys=(
        key("start", Duration(), "Longest start-up: checks, copy and snapshot.", "5m"),
        key("model_idle", Duration(), "Longest silence inside a model's reply.", "5m"),
        key("model_call", Duration(), "Longest model call as a whole.", "20m"),
        key("tool", Duration(), "Longest tool call.", "15m"),
        key("mcp_start", Duration(), "Longest start of an MCP server.", "1m"),
        key("hook", Duration(), "Longest hook, unless it has a `timeout`.", "30s"),
        key("shutdown_grace", Duration(), "Time to clean up after a stop.", "15s"),
        key(
            "max_tool_output_bytes",
            Whole(minimum=1_000),
            "Bytes of a tool's output that the model gets; the whole of it is kept on disk.",
            60_000,
        ),
        key(
            "max_verify_attempts",
            Whole(minimum=1),
            "How often the checks of `verify` may fail before the run ends.",
            5,
        ),
        key(
            "max_structured_output_retries",
            Whole(minimum=1),
            "How often an answer may fail to match `output_schema`, in all, before the run ends.",
            3,
        ),
        key(
            "max_resumes",
            Whole(),
            "How often in a row a killed run may be resumed.",
            10,
        ),
        key(
            "max_subagent_depth",
            Whole(),
            "How deep sub-agents may be nested; 0: there are none.",
            1,
        ),
        key(
            "max_subagents",
            Whole(),
            "How many sub-agents may be at work at once; 0: there are none.",
            4,
        ),
        key(
            "min_output_tokens",
            Whole(minimum=1),
            "A call that the budget leaves fewer output tokens for is not made.",
            1024,
        ),
        key(
            "durability",
            Choice(options=("event", "barrier", "off")),
            "When the log is synced to disk: after each event, before each effect, never.",
            "barrier",
        ),
    ),
)

RESUME = Record(
    cls=ResumeSpec,
    keys=(
        key(
            "on_unknown",
            Choice(options=("tell-model", "stop")),
            "When a kill left a command of unknown outcome: tell the model, or do not go on.",
            "stop",
        ),
        key(
            "budget_scope",
            Choice(options=("run", "session")),
            "Whether turns and money of earlier, ended runs of the session still count.",
            "session",
        ),
    ),
)

ENV = Record(
    cls=EnvSpec,
    keys=(
        key(
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
        key(
            "set",
            MapOf(
                value=Text(body=True, empty=True, check=set_value),
                what="variables to text",
                key_pattern=VARIABLE,
                key_words="the name of a variable",
                key_check=passed_variable,
            ),
            "Variables with these values.",
            {"CI": "true"},
        ),
    ),
)

VERIFY = Record(
    cls=VerifySpec,
    keys=(
        key("run", Text(expects="a command", body=True), "The bash command.", "pytest -q"),
        key("name", Text(), "What it is called in reports; unset: the command.", "tests"),
        key("timeout", Duration(), "The longest it may take.", "5m"),
    ),
    expects="a command, or {run, name, timeout}",
    shorthand="run",
    required=("run",),
)

PRICING = Pricing(
    cls=PricingSpec,
    keys=(
        key("input_per_mtok", Money(zero=True), "USD for a million input tokens.", 3),
        key("output_per_mtok", Money(zero=True), "USD for a million output tokens.", 15),
        key(
            "cache_read_per_mtok",
            Money(zero=True),
            "USD for a million tokens read from the prompt cache.",
            Decimal("0.3"),
        ),
        key(
            "cache_write_per_mtok",
            Money(zero=True),
            "USD for a million tokens written to the prompt cache.",
            Decimal("3.75"),
        ),
    ),
    required=("input_per_mtok", "output_per_mtok"),
)

RETRY = Record(
    cls=RetrySpec,
    keys=(
        key("max_attempts", Whole(minimum=1, maximum=1_000), "Attempts in all; 1 is none.", 8),
        key("max_wait", Duration(), "The longest wait between two attempts.", "2m"),
    ),
)
