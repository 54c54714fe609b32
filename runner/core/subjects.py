"""What permission rules look at: the command, file, host or name that a call is about."""

from __future__ import annotations

from dataclasses import dataclass

from runner.core.path_patterns import Places
from runner.core.shell import Script


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCall:
    """What a Bash call would run.

    `free` are its words that lead to places inside the roots, `edits` those of them that a mode
    may let a command change, `sensitive` those that lead to paths no mode lets anything change.
    `removes` says which removal in it nobody means, `writes` which redirection leads to where no
    mode lets a command write.
    """

    script: Script
    free: frozenset[str] = frozenset()
    edits: frozenset[str] = frozenset()
    sensitive: frozenset[str] = frozenset()
    removes: str | None = None
    writes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCall:
    """The file or folder a call is about: its absolute path as written, and where that leads.

    `searches` is set when files beneath it are read too.
    """

    paths: tuple[str, ...]
    places: Places
    searches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WebCall:
    """The host and the port a call would reach. The host is a plain name or address."""

    host: str
    port: int = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCall:
    """The sub-agent or the skill a call is about."""

    name: str


Subject = ShellCall | FileCall | WebCall | NamedCall | None
"""What rules with a specifier look at; None for a call that has nothing they know."""
