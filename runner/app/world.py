"""What a run is given from outside, and what it gives back."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from runner.adapters.clock import SystemClock
from runner.engine.engine import Ask
from runner.ports import Clock


def _versions() -> Mapping[str, str]:
    names = ("litellm", "tenacity", "pyyaml")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a run takes from its surroundings; tests replace it whole.

    `ask` is there when somebody can be asked about calls that rules leave open; `functions` are the
    tools that the host program brings, by name.
    """

    clock: Clock = field(default_factory=SystemClock)
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    versions: Mapping[str, str] = field(default_factory=_versions)
    ask: Ask | None = None
    functions: Mapping[str, Callable[..., object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Where a run keeps its session, and where copies of its papers go.

    `resume` is the id of the session to go on with; `fork` goes on with a copy of it instead,
    whose id is `session_id`.
    """

    home: Path
    session_id: str | None = None
    resume: str | None = None
    fork: bool = False
    artifacts: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that is over: the object of `result.json`, the exit code, the session's folder.

    `problems` is what went wrong after the ending, when it can change no ending any more;
    `notices` are commands for the CI system, each one line of its log.
    """

    result: dict[str, Any]
    exit_code: int
    folder: Path | None = None
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def with_more(self, problems: Iterable[str], notices: Iterable[str] = ()) -> Finished:
        """The same, and this as well."""
        return replace(
            self,
            problems=(*self.problems, *problems),
            notices=(*self.notices, *notices),
        )
