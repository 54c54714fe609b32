"""Protected paths: what differs from the start of the session, and what that does to a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.core.endings import Ending
from runner.core.events import ProtectedChange, RunnerProtection
from runner.core.state import State
from runner.core.steps import Compare, Step

MAX_NAMED = 20
"""How many changed files an ending names; the log has them all."""


def uncompared(state: State) -> bool:
    """There is something protected, and nobody looked at it since the last effect."""
    return state.protection is not None and state.guarded is None


def compare(_: State) -> Step:
    """Look at everything protected."""
    return Compare()


def differences(start: RunnerProtection, now: Mapping[str, str]) -> tuple[ProtectedChange, ...]:
    """What is not as it was, by name; `now` maps names to what is there, in the same words."""
    return tuple(
        ProtectedChange(path=name, change=how, is_check=name in start.scripts)
        for name, how in _differences(start.entries, now)
    )


def rewritten(
    start: RunnerProtection, before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[ProtectedChange, ...]:
    """What was written between two looks, though it may be the same again."""
    return tuple(
        ProtectedChange(
            path=name,
            change=f"was {'moved' if name.endswith('/') else 'written'} while the checks ran",
            is_check=name in start.scripts
            or (name.endswith("/") and any(one.startswith(name) for one in start.scripts)),
        )
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    )


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in sorted(before.keys() | now.keys()):
        was, there = before.get(name), now.get(name)
        if was is None:
            yield name, "is new"
        elif there is None:
            yield name, "is gone"
        elif was != there:
            yield name, _in_words(was.split(), there.split())


def _in_words(was: list[str], there: list[str]) -> str:
    if was[0] != there[0]:
        return f"was a {was[0]} and is a {there[0]} now"
    if was[0] == "file" and was[2:] == there[2:]:
        return f"had mode {was[1]} and has {there[1]} now"
    return "leads elsewhere now" if was[0] == "link" else "has other content"


def violated(state: State) -> Ending | None:
    """The ending a recorded change asks for; it names what changed."""
    if state.violation is None:
        return None
    changes = state.violation.changes
    told = [f"{one.path} {one.change}" for one in changes[:MAX_NAMED]]
    if len(changes) > MAX_NAMED:
        told.append(f"and {len(changes) - MAX_NAMED} more")
    is_check = any(one.is_check for one in changes)
    what = "A check was changed" if is_check else "A protected path was changed"
    return Ending(
        subtype="error_policy_violation",
        error_type="check_tampered" if is_check else "protected_path_changed",
        message=f"{what}: {'; '.join(told)}. If that is wanted, lift it in `protected_paths`",
    )
