"""Which tier a run gets: the best that proves itself, or the reason why that does not do."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from runner.adapters.sandbox import advice, bubblewrap, canaries, landlock, seccomp
from runner.adapters.sandbox.proxy import Proxy
from runner.adapters.sandbox.walls import Enclosure, Walls, nothing_to_remark
from runner.core.events import Canary, Check, SandboxReport
from runner.core.spec import SandboxSpec

Tier = Literal["namespaces", "landlock"]
RANKS: Mapping[str, int] = {"none": 0, "process": 0, "landlock": 1, "namespaces": 2}

ALWAYS = (
    "own session",
    "no core files, and no file above 8 GiB or that fills the disk",
    "no variables but those the spec lets through",
)
NEVER = "memory, and how many processes root starts: give the job a limit"
BY_NAMESPACES = (
    "no writing outside the workspace, add_dirs and a private /tmp",
    "credentials, sockets and sessions cannot be read",
    "no other process is visible or within reach",
    "nothing inside outlives its command or the runner",
    "no capabilities and no new privileges",
)
BY_LANDLOCK = (
    "no writing outside the workspace, add_dirs and $TMPDIR",
    "credentials and sessions cannot be read",
    "the memory and environment of other processes cannot be read",
    "no new privileges",
)
NOT_BY_LANDLOCK = (
    "protected paths: changes are found, not prevented",
    "mode, owner and times of files outside can be changed where their owner may",
    "other processes can be seen",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The tier, how to start commands in it, and the check that the spec gets what it needs.
    `proxy` is open while commands may run."""

    report: SandboxReport
    check: Check
    enclosure: Enclosure | None = None
    proxy: Proxy | None = None


class Unfit(Exception):
    """A tier cannot be had; the message says why and what to do."""


async def choose(
    spec: SandboxSpec,
    walls: Walls,
    folder: Path,
    *,
    env: Mapping[str, str],
    outer: Mapping[str, str],
    remarks: Callable[[], tuple[str, ...]] = nothing_to_remark,
) -> Chosen:
    """Try the tiers the spec leaves, best first.

    `folder` is the session's, closed to commands; `env` is what commands get, `outer` the
    runner's own environment; `remarks` says what the proxy refused.
    """
    if spec.mode == "off":
        return _settled(spec, _process(spec, ()), None)
    ways: Mapping[Tier, Callable[[], Awaitable[tuple[Enclosure, SandboxReport]]]] = {
        "namespaces": lambda: _namespaces(walls, folder, env, outer, remarks),
        "landlock": lambda: _landlock(walls, folder, env, outer),
    }
    skipped: list[str] = []
    for tier, way in ways.items():
        if spec.mode not in ("auto", tier) or RANKS[tier] < RANKS[spec.require or "process"]:
            continue
        try:
            enclosure, report = await way()
        except Unfit as error:
            skipped.append(f"{tier}: {error}")
            continue
        full = replace(report, skipped=tuple(skipped), container=spec.container)
        return _settled(spec, full, enclosure)
    return _settled(spec, _process(spec, tuple(skipped)), None)


async def _namespaces(
    walls: Walls,
    folder: Path,
    env: Mapping[str, str],
    outer: Mapping[str, str],
    remarks: Callable[[], tuple[str, ...]],
) -> tuple[Enclosure, SandboxReport]:
    program = bubblewrap.find_program(outer, walls.writable)
    if program is None:
        problem = "bwrap is not installed"
        raise Unfit(f"{problem}; {advice.namespaces(problem, outer)}")
    _need_filter()
    file = folder / "seccomp.bpf"
    try:
        bubblewrap.write_filter(file)
        enclosure = bubblewrap.Bubblewrap(
            program=program, walls=walls, filter_file=file, remarks=remarks
        )
        found = await canaries.release(enclosure, walls, env=env, outer=outer)
    except (canaries.NoAnswer, OSError) as error:
        raise Unfit(f"{error}; {advice.namespaces(str(error), outer)}") from error
    _judge(found, spare=())
    enforced = [*ALWAYS, *BY_NAMESPACES]
    if walls.read_only:
        enforced.append(f"{len(walls.read_only)} protected paths are read-only")
    unenforced = ["protected paths that are not there yet: found when they appear", NEVER]
    if walls.network == "allow":
        unenforced.append("the network, and services of this machine that listen on it")
    return enclosure, SandboxReport(
        tier="namespaces",
        network=_network(walls),
        enforced=tuple(enforced),
        unenforced=tuple(unenforced),
        canaries=found,
    )


async def _landlock(
    walls: Walls, folder: Path, env: Mapping[str, str], outer: Mapping[str, str]
) -> tuple[Enclosure, SandboxReport]:
    kernel = landlock.version()
    if kernel < landlock.LEAST_VERSION:
        have = f"Landlock {kernel}" if kernel else "no Landlock"
        problem = f"this kernel has {have}, and {landlock.LEAST_VERSION} is needed"
        raise Unfit(f"{problem}; {advice.landlock(problem, outer)}")
    if walls.network == "hosts":
        raise Unfit("it cannot keep commands to a list of hosts; namespaces can")
    _need_filter()
    file = folder / "landlock.json"
    try:
        landlock.write_rules(file, walls, kernel)
        enclosure = landlock.Landlock(walls=walls, rules_file=file)
        found = await canaries.release(enclosure, walls, env=env, outer=outer)
    except (canaries.NoAnswer, OSError) as error:
        raise Unfit(f"{error}; {advice.landlock(str(error), outer)}") from error
    scoped = kernel >= landlock.SCOPED_VERSION
    _judge(found, spare=() if scoped else ("signal the runner",))
    enforced, unenforced = [*ALWAYS, *BY_LANDLOCK], [*NOT_BY_LANDLOCK, NEVER]
    if landlock.has_another_owner(walls):
        enforced.append("no capabilities but one, to write files of another owner in the workspace")
    else:
        enforced.append("no capabilities")
    (enforced if scoped else unenforced).append("no signals to processes outside")
    if walls.network == "allow":
        unenforced.append("the network, and every socket of this machine")
    return enclosure, SandboxReport(
        tier="landlock",
        network=_network(walls),
        enforced=tuple(enforced),
        unenforced=tuple(unenforced),
        canaries=found,
    )


def _need_filter() -> None:
    if sys.platform != "linux" or not seccomp.is_known_machine():
        raise Unfit("there is no filter for this processor; use Linux on x86-64 or ARM64")


def _judge(found: tuple[Canary, ...], *, spare: tuple[str, ...]) -> None:
    broken = [one for one in found if not one.held and one.name not in spare]
    if broken:
        told = "; ".join(f"{one.name}: {one.detail}" for one in broken)
        raise Unfit(f"it does not hold here ({told})")


def _network(walls: Walls) -> str:
    words = {"deny": "denied", "allow": "open", "hosts": "the listed hosts alone"}
    return words[walls.network]


def _process(spec: SandboxSpec, skipped: tuple[str, ...]) -> SandboxReport:
    return SandboxReport(
        tier="process",
        network="open",
        enforced=ALWAYS,
        unenforced=("this is no boundary: commands can do what the runner's user can", NEVER),
        skipped=skipped,
        reason=spec.reason,
        container=spec.container,
    )


def _settled(spec: SandboxSpec, report: SandboxReport, enclosure: Enclosure | None) -> Chosen:
    """Whether that is what the spec needs, as a check."""
    why = "; ".join(report.skipped) or "`sandbox` is off"
    wanted = spec.require or (spec.mode if spec.mode in RANKS else None)
    detail = None
    if wanted and RANKS[report.tier] < RANKS[wanted]:
        detail = f"the spec needs {wanted}, and this machine gives {report.tier} ({why})"
    elif report.tier == "process" and spec.network not in (None, ("allow",)):
        detail = f"no tier here can keep to `sandbox.network` ({why})"
    if detail is not None:
        return Chosen(report=report, check=Check(name="sandbox", ok=False, detail=detail))
    told = f"{report.tier}, network {report.network}"
    if report.tier == "process":
        told = f"process: no boundary ({report.reason or why})"
    check = Check(name="sandbox", ok=True, detail=told)
    return Chosen(report=report, check=check, enclosure=enclosure)
