"""Facts under `runner.`: the resolved spec, the preflight, the checks, a mended log, the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, ClassVar, Literal

from runner.core.events.skills import SkillListing


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSpec:
    """The resolved spec and its hash, and the fixed sentences the model may be told."""

    type: ClassVar = "runner.spec"
    spec: Mapping[str, Any]
    spec_hash: str
    sentences: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One preflight check and what to do when it failed."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListing:
    """A tool that is offered to the model."""

    name: str
    read_only: bool


McpStatus = Literal["connected", "failed", "needs-auth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpPin:
    """A tool of an MCP server, and the hash of what the server said of it."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpListing:
    """An MCP server as it was before the first request.

    `sandbox` is the tier it runs in, and None for one with an address; `sandbox_reason` is the
    spec's, for one that is kept out of the run's own.
    """

    name: str
    status: McpStatus
    required: bool = False
    error: str | None = None
    version: str | None = None
    sandbox: Literal["namespaces", "landlock", "process"] | None = None
    sandbox_reason: str | None = None
    tools: tuple[McpPin, ...] = ()


def with_status(
    servers: tuple[McpListing, ...], name: str | None, status: McpStatus
) -> tuple[McpListing, ...]:
    """The servers, one of which stands otherwise now."""
    return tuple(replace(one, status=status) if one.name == name else one for one in servers)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceListing:
    """The price a model is charged at, USD per million tokens, and where it comes from."""

    model: str
    basis: Literal["table", "spec"]
    input_per_mtok: Decimal
    output_per_mtok: Decimal
    cache_read_per_mtok: Decimal
    cache_write_per_mtok: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """One attempt to get out of the sandbox, made before the run; `held` says it failed."""

    name: str
    held: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxReport:
    """What stands between commands and the machine, proved and not: in words for people.

    `skipped` says why no better tier was taken. `reason` is the spec's, for none at all.
    """

    tier: Literal["namespaces", "landlock", "process"]
    network: str
    enforced: tuple[str, ...] = ()
    unenforced: tuple[str, ...] = ()
    canaries: tuple[Canary, ...] = ()
    skipped: tuple[str, ...] = ()
    reason: str | None = None
    container: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowListing:
    """How many tokens a model can read, by the spec or by the model table."""

    model: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerPreflight:
    """Everything that was checked and found before the first paid call. `deferred` are those of
    the `tools` that are kept back until the model searches for them."""

    type: ClassVar = "runner.preflight"
    checks: tuple[Check, ...]
    tools: tuple[ToolListing, ...]
    sandbox: str
    workspace: str
    sandbox_report: SandboxReport | None = None
    prices: tuple[PriceListing, ...] = ()
    windows: tuple[WindowListing, ...] = ()
    skills: tuple[SkillListing, ...] = ()
    mcp_servers: tuple[McpListing, ...] = ()
    deferred: tuple[str, ...] = ()
    tool_definitions_bytes: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerVerifyStart:
    """The commands of `verify` are about to run for the `attempt`th time, from 1."""

    type: ClassVar = "runner.verify_start"
    attempt: int
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCheck:
    """How one check ended. `exit_code` is None when it was killed at its time limit; `output`
    is what it said, shortened. A `gate` is no command: it looks at what changed, and is named as
    the error it would be."""

    name: str
    passed: bool
    duration_ms: int
    output: str
    exit_code: int | None = None
    gate: Literal["required_changes_missing", "forbidden_changes"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerVerifyComplete:
    """How the checks ended; none are listed when a stop left no time to run them."""

    type: ClassVar = "runner.verify_complete"
    attempt: int
    passed: bool
    checks: tuple[VerifyCheck, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerProtection:
    """What is protected, as it was when the session began: names (relative to the workspace, or
    absolute) to what is there, and the patterns that a new file must not match.

    What is there is `file MODE SHA256`, or `link TARGET` with what it leads to. `scripts` are the
    names that the checks of `verify` run, `sources` those that the task itself is written in.
    `roots` are the other folders in which git's and the pipeline's files are protected.
    """

    type: ClassVar = "runner.protection"
    entries: Mapping[str, str]
    roots: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedChange:
    """One protected path that is not as it was, and how, in words. `is_check`: a check runs it."""

    path: str
    change: str
    is_check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerProtectionCheck:
    """Everything protected was compared with the start; `skipped` says why it was not."""

    type: ClassVar = "runner.protection_check"
    changes: tuple[ProtectedChange, ...] = ()
    skipped: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOutputCheck:
    """Something was compared with the output schema: what a call gave, or the answer itself.

    `output` is the object when it is valid; `errors` say what does not fit, each with its place.
    """

    type: ClassVar = "runner.output_check"
    valid: bool
    errors: tuple[str, ...] = ()
    output: Mapping[str, Any] | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerLogRecovered:
    """A write was cut short by a kill; its piece was set aside before the log went on."""

    type: ClassVar = "runner.log_recovered"
    offset: int
    torn_bytes: int
    torn_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerResult:
    """The result of the run, the same object as `result.json`."""

    type: ClassVar = "runner.result"
    result: Mapping[str, Any]
