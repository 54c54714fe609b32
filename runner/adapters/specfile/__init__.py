"""From a YAML file to a `TaskSpec`: read, include, override, resolve; and back to YAML.

Rules of this file:
* All mistakes are found at once, each with its file and line, and nothing else is raised.
* Relative paths start at the folder of the file they are written in; those typed on the command
  line, and those of a spec from standard input, at the current folder.
* `extends` is one level deep; later wins, maps merge key by key, lists replace.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import yaml

from runner.adapters.ci_text import inert, visible
from runner.adapters.specfile import inputs as given_inputs
from runner.adapters.specfile.auto_mode import settle_auto_mode
from runner.adapters.specfile.custom_keys import names_in, unplaced
from runner.adapters.specfile.keys import TASK
from runner.adapters.specfile.layers import (
    Override,
    included,
    included_files,
    overridden,
    top_level,
)
from runner.adapters.specfile.model import SPEC_KEYS, advise, planned_keys, task_schema
from runner.adapters.specfile.pricing import by_model
from runner.adapters.specfile.problem import (
    HIDDEN,
    INVALID,
    At,
    Invalid,
    Problem,
    Source,
    SpecError,
)
from runner.adapters.specfile.shapes import FileText
from runner.adapters.specfile.texts import Body, Unusable, body, fill, literal, read_bytes
from runner.adapters.specfile.words import passed_variable
from runner.adapters.specfile.yaml_document import Fields, Items, Node, Scalar, parse
from runner.adapters.specfile.yaml_text import MAX_BYTES, plain_value
from runner.core.spec import EnvSpec, TaskSpec, WorkspaceSpec
from runner.core.wire import encode

__all__ = [
    "SPEC_KEYS",
    "Override",
    "Problem",
    "SpecError",
    "load_spec",
    "planned_keys",
    "resolved_yaml",
    "spec_hash",
    "task_schema",
]

_NOTHING: Mapping[str, str] = MappingProxyType({})
NO_PROMPT = "The prompt is given later."
_TEXTS = ("prompt", "system_prompt", "append_system_prompt")
_STDIN = "<stdin>"


def load_spec(
    path: Path | Literal["-"],
    *,
    overrides: Sequence[str | Override] = (),
    inputs: Mapping[str, str] = _NOTHING,
    stdin: Callable[[], str],
    cwd: Path | None = None,
    demand_inputs: bool = True,
    demand_prompt: bool = True,
    called: str = _STDIN,
    own_tools: Iterable[str] = (),
) -> TaskSpec:
    """Load a spec, with overrides and inputs. Raises `SpecError` with all problems.

    `overrides` are `a.b=value` texts (`--set`) or `Override`s of other flags; `stdin` is called
    once at most, and only for a spec or a `prompt_file` named `-`. Without `demand_inputs` (for
    `validate`) a required input may be missing; its placeholder then stays. Without
    `demand_prompt` a prompt may be missing; `NO_PROMPT` stands for it. `called` names a spec `-`.
    `own_tools` are names of tools that a host program brings: rules may name them.
    """
    folder, at = (cwd or Path.cwd()).resolve(), At("", [], advise)
    main, data = _read(path, folder, stdin, called)
    tree, problems = parse(data, main)
    at.problems.extend(problems)
    own = top_level(tree, at)
    if own is None:
        raise SpecError(at.problems)
    whole = overridden(included(own, at), overrides, folder, at)
    if not demand_prompt and not {"prompt", "prompt_file"} & whole.fields.keys():
        given_later = Override(source="prompt", path="prompt", value=NO_PROMPT)
        whole = overridden(whole, [given_later], folder, at)
    at = dataclasses.replace(at, own_tools=frozenset((*own_tools, *names_in(whole))))
    given = given_inputs.read_given(inputs, folder, at.key("inputs"))
    values = TASK.read_fields(whole, at)
    keys = {name: name for name in _TEXTS} | {"prompt": _choose_prompt(values, whole, at)}
    values["inputs"], filling = given_inputs.settle(
        values.get("inputs", {}), _node(whole, "inputs"), given, at.key("inputs"), demand_inputs
    )
    untrusted = [name for name, one in values["inputs"].items() if one.untrusted]
    named = (*_named_files(path, folder), *included_files(own))
    values["sources"] = (*named, *_text_files(values), *_schema_file(whole))
    for name, key in keys.items():
        if name in values:
            here, left_stdin = at.key(key), None if str(path) == "-" else stdin
            text = _text(values[name], _node(whole, key), here, left_stdin)
            closed_to = () if name == "prompt" else untrusted
            values[name] = (
                text if isinstance(text, Invalid) else fill(text, filling, here, closed_to)
            )
    if "pricing" in values:
        values["pricing"] = by_model(values["pricing"], values.get("model"))
    _settle_workspace(values, whole, main, at)
    _keep_key_from_tools(values, whole, at)
    settle_auto_mode(values, whole, at)
    if at.problems:
        raise SpecError(_in_reading_order(at.problems, main))
    return TaskSpec(**values)


def resolved_yaml(spec: TaskSpec) -> str:
    """The whole spec with every default, as YAML that loads back to the same `TaskSpec` (as long
    as it stays below the size of a spec file)."""
    written = TASK.write(spec)
    for name in _TEXTS:
        if name in written:
            written[name] = literal(written[name], spec.inputs)
    text = yaml.dump(
        written,
        Dumper=_Dumper,
        sort_keys=False,
        width=_NO_WRAP,
        allow_unicode=not _holds_hidden(written),
    )
    # A CI system obeys it anywhere in a line; `_write_text` has put it in double quotes.
    return _COMMANDS.sub(r"#\\x23", text)


def spec_hash(spec: TaskSpec) -> str:
    """SHA-256 of the resolved spec in canonical JSON, in hex."""
    told = dataclasses.replace(spec, sources=(), custom_tools=unplaced(spec.custom_tools))
    canonical = json.dumps(encode(told), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


# -- reading -------------------------------------------------------------------------------------


def _read(
    path: Path | str, folder: Path, stdin: Callable[[], str], called: str
) -> tuple[Source, bytes]:
    if str(path) == "-":
        source = Source(name=called, folder=folder, numbered=called == _STDIN)
        # What was no UTF-8 arrives as surrogates, and must not become UTF-8 on the way.
        return source, stdin().encode("utf-8", "surrogatepass")
    file = folder / path
    try:
        data = read_bytes(file, MAX_BYTES)
    except Unusable as error:
        raise SpecError([_unreadable(str(path), file, str(error))]) from None
    # A pipe stands in no folder (that of `<(...)` is in /proc): it is like standard input.
    here = folder if file.is_fifo() else file.parent.resolve()
    return Source(name=str(path), folder=here), data


def _named_files(path: Path | str, folder: Path) -> tuple[str, ...]:
    """The spec itself, when it is a file that stays."""
    file = folder / path
    return (str(file),) if str(path) != "-" and file.is_file() else ()


def _text_files(values: Mapping[str, Any]) -> tuple[str, ...]:
    texts = (values.get(name) for name in _TEXTS)
    return tuple(text.path for text in texts if isinstance(text, FileText) and text.path != "-")


def _schema_file(whole: Fields) -> tuple[str, ...]:
    node = _node(whole, "output_schema")
    if not isinstance(node, Scalar) or not node.text:
        return ()
    return (str((node.mark.source.folder / node.text).absolute()),)


def _unreadable(name: str, file: Path, why: str) -> Problem:
    hint = None
    if not file.exists() and file.parent.is_dir():
        specs = [other.name for other in sorted(file.parent.glob("*.y*ml"))]
        near = At("", []).nearest(file.name, specs)
        hint = f"did you mean {file.parent / near}?" if near else None
    return Problem(file=name, line=None, column=None, path="", message=f"the file {why}", hint=hint)


def _choose_prompt(values: dict[str, Any], whole: Fields, at: At) -> str:
    """Make `prompt` of what was given; the answer is the key it stands at."""
    given = [name for name in ("prompt", "prompt_file") if name in values]
    if not given:
        hint = "write the task as text, or name its file with `prompt_file`"
        values["prompt"] = at.key("prompt").refuse(whole.mark, "required, but missing", hint)
    if len(given) == 2:
        mark = whole.fields["prompt_file"].mark
        at.key("prompt_file").refuse(mark, "there is a `prompt` already", "keep one of the two")
    file = values.pop("prompt_file", None)
    values.setdefault("prompt", file)
    return "prompt_file" if given == ["prompt_file"] else "prompt"


def _text(
    value: str | FileText | Invalid, node: Node | None, at: At, stdin: Callable[[], str] | None
) -> Body | Invalid:
    if isinstance(value, Invalid) or node is None:
        return INVALID
    return body(value, node, at, stdin)


def _settle_workspace(values: dict[str, Any], whole: Fields, main: Source, at: At) -> None:
    """The default `.` is the folder of the spec, as if it were written there."""
    workspace = values.get("workspace", WorkspaceSpec())
    if isinstance(workspace, Invalid) or workspace.path != WorkspaceSpec().path:
        return
    values["workspace"] = dataclasses.replace(workspace, path=str(main.folder))
    if main.folder == main.folder.parent:
        hint = "the default is the folder of the spec: name another one"
        at.key("workspace").refuse(whole.mark, "the root of the file system", hint)


def _keep_key_from_tools(values: Mapping[str, Any], whole: Fields, at: At) -> None:
    search = values.get("web_search")
    _keep_from_tools(values.get("api_key_env"), values, whole, at)
    _keep_from_tools(getattr(search, "api_key_env", None), values, whole, at)


def _keep_from_tools(variable: object, values: Mapping[str, Any], whole: Fields, at: At) -> None:
    env = values.get("env")
    if not isinstance(env, EnvSpec) or not isinstance(variable, str):
        return
    hint = "it is an `api_key_env`: the runner itself uses it, and no tool needs its key"
    here = at.key("env").key("pass")
    if variable in env.pass_ and passed_variable(variable) is None:
        index = env.pass_.index(variable)
        entry = _node(whole, "env", "pass")
        mark = entry.entries[index].mark if isinstance(entry, Items) else whole.mark
        here.item(index).refuse(mark, f"tools never get {variable}", hint)
    if variable in env.set and passed_variable(variable) is None:
        node = _node(whole, "env", "set", variable)
        here = at.key("env").key("set").key(variable)
        here.refuse(whole.mark if node is None else node.mark, f"tools never get {variable}", hint)


def _node(tree: Node, *names: str) -> Node | None:
    node: Node | None = tree
    for name in names:
        entry = node.fields.get(name) if isinstance(node, Fields) else None
        node = None if entry is None else entry.node
    return node


def _in_reading_order(problems: Iterable[Problem], main: Source) -> list[Problem]:
    def place(problem: Problem) -> tuple[bool, bool, str, int, int]:
        typed, other = problem.line is None, problem.file != main.name
        file = "" if typed else problem.file
        return typed, other, file, problem.line or 0, problem.column or 0

    return sorted(problems, key=place)


# -- writing -------------------------------------------------------------------------------------

_NO_WRAP = 10**9
_COMMANDS = re.compile(r"##(?=\w*\[)")


class _Dumper(yaml.SafeDumper):
    """Text that YAML 1.1 or 1.2 would read as something else in quotes, lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None if isinstance(plain_value(text), str) else '"'
    style = '"' if inert(text) != text else style
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _write_money(dumper: yaml.SafeDumper, amount: Decimal) -> yaml.Node:
    kind = "int" if amount == amount.to_integral_value() else "float"
    digits = f"{amount:f}" if kind == "float" else str(int(amount))
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", digits)


_Dumper.add_representer(str, _write_text)
_Dumper.add_representer(Decimal, _write_money)


def _holds_hidden(written: Any) -> bool:
    """Whether any text has characters that a spec may hold only as escapes."""
    if isinstance(written, str):
        hidden = any(match[0] not in "\t\n" for match in HIDDEN.finditer(written))
        return hidden or visible(written) != written
    if isinstance(written, dict):
        return any(map(_holds_hidden, [*written, *written.values()]))
    return isinstance(written, list) and any(map(_holds_hidden, written))
