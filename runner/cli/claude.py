"""`autopilot` as a program that Claude's Agent SDKs start: their flags, and no command.

Rules of this file: a flag is honoured, or refused with what to do instead; the few that are
accepted and change nothing stand in `IDLE`, each with the reason.
"""
# ruff: noqa: PLC0415 - see the package's first lines

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.look import HOME_OPTION, FolderPath
from runner.cli.options import Changes, change_options, load, load_or_exit

if TYPE_CHECKING:
    from runner.adapters.specfile import Override
    from runner.core.spec import TaskSpec

BARE_SPEC = "name: session\nautopilot: false\n"
"""The task without `--spec`: as with Claude, a reply without tools is the end of a prompt."""

MARKS = ("--input-format", "--output-format")
"""No command begins with these, so who does means this one."""

IDLE: Mapping[str, str] = {
    "--verbose": "every message is always on the stream",
    "--strict-mcp-config": "servers that nobody named are never started",
}
"""Flags that are accepted and change nothing, and why."""

REFUSED: Mapping[str, str] = {
    "--settings": "write what it holds into the spec",
    "--task-budget": "use --max-budget-usd",
    "--betas": "there is no way to send them",
    "--plugin-dir": "there are no plugins; name hooks, agents and servers in the spec",
    "--session-mirror": "the session is kept under --home",
    "--resume-session-at": "a session goes on from its end",
    "--resume-drops-turn": "a session goes on from its end",
    "--thinking": "use --effort",
    "--thinking-display": "use --effort",
    "--max-thinking-tokens": "use --effort",
}
"""Flags of the SDKs that cannot be honoured, and what to do instead."""


@dataclass(frozen=True, slots=True)
class _Key:
    """What a flag sets: a key of the spec, and how its text becomes that value, as JSON."""

    path: str
    value: Callable[[str], str | None] = json.dumps
    but: str = ""


def _plain(text: str) -> str:
    return text


def _words(text: str) -> str:
    return json.dumps([word for word in (part.strip() for part in text.split(",")) if word])


def _rules(text: str) -> str:
    """Rules are parted by commas and spaces, but not within their parentheses."""
    rules, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth <= 0 and letter in ", ":
            rules.append("")
        else:
            rules[-1] += letter
    return json.dumps([rule for rule in rules if rule])


def _tools(text: str) -> str | None:
    return None if text == "default" else _words(text)


def _unless_empty(text: str) -> str | None:
    """An SDK sends an empty prompt where its user said nothing about one."""
    return json.dumps(text) if text else None


def _file(text: str) -> str:
    return json.dumps({"file": text})


def _servers(text: str) -> str:
    """`{"mcpServers": {..}}`, as JSON or in a file."""
    try:
        told = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
        servers = json.loads(told)["mcpServers"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"--mcp-config: no map of `mcpServers`: {error}") from error
    for name, server in servers.items() if isinstance(servers, dict) else ():
        if isinstance(server, dict) and server.get("type") == "sdk":
            hint = "start it as a program (stdio) or a service (http)"
            text = f"--mcp-config: the server `{name}` lives in the host program"
            raise click.UsageError(f"{text}, which cannot be called: {hint}")
    return json.dumps(servers)


KEYS: Mapping[str, _Key] = {
    "--model": _Key("model"),
    "--fallback-model": _Key("fallback_models", _words),
    "--effort": _Key("effort"),
    "--max-turns": _Key("max_turns", _plain),
    "--max-budget-usd": _Key("max_budget_usd", _plain),
    "--system-prompt": _Key(
        "system_prompt", _unless_empty, but="an empty one changes nothing: SDKs send it unasked"
    ),
    "--system-prompt-file": _Key("system_prompt", _file),
    "--append-system-prompt": _Key("append_system_prompt"),
    "--tools": _Key("tools", _tools, but="`default` changes nothing: all are offered"),
    "--allowedTools": _Key("allowed_tools", _rules),
    "--disallowedTools": _Key("disallowed_tools", _rules),
    "--permission-mode": _Key("permission_mode"),
    "--setting-sources": _Key("setting_sources", _words),
    "--mcp-config": _Key("mcp_servers", _servers),
    "--json-schema": _Key("output_schema", _plain),
}
"""The SDKs' flags for what a spec says too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes(Changes):
    """What an SDK's flags change: the flag, the key, its value as JSON."""

    typed: tuple[tuple[str, str, str], ...]

    def overrides(self) -> list[str | Override]:
        """`--set` first, then the flags."""
        from runner.adapters.specfile import Override

        named = (Override(source=flag, path=key, value=text) for flag, key, text in self.typed)
        return [*self.settings, *named]


def is_meant(arguments: Sequence[str]) -> bool:
    """Whether this command line is one of an SDK."""
    return bool(arguments) and arguments[0].partition("=")[0] in MARKS


def _flags(command: Callable[..., Any]) -> Callable[..., Any]:
    for flag, key in reversed(tuple(KEYS.items())):
        said = f"Sets `{key.path}`" + (f"; {key.but}" if key.but else "") + "."
        command = click.option(flag, _name(flag), metavar="TEXT", help=said)(command)
    for flag, reason in IDLE.items():
        said = f"Nothing changes: {reason}."
        command = click.option(flag, is_flag=True, expose_value=False, help=said)(command)
    for flag, advice in REFUSED.items():
        command = click.option(
            flag,
            f"refused_{_name(flag)}",
            hidden=True,
            expose_value=False,
            callback=_refuse,
            help=advice,
        )(command)
    return command


def _name(flag: str) -> str:
    return flag.strip("-").replace("-", "_").lower()


def _refuse(_context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        flag = option.opts[0]
        raise click.UsageError(f"{flag} is not supported by autopilot: {REFUSED[flag]}")


def _typed(options: dict[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """What the flags set, taken out of the options."""
    given = {flag: options.pop(_name(flag)) for flag in KEYS}
    values = {flag: KEYS[flag].value(text) for flag, text in given.items() if text is not None}
    typed = [(flag, KEYS[flag].path, text) for flag, text in values.items() if text is not None]
    if folders := options.pop("add_dirs"):
        typed.append(("--add-dir", "add_dirs", json.dumps(folders)))
    return tuple(typed)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--input-format", type=click.Choice(["stream-json"]), required=True)
@click.option("--output-format", type=click.Choice(["stream-json"]), required=True)
@click.option(
    "--spec",
    metavar="FILE",
    help="The task that the other flags change. Its prompt is not used. Default: none.",
)
@click.option("--resume", metavar="ID", help="Go on with this session.")
@click.option("--continue", "newest", is_flag=True, help="Go on with the workspace's newest.")
@click.option("--fork-session", "fork", is_flag=True, help="Go on with a copy of the session.")
@click.option("--session-id", metavar="ID", help="The id of the new session. Default: a UUID.")
@click.option(
    "--permission-prompt-tool",
    "asks",
    type=click.Choice(["stdio"]),
    help="Ask the host program about calls that rules leave open (`can_use_tool`).",
)
@click.option("--add-dir", "add_dirs", multiple=True, metavar="FOLDER", help="Sets `add_dirs`.")
@click.option("--include-partial-messages", is_flag=True, help="Replies in pieces, as they come.")
@click.option("--include-hook-events", is_flag=True, help="When hooks start and what they answer.")
@_flags
@change_options
@HOME_OPTION
@click.option("--artifacts", type=FolderPath(file_okay=False), help="See `autopilot run`.")
@click.pass_context
def claude(
    context: click.Context,
    /,
    spec: str | None,
    **options: Any,
) -> None:
    """Serve a program that speaks Claude's protocol on stdin and stdout.

    Meant for `cli_path` of an Agent SDK. User messages are prompts of one session, each with caps
    of its own; closing stdin ends it. The exit code is that of the first prompt that failed.
    """
    from runner.cli.conversation import converse
    from runner.cli.task import session_to_resume

    changes = _Changes(
        inputs=options.pop("inputs"), settings=options.pop("settings"), typed=_typed(options)
    )
    source: dict[str, Any] = {"demand_prompt": False, "stdin": lambda: BARE_SPEC}
    if spec is None and not any(key == "model" for _, key, _ in changes.typed):
        raise click.UsageError("no model: give one with --model, or a task with --spec")
    task = load_or_exit(spec or "-", changes, **source)
    if options["fork"] and options["resume"] is None and not options["newest"]:
        raise click.UsageError("--fork-session needs --resume or --continue")
    options |= {"silent": True, "quiet": True, "log_format": None}
    options["resume"] = session_to_resume(task, options)

    def reload(keys: Mapping[str, Any]) -> TaskSpec:
        from runner.adapters.specfile import SpecError

        given = (("initialize", key, json.dumps(value)) for key, value in keys.items())
        try:
            return load(spec or "-", replace(changes, typed=(*changes.typed, *given)), **source)
        except SpecError as error:
            raise ValueError(str(error)) from error

    context.exit(converse(task, options, reload))
