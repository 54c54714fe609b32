"""Facts under `runner.`: the resolved spec, the preflight, the checks, a mended log, the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Literal


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
class RunnerPreflight:
    """Everything that was checked and found before the first paid call."""

    type: ClassVar = "runner.preflight"
    checks: tuple[Check, ...]
    tools: tuple[ToolListing, ...]
    sandbox: str
    workspace: str
    prices: tuple[PriceListing, ...] = ()
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
    is what it said, shortened."""

    name: str
    passed: bool
    duration_ms: int
    output: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerVerifyComplete:
    """How the checks ended; none are listed when a stop left no time to run them."""

    type: ClassVar = "runner.verify_complete"
    attempt: int
    passed: bool
    checks: tuple[VerifyCheck, ...]


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
