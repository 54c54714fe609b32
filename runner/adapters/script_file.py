"""Reads the file of a scripted model: the replies it gives, one after another.

    replies:
      - text: "..."
        reasoning: "..."
        tools:
          - {name: Bash, arguments: {command: ls}, id: first}   # text: sent as it is
        usage: {input_tokens: 1200, output_tokens: 60, cache_read_tokens: 0, cache_write_tokens: 0}
        finish_reason: stop    # stop, length, tool_calls, content_filter
        delay: 0.5             # seconds before the reply
      - error: {kind: rate_limit, status: 429, message: "...", retry_after: 1, may_bill: false}

Rules of this file: every key is optional; `usage: none` is a provider that reports nothing, and
without `usage` the tokens are estimated from the text; all mistakes are reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

from runner.adapters.specfile.problem import At, Mark, Problem, Source, SpecError
from runner.adapters.specfile.yaml_document import Broken, Field, Fields, Items, Node, Scalar, parse
from runner.adapters.tool_calls import RawCall
from runner.core.messages import FinishReason, Usage
from runner.ports import ModelErrorKind

T = TypeVar("T")

ESTIMATE: Final = "estimate"


class ScriptError(SpecError):
    """A script cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedFailure:
    """How an attempt fails."""

    kind: ModelErrorKind
    status: int | None = None
    message: str | None = None
    retry_after_s: float | None = None
    may_bill: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One reply, or, with a `failure`, one attempt that breaks off after the text."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[RawCall, ...] = ()
    usage: Usage | Literal["estimate"] | None = ESTIMATE
    finish_reason: FinishReason | None = None
    delay_s: float = 0.0
    failure: ScriptedFailure | None = None


def read_script(path: Path) -> tuple[ScriptedReply, ...]:
    """The replies in `path`. Raises `ScriptError` with every mistake in the file."""
    source = Source(name=str(path), folder=path.parent)
    start = Mark(source=source)
    try:
        data = path.read_bytes()
    except OSError as error:
        problems: list[Problem] = []
        At("", problems).refuse(start, f"cannot be read: {error.strerror}")
        raise ScriptError(replace(problem, line=None) for problem in problems) from error
    root, found = parse(data, source)
    problems = [replace(problem, hint=None) for problem in found]  # they speak of specs
    replies = _script(root, At("", problems)) if root is not None else ()
    if problems:
        raise ScriptError(problems)
    return replies


def _script(root: Node, at: At) -> tuple[ScriptedReply, ...]:
    keys = _map(root, at, ("replies",))
    if "replies" not in keys:
        if isinstance(root, Fields):
            at.refuse(root.mark, "no `replies`", "list what the model says under `replies:`")
        return ()
    return tuple(
        _reply(entry, at.key("replies").item(index), index)
        for index, entry in enumerate(_list(keys["replies"].node, at.key("replies")))
    )


_REPLY_KEYS = ("text", "reasoning", "tools", "usage", "finish_reason", "delay", "error")


def _reply(node: Node, at: At, number: int) -> ScriptedReply:
    keys = _map(node, at, _REPLY_KEYS)
    tools = keys.get("tools")
    entries = _list(tools.node, at.key("tools")) if tools else ()
    calls = (
        _call(entry, at.key("tools").item(index), f"call_{number}_{index}")
        for index, entry in enumerate(entries)
    )
    return ScriptedReply(
        text=_get(keys, "text", at, _text, ""),
        reasoning=_get(keys, "reasoning", at, _text, ""),
        calls=tuple(calls),
        usage=_get(keys, "usage", at, _usage, ESTIMATE),
        finish_reason=_get(keys, "finish_reason", at, _finish_reason, None),
        delay_s=_get(keys, "delay", at, _seconds, 0.0),
        failure=_get(keys, "error", at, _failure, None),
    )


def _call(node: Node, at: At, default_id: str) -> RawCall:
    keys = _map(node, at, ("name", "arguments", "id"))
    if "name" not in keys and isinstance(node, Fields):
        at.refuse(node.mark, "no `name`", "name the tool")
    return RawCall(
        id=_get(keys, "id", at, _text, default_id),
        name=_get(keys, "name", at, _text, ""),
        arguments=_get(keys, "arguments", at, _arguments, "{}"),
    )


def _arguments(node: Node, at: At) -> str:
    """The characters a model would write. Text is taken as it stands, so it may be broken JSON."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    if isinstance(node, Fields):
        return json.dumps(_plain(node))
    _refuse(node, at, "a map, or text to play arguments that are not valid JSON")
    return "{}"


def _usage(node: Node, at: At) -> Usage | None:
    if isinstance(node, Scalar) and node.value == "none":
        return None
    if not isinstance(node, Fields):
        _refuse(node, at, "a map of token counts, or `none`")
        return None
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    keys = _map(node, at, names)
    return Usage(**{name: _get(keys, name, at, _count, 0) for name in names})


def _failure(node: Node, at: At) -> ScriptedFailure | None:
    keys = _map(node, at, ("kind", "status", "message", "retry_after", "may_bill"))
    if "kind" not in keys and isinstance(node, Fields):
        at.refuse(node.mark, "no `kind`", f"one of {', '.join(get_args(ModelErrorKind))}")
    return ScriptedFailure(
        kind=_get(keys, "kind", at, _kind, "provider_unavailable"),
        status=_get(keys, "status", at, _count, None),
        message=_get(keys, "message", at, _text, None),
        retry_after_s=_get(keys, "retry_after", at, _seconds, None),
        may_bill=_get(keys, "may_bill", at, _flag, False),
    )


# -- values --------------------------------------------------------------------------------------


def _get(
    keys: Mapping[str, Field], name: str, at: At, read: Callable[[Node, At], T], default: T
) -> T:
    return read(keys[name].node, at.key(name)) if name in keys else default


def _map(node: Node, at: At, known: tuple[str, ...]) -> Mapping[str, Field]:
    """The known keys of a map; every other key is a mistake."""
    if not isinstance(node, Fields):
        _refuse(node, at, "a map")
        return {}
    for key, value in node.fields.items():
        if key not in known:
            near = at.nearest(key, known)
            hint = f"did you mean `{near}`?" if near else f"known keys: {', '.join(known)}"
            at.key(key).refuse(value.mark, "unknown key", hint)
    return {key: value for key, value in node.fields.items() if key in known}


def _list(node: Node, at: At) -> tuple[Node, ...]:
    if isinstance(node, Items):
        return node.entries
    _refuse(node, at, "a list")
    return ()


def _text(node: Node, at: At) -> str:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    _refuse(node, at, "text")
    return ""


def _count(node: Node, at: At) -> int:
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    _refuse(node, at, "a whole number, 0 or more")
    return 0


def _seconds(node: Node, at: At) -> float:
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and value >= 0:
        return float(value)
    _refuse(node, at, "a number of seconds, 0 or more")
    return 0.0


def _flag(node: Node, at: At) -> bool:
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.value
    _refuse(node, at, "true or false")
    return False


def _finish_reason(node: Node, at: At) -> FinishReason:
    return _one_of(node, at, get_args(FinishReason))


def _kind(node: Node, at: At) -> ModelErrorKind:
    return _one_of(node, at, get_args(ModelErrorKind))


def _one_of(node: Node, at: At, words: tuple[T, ...]) -> T:
    for word in words:
        if isinstance(node, Scalar) and node.value == word:
            return word
    _refuse(node, at, f"one of {', '.join(map(str, words))}")
    return words[0]


def _plain(node: Node) -> Any:
    """A value inside arguments, as JSON has it."""
    match node:
        case Scalar(value=value):
            return float(value) if isinstance(value, Decimal) else value
        case Items(entries=entries):
            return [_plain(entry) for entry in entries]
        case Fields(fields=fields):
            return {key: _plain(field.node) for key, field in fields.items()}
        case Broken():
            return None


def _refuse(node: Node, at: At, wanted: str) -> None:
    """Say what is wanted here, unless the value was refused already."""
    if not isinstance(node, Broken):
        at.refuse(node.mark, f"must be {wanted}")
