"""The task spec: every key a user may write, with its default. Parsed elsewhere, trusted here.

Names are the YAML keys. Durations are seconds (`timeout: 30m` is 1800.0). A key is here only
when its feature works; the spec file adapter refuses the planned ones by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Literal

PermissionMode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
Isolation = Literal["none", "copy"]
Durability = Literal["event", "barrier", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """A declared input, used in the prompt as `{{ inputs.name }}`."""

    wire_case: ClassVar = "snake"
    required: bool = False
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSpec:
    """Where tools work; `copy` leaves the original untouched."""

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
    """The price of a model the price table lacks, in USD per million tokens."""

    wire_case: ClassVar = "snake"
    input_per_mtok: Decimal
    output_per_mtok: Decimal
    cache_read_per_mtok: Decimal | None = None
    cache_write_per_mtok: Decimal | None = None


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
class LimitsSpec:
    """The finer limits. Durations are seconds, sizes are bytes."""

    wire_case: ClassVar = "snake"
    start: float = 60.0
    model_idle: float = 120.0
    model_call: float = 600.0
    tool: float = 600.0
    shutdown_grace: float = 8.0
    max_tool_output_bytes: int = 30_000
    max_verify_attempts: int = 3
    max_resumes: int = 3
    min_output_tokens: int = 256
    durability: Durability = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task, resolved: includes merged, overrides applied, files read."""

    wire_case: ClassVar = "snake"
    name: str
    prompt: str
    model: str
    fallback_models: tuple[str, ...] = ()
    inputs: Mapping[str, InputSpec] = field(default_factory=dict)
    api_base: str | None = None
    api_key_env: str | None = None
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
    on_denied: Literal["report", "fail"] = "report"
    verify: tuple[VerifySpec, ...] = ()
    env: EnvSpec = EnvSpec()
    pricing: PricingSpec | None = None
    retry: RetrySpec = RetrySpec()
