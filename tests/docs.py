"""Write the generated parts of the documentation, or fail when one is stale.

    python tests/docs.py --write
    python tests/docs.py --check

A generated part stands between `<!-- generated:NAME -->` and `<!-- end:NAME -->`; all other text
is written by hand and left alone. The JSON Schemas in configs/schema are generated whole.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import get_args

import click

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, not as a module
    sys.path.insert(0, str(ROOT))

from runner.adapters.specfile import SPEC_KEYS  # noqa: E402  # after the path is set
from runner.cli import cli  # noqa: E402
from runner.cli.claude import IDLE, REFUSED, claude  # noqa: E402
from runner.cli.tables import SchemaName, schema_of  # noqa: E402
from runner.core.events import EPHEMERAL_TYPES, PERSISTED_TYPES  # noqa: E402
from runner.core.policy import RULES  # noqa: E402
from runner.reports.exit_codes import exit_code_markdown  # noqa: E402

PAGES = ("README.md", ".github/ARCHITECTURE.md")
SCHEMAS: tuple[SchemaName, ...] = get_args(SchemaName)
BLOCK = re.compile(
    r"(?P<open><!-- generated:(?P<name>[\w:-]+) -->\n).*?(?P<close><!-- end:(?P=name) -->)",
    re.DOTALL,
)
HELP_WIDTH = 88


class StaleError(Exception):
    """A marker names something that cannot be generated, or has no end."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def spec_table() -> list[str]:
    """Every key of a spec."""
    rows = ((f"`{key}`", kind, default, means) for key, kind, default, means in SPEC_KEYS)
    return table(("key", "type", "default", "meaning"), rows)


def event_table() -> list[str]:
    """Every event."""
    logged = [(name, "log and stream", cls.__doc__) for name, cls in PERSISTED_TYPES.items()]
    shown = [(name, "stream only", cls.__doc__) for name, cls in EPHEMERAL_TYPES.items()]
    rows = ((f"`{name}`", where, _first_line(doc)) for name, where, doc in logged + shown)
    return table(("type", "where", "meaning"), rows)


def command_table() -> list[str]:
    """Every command."""
    rows = ((f"`{path}`", _short_help(command)) for path, command in _commands(cli, "autopilot"))
    return table(("command", "does"), rows)


def decision_table() -> list[str]:
    """The rules that decide what happens next."""
    rows = ((str(n), f"`{r.name}`", r.when, r.then) for n, r in enumerate(RULES, start=1))
    return table(("", "rule", "when", "then"), rows)


def help_text(name: str) -> list[str]:
    """The `--help` of one command."""
    program = click.Context(cli, info_name="autopilot", **cli.context_settings)
    context = click.Context(
        cli.commands[name], info_name=name, parent=program, terminal_width=HELP_WIDTH
    )
    return ["```text", *context.get_help().splitlines(), "```"]


def sdk_flag_table() -> list[str]:
    """The flags of Claude's SDKs: what each sets, and why some change nothing or are refused."""
    own = {"--input-format", "--output-format", "--help", "--set", "--input", "--home"}
    other = own | IDLE.keys() | REFUSED.keys()
    rows = [
        (option.opts[0], (option.help or "").rstrip("."))
        for option in claude.params
        if isinstance(option, click.Option) and option.opts[0] not in other
    ]
    rows += [(flag, f"changes nothing: {reason}") for flag, reason in IDLE.items()]
    rows += [(flag, f"refused: {advice}") for flag, advice in REFUSED.items()]
    return table(("flag", "what it does"), ((f"`{flag}`", said) for flag, said in rows))


GENERATED: Mapping[str, Callable[[], list[str]]] = {
    "spec": spec_table,
    "exit-codes": exit_code_markdown,
    "events": event_table,
    "commands": command_table,
    "decisions": decision_table,
    "sdk-flags": sdk_flag_table,
    **{f"help-{name}": partial(help_text, name) for name in cli.commands},
}


def filled(text: str, page: str) -> str:
    """The page with every generated part as it should be. Raises `StaleError`."""
    found = [match["name"] for match in BLOCK.finditer(text)]
    opened = re.findall(r"<!-- generated:([\w:-]+) -->", text)
    unknown = [name for name in opened if name not in GENERATED]
    if unknown:
        raise StaleError(f"{page}: nothing generates {', '.join(unknown)}")
    if found != opened:
        raise StaleError(f"{page}: a generated part has no end: {', '.join(opened)}")
    return BLOCK.sub(
        lambda m: m["open"] + "\n".join(GENERATED[m["name"]]()) + "\n" + m["close"], text
    )


def page_text(page: str) -> str:
    """A page as it should be."""
    return filled((ROOT / page).read_text(encoding="utf-8"), page)


def schema_text(name: SchemaName) -> str:
    """A schema as it should be."""
    return json.dumps(schema_of(name), indent=2) + "\n"


WANTED: Mapping[str, Callable[[], str]] = {
    **{page: partial(page_text, page) for page in PAGES},
    **{f"configs/schema/{name}.schema.json": partial(schema_text, name) for name in SCHEMAS},
}


def settle(name: str, text: str, *, write: bool) -> bool:
    """Whether the file is as it should be, at the end; what is wrong with it is printed."""
    path = ROOT / name
    now = path.read_text(encoding="utf-8") if path.exists() else ""
    if now == text:
        return True
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {name}")
        return True
    diff = unified_diff(now.splitlines(), text.splitlines(), name, "generated", lineterm="", n=1)
    print("\n".join(list(diff)[:40]))
    print(f"{name} is stale: run `poe docs`")
    return False


def main(arguments: list[str]) -> int:
    """Write, or check and say what differs; 0 when all is as it should be."""
    if arguments not in (["--write"], ["--check"]):
        print(__doc__)
        return 2
    good = True
    for name, make in WANTED.items():
        try:
            good &= settle(name, make(), write=arguments == ["--write"])
        except (StaleError, OSError) as error:
            print(error)
            good = False
    return 0 if good else 1


def _commands(group: click.Group, path: str) -> Iterable[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


def _short_help(command: click.Command) -> str:
    return command.get_short_help_str(limit=120)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
