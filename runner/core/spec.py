"""The task spec: every key a user may write, with its default. Parsed elsewhere, trusted here.

Names are the YAML keys. Durations are seconds (`timeout: 30m` is 1800.0). A key is here only
when its feature works; the spec file adapter refuses the planned ones by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Literal

PermissionMode = Literal["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"]
Isolation = Literal["none", "copy", "worktree"]
Durability = Literal["event", "barrier", "off"]
Effort = Literal["low", "medium", "high", "xhigh", "max"]


EVERYTHING = "**"
"""The pattern that `require_changes: true` and `forbid_changes: true` stand for."""


ALL_SKILLS = ("all",)
"""`skills: all`: every skill of the workspace, none of which allows anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """A declared input, used in the prompt as `{{ inputs.name }}`.

    What is `untrusted` was written by strangers, and is fenced off in the prompt as data.
    """

    wire_case: ClassVar = "snake"
    required: bool = False
    default: str | None = None
    untrusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSpec:
    """Where tools work; `copy` and `worktree` leave the original untouched."""

    wire_case: ClassVar = "snake"
    path: str = "."
    isolation: Isolation = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """What tools see of the environment, on top of the built-in allow-list."""

    wire_case: ClassVar = "snake"
    pass_: tuple[str, ...] = field(default=(), metadata={"wire": "pass"})
    set: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PricingSpec:
    """The price of one model, in USD per million tokens."""

    wire_case: ClassVar = "snake"
    input_per_mtok: Decimal
    output_per_mtok: Decimal
    cache_read_per_mtok: Decimal | None = None
    cache_write_per_mtok: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSpec:
    """When the conversation is summarised: at this share of the model's window.

    `window` is the window of `model` in tokens, where the model table does not know it or less of
    it should be used. `instructions` say what a summary must keep.
    """

    wire_case: ClassVar = "snake"
    threshold: float = 0.8
    enabled: bool = True
    instructions: str | None = None
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySpec:
    """Transient provider failures: attempts in all, and the longest single wait in seconds."""

    wire_case: ClassVar = "snake"
    max_attempts: int = 5
    max_wait: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSpec:
    """What a resumed run does about effects of unknown outcome, and what still counts.

    `budget_scope` run: a run that ended is paid for, a killed one goes on where it was;
    session: everything the session ever spent and counted stays under the caps.
    """

    wire_case: ClassVar = "snake"
    on_unknown: Literal["tell-model", "stop"] = "tell-model"
    budget_scope: Literal["run", "session"] = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySpec:
    """One check: a bash command that has to exit with 0 within `timeout` seconds."""

    wire_case: ClassVar = "snake"
    run: str
    name: str | None = None
    timeout: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoModeSpec:
    """Mode auto: the model that decides about calls no rule covers, and what it should know."""

    wire_case: ClassVar = "snake"
    model: str
    instructions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Where the commands of tools and checks run, and the least that will do.

    `mode` auto takes the best tier that proves itself, a tier's name that one alone, off none.
    `network` is None (denied where the tier can), `("deny",)`, `("allow",)` or the hosts.
    `container` is the spec's word that the job has a container of its own; nobody checks it.
    """

    wire_case: ClassVar = "snake"
    mode: Literal["auto", "namespaces", "landlock", "off"] = "auto"
    require: Literal["namespaces", "landlock"] | None = None
    network: tuple[str, ...] | None = None
    reason: str | None = None
    container: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that may be reached, when the spec lists them."""
        return () if self.network in (None, ("deny",), ("allow",)) else self.network or ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsSpec:
    """Files to write on every ending, as absolute paths; `github` auto: tell the job as well."""

    wire_case: ClassVar = "snake"
    summary: str | None = None
    junit: str | None = None
    html: str | None = None
    patch: str | None = None
    github: Literal["auto", "off"] = "auto"


HookEvent = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "SessionStart",
    "SessionEnd",
    "Notification",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpec:
    """One hook: a bash command, or with `args` a program, that is told of an event as JSON.

    `if_` is a rule: the hook is about the tool calls it means. `timeout` None is `limits.hook`.
    """

    wire_case: ClassVar = "snake"
    command: str
    type: Literal["command"] = "command"
    args: tuple[str, ...] | None = None
    if_: str | None = field(default=None, metadata={"wire": "if"})
    timeout: float | None = None
    fail_closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HookGroup:
    """Hooks with one matcher: of the name of a tool, or of what the event is about."""

    wire_case: ClassVar = "snake"
    hooks: tuple[HookSpec, ...]
    matcher: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSandboxSpec:
    """Where a server that is started here runs: `task` is where commands do, `off` is behind no
    walls, with the reason for it."""

    wire_case: ClassVar = "snake"
    mode: Literal["task", "off"] = "task"
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerSpec:
    """An MCP server: a program that is started here, or an address.

    `tools` are those of its tools that are wanted; None is all. One that is `required` and not
    there is an error before anything is paid; another one is a warning. The tools of one that
    `always_load` are never kept back for a search.
    """

    wire_case: ClassVar = "snake"
    type: Literal["stdio", "http", "sse"] = "stdio"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] | None = None
    required: bool = False
    always_load: bool = field(default=False, metadata={"wire": "alwaysLoad"})
    sandbox: McpSandboxSpec = McpSandboxSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomToolSpec:
    """A tool of the task's own: a Python function or a command; neither is one of a host program.

    `python` is `module:function`, imported from the folder `python_path` or from what is installed;
    `command` is a program and its arguments. `env` are variables that it alone sees. `timeout` None
    is `limits.tool`. `source` is no key: the file and the line where the tool is defined.
    """

    wire_case: ClassVar = "snake"
    description: str
    input_schema: Mapping[str, Any]
    python: str | None = None
    python_path: str | None = None
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False
    timeout: float | None = None
    source: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearchSpec:
    """Who searches the web: a search API that litellm knows, and what a query costs in USD.

    `api_key_env` names the variable with the key; None is the provider's usual one.
    """

    wire_case: ClassVar = "snake"
    provider: str
    api_base: str | None = None
    api_key_env: str | None = None
    max_results: int = 5
    cost_per_query_usd: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """A sub-agent: `description` says when to use it, `prompt` is its system prompt.

    None is what the agent that starts it has: its tools, `model`, `effort`, `permission_mode`, and
    its `max_turns`, which each counts for itself. `skills` are told to it in full. `source` is no
    key: the file it was read from, or nothing for the spec itself.
    """

    wire_case: ClassVar = "camel"
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    model: str | None = None
    effort: Effort | None = None
    max_turns: int | None = None
    permission_mode: PermissionMode | None = None
    skills: tuple[str, ...] = ()
    source: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSpec:
    """The finer limits. Durations are seconds, sizes are bytes.

    `max_subagents` may be open at once, `max_subagent_depth` deep: one that the main agent starts
    is at depth 1.
    """

    wire_case: ClassVar = "snake"
    start: float = 60.0
    model_idle: float = 120.0
    model_call: float = 600.0
    tool: float = 600.0
    mcp_start: float = 30.0
    hook: float = 60.0
    shutdown_grace: float = 8.0
    max_tool_output_bytes: int = 30_000
    max_verify_attempts: int = 3
    max_structured_output_retries: int = 5
    max_resumes: int = 3
    max_subagent_depth: int = 3
    max_subagents: int = 20
    min_output_tokens: int = 256
    durability: Durability = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task, resolved: includes merged, overrides applied, files read.

    `sources` is no key: the files it was read from, as absolute paths.
    """

    wire_case: ClassVar = "snake"
    name: str
    prompt: str
    model: str
    fallback_models: tuple[str, ...] = ()
    inputs: Mapping[str, InputSpec] = field(default_factory=dict)
    api_base: str | None = None
    api_key_env: str | None = None
    effort: Effort | None = None
    max_output_tokens: int = 8192
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    setting_sources: tuple[Literal["project"], ...] = ("project",)
    autopilot: bool = True
    workspace: WorkspaceSpec = WorkspaceSpec()
    add_dirs: tuple[str, ...] = ()
    max_turns: int | None = None
    max_budget_usd: Decimal | None = None
    max_autopilot_continues: int = 5
    timeout: float | None = None
    limits: LimitsSpec = LimitsSpec()
    resume: ResumeSpec = ResumeSpec()
    tools: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    ask_tools: tuple[str, ...] = ()
    permission_mode: PermissionMode = "default"
    auto_mode: AutoModeSpec | None = None
    on_denied: Literal["report", "fail"] = "report"
    verify: tuple[VerifySpec, ...] = ()
    protected_paths: tuple[str, ...] = ()
    require_changes: tuple[str, ...] = ()
    forbid_changes: tuple[str, ...] = ()
    output_schema: Mapping[str, Any] | None = None
    sandbox: SandboxSpec = SandboxSpec()
    hooks: Mapping[str, tuple[HookGroup, ...]] = field(default_factory=dict)
    mcp_servers: Mapping[str, McpServerSpec] = field(default_factory=dict)
    tool_search: str = "auto"
    custom_tools: Mapping[str, CustomToolSpec] = field(default_factory=dict)
    web_search: WebSearchSpec | None = None
    agents: Mapping[str, AgentSpec] = field(default_factory=dict)
    skills: tuple[str, ...] = ALL_SKILLS
    env: EnvSpec = EnvSpec()
    secrets: tuple[str, ...] = ()
    pricing: Mapping[str, PricingSpec] | None = None
    compaction: CompactionSpec = CompactionSpec()
    retry: RetrySpec = RetrySpec()
    reports: ReportsSpec = ReportsSpec()
    sources: tuple[str, ...] = field(default=(), compare=False)
