"""Rules that do something else than one might think: wider than they look, or never used."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from runner.core.exposure import exposures
from runner.core.messages import AGENT_TOOL
from runner.core.risky_options import EVALUATORS, RUNNERS, SHELLS
from runner.core.rules import COMMAND_TOOL, PATH_TOOLS, Rule, command_globs, is_exact, names, parse
from runner.core.spec import TaskSpec
from runner.core.subagents import catalog

RUN_ANYTHING: Final = SHELLS.union(
    ("python", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "npm", "npx"),
    ("pnpm", "yarn", "make", "uv", "uvx", "pip", "pipx", "poetry", "docker", "podman", "git"),
    ("go", "cargo", "awk", "gawk", "vim"),
)
"""Programs that run code which their arguments, or files of the workspace, name."""


def advice(spec: TaskSpec) -> tuple[str, ...]:
    """What to know about the rules and the secrets of a spec, one line each."""
    allowed = [parse(text) for text in spec.allowed_tools]
    denied = [parse(text) for text in (*spec.disallowed_tools, *spec.ask_tools)]
    bare = [rule for rule in denied if rule.specifier is None]
    found = [f"`{rule.text}` {why}" for rule in allowed for why in _about(rule)]
    unused = [rule for rule in allowed if any(names(other, rule.tool) for other in bare)]
    found += [f"`{rule.text}` never matches: {rule.tool} is denied as a whole" for rule in unused]
    whole = [rule.tool for rule in allowed if rule.specifier is None]
    shadowed = [r for r in allowed if r.specifier and r.tool in whole]
    found += [f"`{r.text}` adds nothing: {r.tool} is allowed as a whole" for r in shadowed]
    paths = [r for r in denied if r.specifier and r.tool in PATH_TOOLS and r.parameter is None]
    if COMMAND_TOOL in whole and COMMAND_TOOL not in [rule.tool for rule in bare]:
        found += [
            f"`{r.text}` does not bind the commands of `Bash`, which may all run" for r in paths
        ]
    return (*found, *_unknown_agents(spec, [*allowed, *denied]), *exposures(spec))


def _unknown_agents(spec: TaskSpec, found: list[Rule]) -> Iterator[str]:
    """Rules for agents that there are not: a misspelt one denies nothing."""
    known = catalog(spec)
    for rule in found:
        pattern = rule.specifier if rule.tool == AGENT_TOOL else None
        if pattern is not None and not any(fnmatchcase(name, pattern) for name in known):
            yield f"`{rule.text}` never matches: the agents are {', '.join(sorted(known))}"


def _about(rule: Rule) -> Iterator[str]:
    if rule.tool != COMMAND_TOOL or rule.specifier is None or is_exact(rule):
        return
    first = "".join("*" if c is None else c for c in command_globs(rule.specifier)[0])
    program = first.partition("\0")[0]
    if "*" in program:
        yield "is wider than it looks: it covers programs of any name that fits"
    elif program in RUNNERS | EVALUATORS:
        yield f"never matches: `{program}` runs or evaluates its arguments, so no * may stand there"
    elif program in RUN_ANYTHING:
        yield f"is wider than it looks: `{program}` can run any code"
